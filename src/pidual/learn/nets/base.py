"""What every network is: inputs are standardised, `features(x)` follows, then a linear `head`; and how layers begin."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn


class Standardize(nn.Module):
    """Inputs of any number type to float32, minus a mean, divided by a standard deviation.

    `mean`, `std` (D,): one value per feature for inputs of shape (B, D), one per channel for images of shape (B, D, H,
        W). A standard deviation of zero, or one that float32 cannot tell from zero beside its mean, counts as 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        super().__init__()
        mean_, std_ = np.atleast_1d(np.asarray(mean, np.float64)), np.atleast_1d(np.asarray(std, np.float64))
        constant = std_ <= 1e-7 * np.abs(mean_)
        self.register_buffer("mean", torch.as_tensor(mean_, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(np.where(constant, 1.0, std_), dtype=torch.float32))

    @classmethod
    def fit(cls, x: NDArray[Any], *, block_bytes: int = 1 << 26) -> "Standardize":
        """Find the mean and standard deviation of each column or channel, in blocks so that a memory map stays one."""
        axes = (0, *range(2, x.ndim))
        rows = max(1, block_bytes // max(1, 8 * math.prod(x.shape[1:])))
        shift = np.asarray(x[:rows], np.float64).mean(axes, keepdims=True)  # guards the squares against cancellation
        total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        for start in range(0, len(x), rows):
            block = np.asarray(x[start : start + rows], np.float64) - shift
            total += block.sum(axes)
            squares += np.square(block).sum(axes)
        count = x.size / x.shape[1]
        mean = total / count
        return cls(shift.reshape(-1) + mean, np.sqrt(np.maximum(squares / count - mean**2, 0.0)))

    def forward(self, x: Shaped[Tensor, "B D *rest"]) -> Float[Tensor, "B D *rest"]:
        """Return `x` standardised, as float32."""
        shape = (-1,) + (1,) * (x.ndim - 2)
        return (x.to(torch.float32) - self.mean.view(shape)) / self.std.view(shape)


class Network(nn.Module):
    """Base of the prediction networks: standardise, `features`, `head`.

    Each takes `n_classes`, the numbers (`in_dim`) or colour channels (`in_channels`) of an input, `standardize`, which
    is applied to the input first, and options of its own.

    Attributes
    ----------
    n_features : int
        Width D of `features(x)`.
    head : nn.Linear
        Features to logits.
    """

    def __init__(self, n_features: int, n_classes: int, standardize: Standardize | None) -> None:
        super().__init__()
        self.n_features = n_features
        self.standardize = standardize
        self.head = nn.Linear(n_features, n_classes)

    def prepare(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B ..."]:
        """Return `x` as standardised float32 (only cast when the network has no `Standardize`)."""
        if self.standardize is None:
            return x if x.is_floating_point() and x.dtype != torch.float64 else x.to(torch.float32)
        standardised: Tensor = self.standardize(x)
        return standardised

    def features(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B D"]:
        """Return what the head sees: one vector of `n_features` numbers per input."""
        raise NotImplementedError

    @property
    def last_stage(self) -> list[nn.Module]:
        """Return the last layers before the head, for methods that retrain them; none where a network does not say."""
        return []

    def forward(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B K"]:
        """Return the logits."""
        logits: Tensor = self.head(self.features(x))
        return logits


def glorot_linear(in_dim: int, out_dim: int) -> nn.Linear:
    """Make a linear layer with Glorot-uniform weights and zero biases."""
    layer = nn.Linear(in_dim, out_dim)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def conv(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Make a convolution without bias that divides the image size by the stride; truncated He-normal weights."""
    conv = nn.Conv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False)
    he_normal_(conv.weight)
    return conv


def he_normal_(weight: Tensor) -> None:
    """Draw He-normal weights by fan-in, truncated at two standard deviations and rescaled to keep the variance.

    Draws again what falls outside: twice as fast as `nn.init.trunc_normal_`, which inverts the error function.
    """
    if weight.is_meta:
        return
    std = math.sqrt(2.0 / weight[0].numel()) / 0.8796256610342398  # std of a unit normal cut at +-2
    with torch.no_grad():
        flat = weight.normal_().view(-1)
        while len(outside := (flat.abs() > 2).nonzero()[:, 0]):
            flat[outside] = torch.randn(len(outside), dtype=flat.dtype, device=flat.device)
        weight.mul_(std)


def pooled(x: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
    """Average over the image, of any size."""
    return x.mean((2, 3))
