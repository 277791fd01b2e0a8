"""What decisions of reviewers say about all labels: a clean sample, though not a random one.

Reviewers look first at what looks worst, so the share of wrong labels among those decided on says nothing about the
others. What can be learned from any labels, however they were chosen by their quality q, is how the chance that a label
is wrong depends on q:

    logit P(wrong) = a + b logit(1 - q)                                      no change where a = 0 and b = 1

Priors of a and log b are normal around no change. The run's own estimate of its noise rate, with its interval, is
evidence too: where only the worst labels were looked at, decisions hardly tell about the bulk. a and b have a posterior
on a grid, no sampling; every number comes with its median and 90% interval. Labels that were decided on count as
decided.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..metrics import NORMAL_90
from ..run.records.summary import Rate
from .cutoff import auto_cutoff

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEAST = 10  # decisions from which on they say something
SD_A, SD_LOG_B = 1.5, 0.5  # about as much as qualities were off on data with clean labels (docs/loop.md)
EDGE = 1e-4  # qualities count as no closer to 0 or 1
BINS = 600  # of qualities, where numbers are of many labels
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Calibration:
    """A posterior of a and b.

    Parameters
    ----------
    a, b, weight : arrays (G,)
        Points of a grid, and their probabilities.
    n_decisions, n_wrong : int
        Decisions, and those that the label was wrong.
    """

    a: Floats
    b: Floats
    weight: Floats
    n_decisions: int
    n_wrong: int

    @classmethod
    def fit(cls, quality: npt.ArrayLike, wrong: npt.ArrayLike, everywhere: npt.ArrayLike, noise: Rate) -> "Calibration":
        """Learn from decisions.

        Parameters
        ----------
        quality, wrong : arrays (n,)
            Quality of the labels that were decided on, and whether they were wrong.
        everywhere : array (N,)
            Quality of all labels.
        noise : Rate
            The share of wrong labels by the run itself.
        """
        a, log_b = (part.ravel() for part in np.meshgrid(np.linspace(-6, 6, 97), np.linspace(-1.6, 1.6, 49)))
        found = cls(a, np.exp(log_b), np.ones(len(a)), len(np.asarray(wrong)), int(np.sum(wrong)))
        quality, wrong = np.asarray(quality, np.float64), np.asarray(wrong, bool)
        log_p = -0.5 * ((a / SD_A) ** 2 + (log_b / SD_LOG_B) ** 2)
        for part, sign in ((wrong, -1), (~wrong, 1)):
            centre, count = binned(quality[part])
            log_p -= np.logaddexp(0, sign * found.logits(centre)) @ count
        sd = max(0.05, (logit_of(noise.high) - logit_of(noise.low)) / (2 * NORMAL_90))
        log_p -= 0.5 * ((logit_of(found.means(everywhere)) - logit_of(noise.rate)) / sd) ** 2
        weight = np.exp(log_p - log_p.max())
        return cls(a, found.b, weight / weight.sum(), found.n_decisions, found.n_wrong)

    def logits(self, centre: Floats) -> Floats:
        """Return logit P(wrong) at every point of the grid, for labels where it is stated as this (G, n)."""
        found: Floats = self.a[:, None] + self.b[:, None] * centre
        return found

    def means(self, quality: npt.ArrayLike) -> Floats:
        """Return the share of wrong labels among many at every point of the grid (G,)."""
        centre, count = binned(quality)
        shares: Floats = expit(self.logits(centre)) @ (count / count.sum())
        return shares

    def apply(self, quality: npt.ArrayLike) -> Floats:
        """Return qualities that are right as often as they say, in the same order, by the mean of a and of log b."""
        found = self.curve()
        right: Floats = 1 - expit(found["a"] + found["b"] * logit_of(1 - np.asarray(quality, np.float64)))
        return right

    def curve(self) -> dict[str, float]:
        """Return the a and b that `apply` uses."""
        return {"a": float(self.weight @ self.a), "b": float(np.exp(self.weight @ np.log(self.b)))}

    def share_of_wrong(self, quality: npt.ArrayLike, decided: Bools, wrong: Bools) -> Rate | None:
        """Estimate how many of some labels are wrong, with a 90% interval; None without labels.

        Parameters
        ----------
        quality : array (N,)
        decided, wrong : bool arrays (N,)
            Which of them were decided on, and were wrong.
        """
        quality, n = np.asarray(quality, np.float64), len(decided)
        if not n:
            return None
        known, n_open = int(np.count_nonzero(decided & wrong)), int(np.count_nonzero(~decided))
        if not n_open:
            return Rate(*[known / n] * 3)
        share = self.means(quality[~decided])
        order = np.argsort(share)
        at = np.searchsorted(np.cumsum(self.weight[order]), QUANTILES).clip(max=len(order) - 1)
        low, middle, high = share[order][at]
        spread = NORMAL_90 * np.sqrt(middle * (1 - middle) / n_open)  # which labels happen to be wrong
        low, high = middle - np.hypot(middle - low, spread), middle + np.hypot(high - middle, spread)
        return Rate(*(float((known + value * n_open) / n) for value in (middle, max(0.0, low), min(1.0, high))))


def binned(quality: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return logit(1 - q) of labels in narrow bins, and the number of labels in each."""
    logit = logit_of(1 - np.asarray(quality, np.float64))
    most = logit_of(1 - EDGE)
    count, _ = np.histogram(logit, BINS, (-most, most))
    sums, _ = np.histogram(logit, BINS, (-most, most), weights=logit)
    there = count > 0
    return sums[there] / count[there], count[there].astype(np.float64)


