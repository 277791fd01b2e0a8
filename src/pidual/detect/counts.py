"""Count answers by annotator, true class and given label: what is said about people and classes rests on these counts.

Only what occurs has a cell, so that many annotators and many classes cost no more than their answers. Below, how far
numbers may be from what they estimate: intervals of shares, and how much chance alone can do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..run.predictions import Predictions
from .items import PART, Posteriors, Truth

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CELL = ("who", "true", "given", "n", "right")


@dataclass(frozen=True)
class Counts:
    """Expected numbers of answers: a cell for all that have the same codes, in ascending order."""

    # who, true, given: (C,), codes of the annotator, of the class of the item, and of the given label; 0 along an axis
    # that is summed over
    who: Ints
    true: Ints
    given: Ints
    # n, right: (C,), answers, and right ones among them
    n: Floats
    right: Floats
    cell: Ints  # the cell of each answer that was counted
    n_classes: int

    @classmethod
    def of(cls, who: npt.ArrayLike | None, given: npt.ArrayLike, truth: Truth, n_classes: int) -> "Counts":
        """Count answers by what their items may be.

        `who` (N,): codes of the annotators; None where they are not known.
        `given` (N,): codes of the given labels.
        """
        found = []
        for first in range(0, max(1, len(truth.row)), PART):
            part = slice(first, first + PART)
            row, label, weight = truth.row[part], truth.label[part], truth.weight[part]
            said = np.asarray(given)[row].astype(np.int64)
            people = np.zeros_like(said) if who is None else np.asarray(who)[row].astype(np.int64)
            found.append(cls.in_cells(people, label, said, weight, weight * (said == label), n_classes))
        return cls.added(found)

    @classmethod
    def of_predictions(cls, predictions: Predictions, posteriors: Posteriors | None = None) -> "Counts":
        """Count answers by the posterior of each item where it is known, else by its consensus."""
        who, given, k = predictions.annotator, predictions.given, len(predictions.classes)
        if posteriors is None:
            consensus = Truth.by_consensus(predictions.suggested, predictions.suggested_probability)
            return cls.of(who, given, consensus, k)
        parts = (cls.of(who, given, truth, k) for truth in Truth.parts(predictions.item, posteriors))
        return cls.added([part.per("who", "true", "given") for part in parts])

    @classmethod
    def added(cls, parts: Sequence["Counts"]) -> "Counts":
        """Add up counts of parts of the answers, one after the other."""
        if len(parts) == 1:
            return parts[0]
        who, true, given, n, right = (np.concatenate([getattr(part, name) for part in parts]) for name in CELL)
        total = cls.in_cells(who, true, given, n, right, parts[0].n_classes)
        ends = np.cumsum([len(part.n) for part in parts])
        cells = zip(np.split(total.cell, ends[:-1]), parts, strict=True)
        return replace(total, cell=np.concatenate([cell[part.cell] for cell, part in cells]))

    @classmethod
    def in_cells(cls, who: Ints, true: Ints, given: Ints, n: Floats, right: Floats, k: int) -> "Counts":
        """Add up answers that have the same codes."""
        keys, cell = numbered((who * k + true) * k + given)
        n, right = (sums(cell, part, len(keys)) for part in (n, right))
        return cls(keys // k**2, keys // k % k, keys % k, n, right, cell, k)

    def per(self, *axes: str) -> "Counts":
        """Return the sums over all axes but these; its `cell` is that of each cell here."""
        who, true, given = (getattr(self, name) * (name in axes) for name in ("who", "true", "given"))
        return Counts.in_cells(who, true, given, self.n, self.right, self.n_classes)

    def totals(self, *axes: str) -> tuple[Floats, Floats]:
        """Return for each cell the answers, and the right ones, of all cells that have its codes on these axes."""
        found = self.per(*axes)
        return found.n[found.cell], found.right[found.cell]

    @property
    def is_wrong(self) -> npt.NDArray[np.bool_]:
        """Whether the given label of each cell is another class than the true one."""
        return np.asarray(self.true != self.given)

    def number(self, who: Ints, true: Ints, given: Ints) -> Floats:
        """Return the number of answers with these codes, 0 where there are none."""
        k = self.n_classes
        keys, wanted = ((a * k + b) * k + c for a, b, c in ((self.who, self.true, self.given), (who, true, given)))
        place = np.searchsorted(keys, wanted)
        return np.where(np.append(keys, -1)[place] == wanted, np.append(self.n, 0.0)[place], 0.0)

    def by_class(self) -> tuple[Floats, Floats]:
        """Return answers to items of each class (K,), and right ones among them."""
        n, right = (sums(self.true, part, self.n_classes) for part in (self.n, self.right))
        return n, right

    def matrix(self) -> Floats:
        """Return answers by true class, in rows, and given label (K, K)."""
        k = self.n_classes
        return sums(self.true * k + self.given, self.n, k * k).reshape(k, k)


CROWD_ANSWERS = 2.0  # an interval begins with as many answers of the crowd's quality
INTERVAL = 0.95
CLOSE = 4  # keys that there may be for each that occurs, for a table of them
CHANCE = 0.05  # that anything at all, of what is tested together, is said without reason


def beta_interval(right: npt.ArrayLike, n: npt.ArrayLike, crowd: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the 95% interval of shares, `right` of `n` expected, begun with two answers of the crowd's share."""
    from scipy.special import betaincinv

    right, n = np.asarray(right, np.float64), np.asarray(n, np.float64)
    begun = CROWD_ANSWERS * np.clip(np.asarray(crowd, np.float64), 1e-3, 1 - 1e-3)
    a, b = right + begun, n - right + CROWD_ANSWERS - begun
    tail = (1 - INTERVAL) / 2
    return np.asarray(betaincinv(a, b, tail)), np.asarray(betaincinv(a, b, 1 - tail))


def shrunk_share(right: npt.ArrayLike, n: npt.ArrayLike, crowd: npt.ArrayLike) -> Floats:
    """Return shares, `right` of `n` seen, begun with two answers of the crowd's share."""
    begun = CROWD_ANSWERS * np.asarray(crowd, np.float64)
    return np.asarray((np.asarray(right, np.float64) + begun) / (np.asarray(n, np.float64) + CROWD_ANSWERS))


def chance_excess(variance: npt.ArrayLike, chance: float, largest: npt.ArrayLike = 1.0) -> Floats:
    """Return by how much a sum exceeds its expectation with a probability of at most `chance`, by Bernstein.

    It holds for any number of terms, however few, if they are independent or drawn without replacement.

    `variance`: variance of the sum.
    `largest`: by how much a single term can exceed its expectation.
    """
    log = -np.log(chance)
    jump = np.asarray(largest, np.float64) * log / 3
    return np.asarray(jump + np.sqrt(jump**2 + 2 * np.asarray(variance, np.float64) * log))


def sums(index: npt.NDArray[np.int64], values: npt.ArrayLike, size: int) -> Floats:
    """Sum of the values of each index from 0 to `size` - 1."""
    return np.bincount(index, weights=np.asarray(values, np.float64), minlength=size).astype(np.float64)


def numbered(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the different keys in ascending order, and the place of each among them, as `numpy.unique` does.

    Where they lie close together a table takes less time and memory than sorting.
    """
    if not len(keys) or (size := int(keys.max()) + 1) > CLOSE * len(keys) or keys.min() < 0:
        return np.unique(keys, return_inverse=True)
    there = np.zeros(size, bool)
    there[keys] = True
    place = np.cumsum(there, dtype=np.int32)
    place -= 1
    return np.flatnonzero(there), place[keys].astype(np.int64)
