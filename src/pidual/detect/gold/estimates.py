"""State shares with 95% intervals that hold, from a model of all items and n random items of known class (gold).

    lam = clip(cov(Y, m) / var m, 0, 1);   r = Y - lam m;   estimate = lam mean_all m + mean_gold r

Y is what is known on gold, m the same as a model expects it that has not seen the item's class. The better the model,
the narrower the interval; however bad it is, the interval holds, if every item was as likely as any other to be gold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics import wilson_interval
from ...run.records.summary import ClassShare, GoldEstimates, Rate
from .calibrator import Calibrator

FEW_GOLD, FEW_WRONG = 50, 5  # below both, an accuracy has Wilson's interval
LEAST_SPREAD = 0.04  # standard deviation between annotators of what the model does not expect, at the least
DEGREES = 6  # of freedom of an annotator's interval, at the most
INTERVAL = 0.95

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Interval:
    """A share, and the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Known:
    """What a calibrator says, and what is known about the gold items."""

    best: Floats  # (N,), probability of the consensus of every item; on gold items it does not matter
    mean: Floats  # (K,), mean of p over all items
    said: Floats  # (R,), p of the class that each answer says
    # item, label, annotator: (R,), number of the item of each answer, code of its label, and of who gave it, -1 where
    # that is not known
    item: Ints
    label: Ints
    annotator: Ints
    # gold, truth: (n,), items of known class, and their classes
    gold: Ints
    truth: Ints
    # (n, K), p of these, by calibrators that have not seen them, such as `held_out`; `mean` and `said` have the same
    p_gold: Floats

    @classmethod
    def of(cls, p: Floats, item: Ints, label: Ints, annotator: Ints, gold: Ints, truth: Ints) -> "Known":
        """Take all from p (N, K)."""
        return cls(p.max(1), p.mean(0), p[item, label], item, label, annotator, gold, truth, p[gold])

    @cached_property
    def _off(self) -> tuple[Ints, Floats]:
        """Find the answers to gold, and whether each is right, less the probability of that."""
        truth = np.full(len(self.best), -1)
        truth[self.gold] = self.truth
        rows = np.flatnonzero(truth[self.item] >= 0)
        return rows, (self.label[rows] == truth[self.item[rows]]) - self.said[rows]

    def noise(self) -> Interval:
        """Estimate the share of wrong answers."""
        (rows, off), n = self._off, len(self.best)
        answers = np.bincount(self.item, minlength=n)
        m = np.bincount(self.item, 1 - self.said, n) / answers.mean()
        of_item = np.bincount(self.item[rows], off, n) / answers.mean()
        return estimate_mean((m - of_item)[self.gold], m[self.gold], float(m.mean()), n)

    def shares(self) -> list[Interval]:
        """Estimate the share of items of each class; of two classes fail and pass it is the corrected pass rate."""
        return [
            estimate_mean((self.truth == k) * 1.0, m, float(self.mean[k]), len(self.best))
            for k, m in enumerate(self.p_gold.T)
        ]

    def accuracy(self) -> Interval:
        """Estimate how many of the items without gold have a consensus that is right."""
        m, right = self.p_gold.max(1), self.p_gold.argmax(1) == self.truth
        n, n_right, n_rest = len(right), int(right.sum()), len(self.best) - len(right)
        rest = float(self.best.sum() - self.best[self.gold].sum()) / max(1, n_rest)
        found = estimate_mean(right * 1.0, m, rest, len(self.best), rest=True)
        if not n_rest or n >= FEW_GOLD or n - n_right >= FEW_WRONG:
            return found
        low, high = (float(end) for end in wilson_interval(n_right, n))
        return Interval(min(max(found.value, low), high), low, high)

    def annotators(self, n_annotators: int) -> tuple[Floats, Floats, Floats]:
        """Estimate the accuracy of each annotator, and the ends of its interval (A,); NaN of those without answers.

        What the model expects of an annotator is moved by what it is off on gold: by the mean of all annotators (mu),
        and the more towards the annotator's own (d) the less that is left to chance (v).
        """
        rows, off = self._off
        rows, off = rows[self.annotator[rows] >= 0], off[self.annotator[rows] >= 0]
        who, item, every = self.annotator[rows], self.item[rows], np.flatnonzero(self.annotator >= 0)

        def per_person(values: Floats, who: Ints = who) -> Floats:
            return np.asarray(np.bincount(who, values, n_annotators), np.float64)

        expected = per_person(self.said[every], self.annotator[every])
        n, g = per_person(np.ones(len(every)), self.annotator[every]), per_person(np.ones(len(rows)))
        d = per_person(off) / np.maximum(g, 1)
        squares = per_person((off - d[who]) ** 2)
        s2 = (squares.sum() + 1) / (np.maximum(g - 1, 0).sum() + 4)
        v = (squares + 6 * s2) / (g + 5) / np.maximum(g, 1e-9)  # huge without gold
        some = g > 0
        between = _variance_between(d[some], v[some])
        weight = some / (between + v)
        weight /= max(weight.sum(), 1e-300)
        mu = float(weight @ d)
        pull = np.bincount(item, (weight / np.maximum(g, 1))[who] * (off - mu), len(self.best))  # of each item on mu
        var_mu = float(pull @ pull) * len(self.gold) / max(1, len(self.gold) - 1)
        keep = between / (between + v)
        with np.errstate(invalid="ignore"):
            value = np.clip(expected / n + mu + keep * (d - mu), 0.5 / (n + 1), 1 - 0.5 / (n + 1))
        low, high = on_logits(value, np.sqrt(keep * v + (1 - keep**2) * var_mu), min(len(self.gold) - 2, DEGREES))
        with np.errstate(invalid="ignore", divide="ignore"):  # n answers have n + 1 possible accuracies
            return value, np.floor(low * n) / n, np.ceil(high * n) / n


