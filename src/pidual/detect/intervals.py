"""How far numbers may be from what they estimate: intervals of shares, and how much chance alone can do."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

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
