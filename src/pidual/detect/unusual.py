"""Which columns of an input are unusual among the inputs of a class."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_UNUSUAL = 4  # columns of a row
LEAST_DISTANCE = 2.0  # robust standard deviations from which on a value is unusual
FAR = 99.0  # the largest distance, such as from a value that all others share
FEWEST = 10  # items of a class that say what is usual in it
MOST = 2_000  # items that are looked at for it
NUMBERS = 2**23  # of them, items x columns
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Usual:
    """What is usual in a class, by column."""

    # median, scale: (D,), the scale is the robust standard deviation: 1.4826 times the median absolute deviation,
    # 1.2533 times the mean one where more than half are alike, and 0 where all are
    median: Floats
    scale: Floats
    # low, high: (D,), the 10th and the 90th percentile
    low: Floats
    high: Floats

    @classmethod
    def of(cls, others: Floats) -> "Usual":
        """Measure what is usual by inputs of the class (N, D)."""
        median = np.median(others, axis=0)
        deviation = np.abs(others - median)
        scale = 1.4826 * np.median(deviation, axis=0)
        scale = np.where(scale > 0, scale, 1.2533 * deviation.mean(axis=0))
        low, high = np.quantile(others, [0.1, 0.9], axis=0)
        return cls(median, scale, low, high)

    def distance(self, values: Floats) -> Floats:
        """Return how many scales each value (..., D) is away from the median; as far as can be where the scale is 0."""
        away = np.asarray(values - self.median, np.float64)
        distance = np.divide(away, self.scale, out=np.sign(away) * FAR, where=self.scale > 0)
        return np.asarray(np.clip(distance, -FAR, FAR), np.float64)

    def most_unusual(self, value: Floats) -> list[tuple[int, float]]:
        """Return the columns in which an input (D,) is unusual, the most unusual first, and how far away each is."""
        far = self.distance(value)
        order = np.argsort(-np.abs(far), kind="stable")[:MAX_UNUSUAL].tolist()
        return [(column, float(far[column])) for column in order if abs(far[column]) >= LEAST_DISTANCE]


def members_of(code: int, likely: NDArray[np.integer[Any]], most: int = MOST) -> NDArray[np.int64]:
    """Return evenly spaced inputs that are likely of a class, or of any class where it has few.

    `code`: the class.
    `likely`: the likely class of every input, -1 where there is none.
    `most`: how many inputs at most.
    """
    members = np.flatnonzero(likely == code)
    if len(members) < FEWEST:
        members = np.flatnonzero(likely >= 0)
    return members[:: max(1, -(-len(members) // most))]