def estimate_mean(y: Floats, m: Floats, mean_m: float, n_items: int, *, rest: bool = False) -> Interval:
    """Estimate the mean of Y over all items.

    `y`, `m` (n,): what is known on gold items, and what the model expects there.
    `mean_m`: mean of m over the items that the mean is of.
    `rest`: whether the mean is over the items without gold.
    """
    n = len(y)
    if n == n_items:
        return Interval(*[1.0 if rest else float(y.mean())] * 3)  # of no item, or known
    spread = max(float(np.var(m)), 1e-12)
    lam = float(np.clip(np.mean((y - y.mean()) * (m - m.mean())) / spread, 0, 1))
    r = y - lam * m
    least = 0.5 / (n_items + 1)
    value = float(np.clip(lam * mean_m + r.mean(), least, 1 - least))
    h = min((float(y.sum()) + 2) / (n + 4), 1.0)
    variance = (float(((r - r.mean()) ** 2).sum()) + 2 * h * (1 - h)) / (n + 1) / n
    se = np.sqrt(variance * (1 + n / (n_items - n) if rest else 1 - n / n_items))
    centre = np.clip((n * value + 2 * h) / (n + 2), least, 1 - least)
    low, high = (float(end) for end in on_logits(centre, se, n - 2))
    return Interval(value, min(low, value), max(high, value))


def t_quantile(degrees: int, tail: float = (1 - INTERVAL) / 2) -> float:
    """Return the quantile of Student's t with this probability above it, of a 95% interval by default."""
    from scipy.special import stdtrit

    return float(stdtrit(max(1, degrees), 1 - tail))


def on_logits(value: Any, se: Any, degrees: int) -> tuple[Floats, Floats]:
    """Return the ends of an interval that is even on the logit scale."""
    logit, half = np.log(value) - np.log1p(-value), t_quantile(degrees) * se / (value * (1 - value))
    return 1 / (1 + np.exp(half - logit)), 1 / (1 + np.exp(-half - logit))


def _variance_between(d: Floats, v: Floats) -> float:
    """Return the variance between annotators beyond chance, by moments (DerSimonian and Laird)."""
    w = 1 / v
    scale = float(w.sum() - (w @ w) / max(w.sum(), 1e-300))
    excess = float(w @ (d - w @ d / max(w.sum(), 1e-300)) ** 2) - (len(d) - 1)
    return max(LEAST_SPREAD**2, excess / scale if scale > 1e-9 else 0.0)


@dataclass(frozen=True)
class GoldFound:
    """Estimates for the summary, and of annotators by code: accuracy and its ends (A,), where these are known.

    They rest on `known`; `calibrator` corrects other items.
    """

    estimates: GoldEstimates
    annotators: tuple[Floats, Floats, Floats] | None
    known: Known
    calibrator: Calibrator

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
        return cls(estimates, known.annotators(n_annotators) if n_annotators else None, known, calibrator)


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
