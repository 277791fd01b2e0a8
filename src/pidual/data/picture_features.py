"""Pictures as vectors, learned without labels and without a model: learned patches, directions of gradients, colours.

    features = PictureFeatures.fit(x)      x: uint8 (N, 3, H, W), all of one size
    vectors = features(x_new)              float32 (M, n)

Coates, Lee and Ng, "An analysis of single-layer networks in unsupervised feature learning", AISTATS 2011; Dalal and
Triggs, "Histograms of oriented gradients for human detection", CVPR 2005.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import fingerprint, replacing

Floats = NDArray[Any]

PATCH, STRIDE, N_PATCHES, N_DRAWN = 6, 2, 400, 20_000  # pixels a side, pixels between two, learned, looked at
CELL, ORIENTATIONS = 4, 9  # pixels a side, and directions of a gradient from 0 to 180 degrees
CHUNK = 100  # pictures described at a time


@dataclass(frozen=True, eq=False)
class PictureFeatures:
    """Principal components of gradients, colours and learned patches, all scaled alike."""

    # all that was fitted: `patch_mean` and `filters` of the patches, `mean` and `directions` of the components
    tensors: dict[str, Floats]

    @classmethod
    def fit(cls, x: NDArray[np.uint8], n: int = 128) -> "PictureFeatures":
        """Learn from pictures; at most as many components as there are pictures."""
        patch_mean, filters = learn_patches(x)
        described = _describe(x, patch_mean, filters)
        mean, std = described.mean(0), described.std(0) + 1e-6
        directions = _principal_directions((described - mean) / std, n) / std[:, None]
        scale = ((described - mean) @ directions).std()
        directions = (directions / max(scale, 1e-12)).astype(np.float32)
        return cls({"patch_mean": patch_mean, "filters": filters, "mean": mean, "directions": directions})

    def __call__(self, x: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return pictures of the size of those it was fitted on as vectors."""
        described = _describe(x, self.tensors["patch_mean"], self.tensors["filters"])
        vectors: NDArray[np.float32] = (described - self.tensors["mean"]) @ self.tensors["directions"]
        return vectors


def patch_features(x: NDArray[np.uint8], x_test: NDArray[np.uint8], cache: Path, n: int = 400) -> tuple[Floats, Floats]:
    """Return responses of patches learned on `x`, reduced to `n` components and turned at random.

    Principal components come by size, and standardising each would make noise of the small ones; turned at random, all
    are of about one size, and standardising them changes nothing. What was made once is read from the folder `cache`.
    """
    path = cache / f"patches-{fingerprint([x[::97].tobytes(), x_test[::97].tobytes(), str((x.shape, n)).encode()])}.npy"
    if not path.is_file():
        patch_mean, filters = learn_patches(x)
        seen, seen_test = (
            _in_parts(part, lambda some: _responses(some, patch_mean, filters, 1.0)) for part in (x, x_test)
        )
        mean, std = seen.mean(0), seen.std(0) + 1e-6
        directions = _principal_directions((seen - mean) / std, n)
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((directions.shape[1],) * 2))[0]
        directions = (directions @ turn / std[:, None]).astype(np.float32)
        cache.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, np.concatenate([(part - mean) @ directions for part in (seen, seen_test)]))
    made = np.load(path)
    return made[: len(x)], made[len(x) :]


def _describe(x: NDArray[np.uint8], patch_mean: Floats, filters: Floats) -> NDArray[np.float32]:
    """Return gradients, colours and patches of pictures side by side."""
    return _in_parts(
        x,
        lambda some: np.concatenate(
            [gradients(some), colours(some), _responses(some, patch_mean, filters, 0.5)], axis=1
        ),
    )


def _in_parts(x: NDArray[np.uint8], describe: Callable[[NDArray[np.uint8]], Floats]) -> NDArray[np.float32]:
    """Describe some pictures at a time, so that memory holds what is made of them."""
    parts = [describe(x[first : first + CHUNK]).astype(np.float32) for first in range(0, len(x), CHUNK)]
    return np.concatenate(parts)


def _principal_directions(x: Floats, n: int) -> Floats:
    """Return the `n` directions (columns) in which centred rows vary most; fewer where there are fewer rows."""
    if len(x) < x.shape[1]:
        return np.asarray(np.linalg.svd(x, full_matrices=False)[2][:n].T)
    _, vectors = np.linalg.eigh(x.T @ x)
    return np.asarray(vectors[:, ::-1][:, :n])


# --- learned patches ---