def logit_of(p: Any) -> Any:
    """Return log p / (1 - p), for p no closer to 0 or 1 than EDGE."""
    p = np.clip(p, EDGE, 1 - EDGE)
    return np.log(p) - np.log1p(-p)


def expit(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x))."""
    found: Floats = 0.5 * (1 + np.tanh(0.5 * x))
    return found


def spread_sample(quality: npt.ArrayLike, is_issue: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    """Return n labels spread evenly over those that look wrong and half as many beyond, worst first, as positions.

    Decisions on them tell how good the list is much sooner than those on the worst labels do (docs/loop.md).
    """
    order = np.argsort(np.asarray(quality), kind="stable")
    n_listed = min(len(order), int(1.5 * np.count_nonzero(is_issue))) or len(order)
    return order[np.unique(np.linspace(0, n_listed - 1, min(n, n_listed)).astype(np.int64))]


def calibrate(
    quality: npt.ArrayLike, is_issue: npt.ArrayLike, decided: Bools, wrong: Bools, noise: Rate
) -> tuple[Calibration, dict[str, Any]] | None:
    """Learn from decisions how good a list of labels that look wrong is; None where they are too few.

    Parameters
    ----------
    quality, is_issue : arrays (N,)
        Of all labels.
    decided, wrong : bool arrays (N,)
        Which of them were decided on, and were wrong.
    noise : Rate
        By the run itself.

    Returns
    -------
    Calibration, dict
        n_decisions, n_wrong; noise and precision (of the labels that look wrong), each rate, low and high; cutoff, the
        quality by the run's own scale below which labels should be called wrong, and n_issues, how many are below it.
    """
    quality, issue = np.asarray(quality, np.float64), np.asarray(is_issue, bool)
    if np.count_nonzero(decided) < LEAST:
        return None
    found = Calibration.fit(quality[decided], wrong[decided], quality, noise)
    new = np.where(decided, np.where(wrong, 0.0, 1.0), found.apply(quality))
    cut = auto_cutoff(new).value
    below = ~decided & (new < cut)
    return found, {
        "n_decisions": found.n_decisions,
        "n_wrong": found.n_wrong,
        "noise": found.share_of_wrong(quality, decided, wrong),
        "precision": found.share_of_wrong(quality[issue], decided[issue], wrong[issue]),
        "cutoff": float(quality[below].max()) if below.any() else 0.0,
        "n_issues": int(np.count_nonzero(new < cut)),
    }
