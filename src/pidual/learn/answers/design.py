"""PI as columns of numbers: what skill and favourite answers are linear in.

    annotator       one column each
    category        one column a value
    number          the number, and how far it lies beyond each of some quantiles, so that its effect may bend

Every column has mean 0 and, if it is a number, standard deviation 1 over the answers that it is made from. A category
or an annotator that is not known has zeros: it is like the average of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

BENDS = (0.25, 0.5, 0.75)  # quantiles of a number, beyond which its effect may bend

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Design:
    """How encoded PI becomes columns."""

    sizes: tuple[int, ...]  # values of each categorical column of PI
    who: int | None  # which of them is the annotator
    bends: tuple[Floats, ...]  # where the effect of each number bends
    mean: Floats  # of the columns of all numbers
    std: Floats

    @classmethod
    def fit(cls, sizes: Sequence[int], who: int | None, numbers: NDArray[np.floating[Any]]) -> "Design":
        """Learn where the effect of each number (R, M) bends, and its scale."""
        bends = tuple(_bends(values) for values in numbers.T.astype(np.float64))
        raw = cls(tuple(sizes), who, bends, np.zeros(1), np.ones(1))._of_numbers(numbers)
        std = raw.std(0) if len(raw) else np.ones(raw.shape[1])
        return cls(tuple(sizes), who, bends, raw.mean(0), np.where(std > 1e-9, std, 1.0))

    @property
    def n_annotators(self) -> int:
        """Return the number of annotators that have a column."""
        return 0 if self.who is None else self.sizes[self.who]

    def annotator(self, codes: NDArray[np.integer[Any]]) -> Ints:
        """Return who answered, -1 where that is not known."""
        unknown = np.full(len(codes), -1, np.int64)
        return unknown if self.who is None else codes[:, self.who].astype(np.int64)

    def columns(self, codes: NDArray[np.integer[Any]], numbers: NDArray[np.floating[Any]]) -> csr_matrix:
        """Return the columns (R, P) of codes (R, C), where -1 is unknown, and numbers (R, M)."""
        parts = [_one_hot(codes[:, at], size) for at, size in enumerate(self.sizes)]
        parts.append(csr_matrix((self._of_numbers(numbers) - self.mean) / self.std))
        return hstack(parts, format="csr")

    def _of_numbers(self, numbers: NDArray[np.floating[Any]]) -> Floats:
        found = [np.zeros((len(numbers), 0))]
        for values, bends in zip(numbers.T.astype(np.float64), self.bends, strict=True):
            found.append(np.stack([values, *(np.maximum(values - bend, 0) for bend in bends)], axis=1))
        return np.concatenate(found, axis=1)


def _bends(values: Floats) -> Floats:
    """Return different quantiles of a number inside its range; none of one with two values."""
    if len(values) == 0 or (len(np.unique(values[:1000])) <= 2 and len(np.unique(values)) <= 2):
        return np.zeros(0)
    inside = np.unique(np.quantile(values, BENDS))
    return np.asarray(inside[(inside > values.min()) & (inside < values.max())])


def _one_hot(codes: NDArray[np.integer[Any]], size: int) -> csr_matrix:
    known = np.flatnonzero(codes >= 0)
    return csr_matrix((np.ones(len(known)), (known, codes[known])), (len(codes), size))