def learn_patches(x: NDArray[np.uint8], seed: int = 0) -> tuple[Floats, Floats]:
    """Return the mean of patches (P,), and filters (P, N_PATCHES) that whiten patches and compare them with centres."""
    from sklearn.cluster import MiniBatchKMeans

    rng = np.random.default_rng(seed)
    image, (row, column) = (
        rng.integers(len(x), size=N_DRAWN),
        [rng.integers(0, side - PATCH + 1, N_DRAWN) for side in x.shape[2:]],
    )
    drawn = [x[i, :, r : r + PATCH, c : c + PATCH].ravel() for i, r, c in zip(image, row, column, strict=True)]
    patches = _even_contrast(np.stack(drawn).astype(np.float32))
    mean = patches.mean(0)
    values, vectors = np.linalg.eigh(np.cov(patches.T))
    whiten = vectors / np.sqrt(values + 0.1) @ vectors.T
    centres = MiniBatchKMeans(N_PATCHES, random_state=seed, n_init=1, max_iter=30).fit((patches - mean) @ whiten)
    centres = centres.cluster_centers_ / np.linalg.norm(centres.cluster_centers_, axis=1, keepdims=True)
    return mean.astype(np.float32), (whiten @ centres.T).astype(np.float32)


def _responses(x: NDArray[np.uint8], mean: Floats, filters: Floats, threshold: float) -> Floats:
    """Return how much each patch is seen in each quarter of a picture, above a threshold: (N, 4 N_PATCHES)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (PATCH, PATCH), axis=(2, 3))[:, :, ::STRIDE, ::STRIDE]
    n, _, height, width = windows.shape[:4]
    patches = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, height, width, -1).astype(np.float32)
    seen = (_even_contrast(patches) - mean) @ filters - threshold
    np.maximum(seen, 0, out=seen)
    halves = [(slice(0, size // 2), slice(size // 2, None)) for size in (height, width)]
    quarters = [seen[:, rows, columns].mean((1, 2)) for rows in halves[0] for columns in halves[1]]
    return np.stack(quarters, 1).reshape(n, -1)


def _even_contrast(patches: Floats) -> Floats:
    """Return patches without their mean, divided by their contrast."""
    patches = patches - patches.mean(-1, keepdims=True)
    return np.asarray(patches / np.sqrt(patches.var(-1, keepdims=True) + 10))


# --- gradients and colours ---


def gradients(x: NDArray[np.uint8]) -> Floats:
    """Return histograms of gradient directions in cells of 4 x 4 pixels, each divided by the norm of its 2 x 2."""
    grey = x.astype(np.float32).mean(1) / 255
    dy, dx = np.zeros_like(grey), np.zeros_like(grey)
    dy[:, 1:-1], dx[:, :, 1:-1] = grey[:, 2:] - grey[:, :-2], grey[:, :, 2:] - grey[:, :, :-2]
    size = np.hypot(dx, dy)
    angle = np.mod(np.arctan2(dy, dx), np.pi) * ORIENTATIONS / np.pi
    low = np.floor(angle)
    share = angle - low
    cells = []
    for direction in range(ORIENTATIONS):
        weight = size * (
            np.where(low % ORIENTATIONS == direction, 1 - share, 0)
            + np.where((low + 1) % ORIENTATIONS == direction, share, 0)
        )
        cells.append(_grid(weight, x.shape[2] // CELL, x.shape[3] // CELL).sum((2, 4)))
    found = np.stack(cells, -1)  # (n, rows, columns, 9)
    energy = np.pad((found**2).sum(-1), ((0, 0), (0, 1), (0, 1)), mode="edge")
    block = energy[:, :-1, :-1] + energy[:, 1:, :-1] + energy[:, :-1, 1:] + energy[:, 1:, 1:]
    return np.asarray(np.sqrt(found / np.sqrt(block + 1e-3)[..., None]).reshape(len(x), -1))


def colours(x: NDArray[np.uint8]) -> Floats:
    """Return mean and standard deviation of each colour in the parts of a 4 x 4 grid."""
    height, width = x.shape[2:]
    parts = _grid(x.astype(np.float32).reshape(-1, height, width) / 255, 4, 4)
    return np.concatenate([part.reshape(len(x), -1) for part in (parts.mean((2, 4)), parts.std((2, 4)))], axis=1)


def _grid(values: Floats, rows: int, columns: int) -> Floats:
    """Return numbers (N, H, W) as the parts of a grid, (N, rows, ., columns, .); what does not divide is left out."""
    n, height, width = values.shape
    height, width = height // rows, width // columns
    return values[:, : height * rows, : width * columns].reshape(n, rows, height, columns, width)
