"""The closed form on pictures: what `data.picture_features` makes of them without labels, then a mixture of kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...data.images import LazyImages
from ...data.picture_features import N_PATCHES, PATCH, PictureFeatures
from .network import KernelMixture

SIDE, LEAST_SIDE = 32, 8  # pixels: larger pictures are made smaller, to less than twice that; smaller ones say little
LEARNED, CHUNK = 10_000, 1_000  # pictures that features are learned from at most, and pictures read at a time


def is_picture(in_shape: Sequence[int]) -> bool:
    """Return whether inputs of this shape are pictures (C, H, W) that have features."""
    return len(in_shape) == 3 and in_shape[0] in (1, 3) and min(in_shape[1:]) >= LEAST_SIDE


class PictureMixture(nn.Module):
    """A mixture of kernel regressions on features of pictures.

    `in_shape`: channels, height and width.
    `n_described`, `n_features`: numbers that describe a picture before, and after, they are reduced to principal
        components.
    `n_classes`, `**options`: of the mixture.
    """

    levels: Tensor

    def __init__(self, in_shape: Sequence[int], n_classes: int, *, n_described: int, n_features: int, **options: Any):
        super().__init__()
        self.mixture, width = KernelMixture(n_features, n_classes, **options), in_shape[0] * PATCH**2
        self.fitted = {"patch_mean": (width,), "filters": (width, N_PATCHES), "mean": (n_described,)}
        self.fitted["directions"] = n_described, n_features
        for name, shape in {**self.fitted, "levels": (2,)}.items():  # the levels of black and white
            self.register_buffer(name, torch.zeros(shape))

    @classmethod
    def of(cls, x: NDArray[Any] | LazyImages, rows: NDArray[np.int64], n_classes: int) -> "PictureMixture":
        """Learn features from evenly spaced ones of these pictures; the mixture is to be fitted."""
        some = _read(x, rows[:: -(-len(rows) // LEARNED)])
        low, high = (0.0, 255.0) if x.dtype == np.uint8 else (float(some.min()), float(some.max()))
        levels = np.array([low, high if high > low else low + 1], np.float32)
        tensors = PictureFeatures.fit(_as_bytes(some, levels)).tensors
        sizes = dict(zip(("n_described", "n_features"), tensors["directions"].shape, strict=True))
        made = cls(x.shape[1:], n_classes, **sizes, n_landmarks=1, kernels=[])
        for name, value in {**tensors, "levels": levels}.items():
            made.get_buffer(name).copy_(torch.from_numpy(np.ascontiguousarray(value)))
        return made

    def around(self, mixture: KernelMixture) -> "PictureMixture":
        """Take the mixture that was fitted to what this describes."""
        self.mixture = mixture
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments that make a module of these sizes, beside those that the data decides."""
        n_described, n_features = self.get_buffer("directions").shape
        return {"n_described": n_described, "n_features": n_features, **self.mixture.options}

    def describe(self, x: NDArray[Any] | LazyImages) -> NDArray[np.float32]:
        """Return the features of pictures (N, n_features)."""
        features = PictureFeatures({name: self.get_buffer(name).cpu().numpy() for name in self.fitted})
        levels, parts = self.levels.cpu().numpy(), range(0, len(x), CHUNK)
        found = [features(_as_bytes(_read(x, np.arange(at, min(at + CHUNK, len(x)))), levels)) for at in parts]
        return np.concatenate(found, dtype=np.float32)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithm of the probabilities of the classes (B, K)."""
        found: Tensor = self.mixture(torch.from_numpy(self.describe(x.cpu().numpy())).to(x.device))
        return found


def _read(x: NDArray[Any] | LazyImages, rows: NDArray[np.int64]) -> NDArray[Any]:
    return np.asarray(x[rows] if isinstance(x, np.ndarray) else x.take(rows))


def _as_bytes(x: NDArray[Any], levels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return pictures as bytes from black to white, large ones as the means of squares of pixels."""
    times = max(1, min(x.shape[2:]) // SIDE)
    height, width = (size // times for size in x.shape[2:])
    if times > 1 or x.dtype != np.uint8:
        cut = x[:, :, : height * times, : width * times]
        x = cut.reshape(*x.shape[:2], height, times, width, times).mean((3, 5), dtype=np.float32)
        x = ((x - levels[0]) * (255 / (levels[1] - levels[0]))).round().clip(0, 255).astype(np.uint8)
    return x
