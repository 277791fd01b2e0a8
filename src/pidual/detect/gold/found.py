"""What items of known class say about all items, as a run keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run.records.summary import ClassShare, GoldEstimates, Rate
from .calibrator import Calibrator
from .estimates import Interval, Known

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GoldFound:
    """Estimates for the summary, and of annotators by code: accuracy and its ends (A,), where these are known.

    They rest on `known`.
    """

    estimates: GoldEstimates
    annotators: tuple[Floats, Floats, Floats] | None
    known: Known

    @classmethod
    def of(
        cls,
        known: Known,
        calibrator: Calibrator,
        *,
        votes: float,
        stated: tuple[float, float],
        classes: Sequence[Any],
        n_annotators: int,
    ) -> "GoldFound":
        """Work out all estimates.

        `votes`: that the answers to an item count as, before their sharpness is known.
        `stated`: share of wrong labels and accuracy of the consensus, as they are stated without gold.
        `n_annotators`: 0 where they are not known.
        """
        said = known.noise(), known.accuracy(), known.shares()
        n, sharpness = len(known.gold), calibrator.sharpness
        estimates = describe_estimates(said, classes, n_gold=n, sharpness=sharpness, votes=votes, stated=stated)
        return cls(estimates, known.annotators(n_annotators) if n_annotators else None, known)


def describe_estimates(
    said: tuple[Interval, Interval, list[Interval]],
    classes: Sequence[Any],
    *,
    n_gold: int,
    sharpness: float,
    votes: float,
    stated: tuple[float, float],
) -> GoldEstimates:
    """Return the record of noise, accuracy of the consensus and shares of classes, where these are known."""
    noise, accuracy = (Rate(each.value, each.low, each.high) for each in said[:2])
    shares = [ClassShare(each.value, each.low, each.high, name) for name, each in zip(classes, said[2], strict=False)]
    return GoldEstimates(
        n_gold=n_gold,
        sharpness=sharpness,
        votes=max(0.0, votes * sharpness),
        noise=noise,
        accuracy=accuracy,
        shares=shares,
        stated_noise=stated[0],
        stated_accuracy=stated[1],
        contradicted=not (noise.low <= stated[0] <= noise.high and accuracy.low <= stated[1] <= accuracy.high),
    )
