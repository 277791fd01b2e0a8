"""Kernels of x as features: k(x, landmarks), at most LANDMARKS of them.

    linear      <x, x'> / d
    gauss       exp(-|x - x'|^2 / (width * median |x - x'|^2))
    relu        the kernel of an infinitely wide ReLU network with one hidden layer

on columns that are standardised (`each`), or centred with one scale for all (`alike`): columns that are principal
components or embeddings come in the order of their importance, which standardising takes away.

Landmarks are all inputs where these are few, else inputs drawn at random. A linear kernel of many inputs needs none:
its features are x / sqrt(d).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANDMARKS = 1000
CLIP = {"each": 5.0, "alike": 8.0}
UNUSUAL = 1e6  # times the median variance of columns: one of more must not make all others look constant
CONSTANT = 0.5  # appended to inputs of the relu kernel, divided by sqrt(d)
PAIRS = 500  # inputs whose distances decide the width of a Gaussian

Array = NDArray[Any]
Floats = NDArray[np.float64]
Precision = type[np.float32] | type[np.float64]


@dataclass(frozen=True)
class Scale:
    """How columns of x are brought to one scale."""

    mean: Floats  # (d,)
    std: Floats  # (d,), what each is divided by
    clip: float  # the largest size of a scaled number

    @classmethod
    def fit(cls, kind: str, mean: Floats, variance: Floats) -> "Scale":
        """Make one of mean and variance of each column; one that is constant becomes zero."""
        usual = np.median(variance[variance > 0]) if variance.any() else 0.0
        all_alike = np.sqrt(np.minimum(variance, UNUSUAL * usual).mean()) or 1.0
        std = np.sqrt(variance) if kind == "each" else np.full(len(mean), all_alike)
        return cls(mean, np.where(np.sqrt(variance) > 1e-6 * all_alike, std, np.inf), CLIP[kind])

    def __call__(self, x: Array, dtype: Precision = np.float64) -> Floats:
        scaled = (np.asarray(x, dtype) - self.mean.astype(dtype)) / self.std.astype(dtype)
        return np.asarray(np.clip(scaled, -self.clip, self.clip, out=scaled))


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the scale of its columns."""

    kind: str  # "linear" or "gauss" or "relu"
    scale: str  # "each" or "alike"
    width: float = 1.0  # of a Gaussian: times the median squared distance; once fitted, the squared distance itself

    def fit(self, z: Floats) -> "Kernel":
        """Measure distances of some scaled inputs."""
        if self.kind != "gauss":
            return self
        some = z[np.random.default_rng(0).permutation(len(z))[:PAIRS]]
        distances = _squared_distances(some, some)[np.triu_indices(len(some), 1)]
        return replace(self, width=max(self.width * float(np.median(distances)) if len(distances) else 0.0, 1e-12))

    def __call__(self, a: Floats, b: Floats) -> Floats:
        """Return k of all pairs of scaled inputs."""
        if self.kind == "linear":
            return np.asarray(a @ b.T / a.shape[1])
        if self.kind == "gauss":
            distances = _squared_distances(a, b)
            distances /= -self.width
            return np.exp(distances, out=distances)
        return relu_kernel(a, b)


KERNELS = (
    Kernel("linear", "each"),
    Kernel("linear", "alike"),
    Kernel("gauss", "each"),
    Kernel("gauss", "alike"),
    Kernel("gauss", "each", 0.25),
    Kernel("relu", "each"),
    Kernel("relu", "alike"),
)


@dataclass(frozen=True)
class Features:
    """Features of one kernel."""

    kernel: Kernel  # fitted
    scale: Scale
    landmarks: Floats | None = None  # (D, d), scaled; None where the features are x / sqrt(d)
    dtype: Precision = np.float64

    @classmethod
    def fit(cls, kernel: Kernel, scale: Scale, landmarks: Array, dtype: Precision = np.float64) -> "Features":
        """Make the features of some inputs (D, d), to be worked out in single or double precision."""
        z = scale(landmarks, dtype)
        if kernel.kind == "linear" and z.shape[1] <= len(z):
            return cls(kernel, scale, dtype=dtype)
        return cls(kernel.fit(z), scale, z, dtype)

    @property
    def size(self) -> int:
        """Return D."""
        return len(self.scale.mean) if self.landmarks is None else len(self.landmarks)

    def __call__(self, x: Array) -> Floats:
        """Return the features of inputs (B, d): (B, D)."""
        z = self.scale(x, self.dtype)
        return (
            np.asarray(z / np.sqrt(z.shape[1], dtype=z.dtype))
            if self.landmarks is None
            else self.kernel(z, self.landmarks)
        )


def _squared_distances(a: Floats, b: Floats) -> Floats:
    """Return |a_i - b_j|^2."""
    found = a @ (-2 * b).T
    found += (a * a).sum(1)[:, None]
    found += (b * b).sum(1)
    return np.asarray(np.maximum(found, 0.0, out=found))


def relu_kernel(a: Floats, b: Floats) -> Floats:
    """Return the arc-cosine kernel of order 1, and <x, x'> times that of order 0."""
    a, b = (np.pad(z / np.sqrt(z.shape[1], dtype=z.dtype), ((0, 0), (0, 1)), constant_values=CONSTANT) for z in (a, b))
    dot = a @ b.T
    norms = np.sqrt((a * a).sum(1))[:, None] * np.sqrt((b * b).sum(1))
    cosine = np.clip(dot / norms, -1.0, 1.0)
    away = np.arccos(cosine)
    away /= -np.pi
    away += 1  # (pi - angle) / pi
    np.square(cosine, out=cosine)
    np.sqrt(1 - cosine, out=cosine)  # its sine
    cosine *= norms / np.pi
    dot *= 2 * away
    dot += cosine
    return dot
