"""State shares with intervals that hold, from a model of all items and n random items whose class is known (gold).

    lam = clip(cov(Y, m) / var m, 0, 1);   r = Y - lam m;   estimate = lam mean_all m + mean_gold r

Y is what is known on gold, m the same as the model expects it (on gold, by a calibrator that has not seen the item):
the better the model, the narrower the interval, and however bad it is, the interval holds: m only has to be chosen
without Y. What it needs is that every item was as likely as any other to be gold (`plan`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...metrics import wilson_interval

FEW_GOLD, FEW_WRONG = 50, 5  # below both, an accuracy has Wilson's interval
LEAST_SPREAD = 0.04  # standard deviation of annotators, beyond what the model expects of them, at the least
DEGREES = 6  # of freedom of an annotator's interval, at the most
INTERVAL = 0.95

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Interval:
    """A share, and the ends of its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Given:
    """All answers, and gold.

    Parameters
    ----------
    p : array (N, K)
        Calibrated posterior of all items; of gold items too, by calibrators that have not seen their fold.
    item, label, annotator : int arrays (R,)
        Number of the item of each answer, code of its label, and of who gave it, -1 where that is not known.
    gold, truth : int arrays (n,)
        Items of known class, and their classes.
    """

    p: Floats
    item: Ints
    label: Ints
    annotator: Ints
    gold: Ints
    truth: Ints

    def noise(self) -> Interval:
        """Estimate the share of wrong answers."""
        answers = np.bincount(self.item, minlength=len(self.p))
        right = np.bincount(self.item, self.p[self.item, self.label], len(self.p))
        known = np.full(len(self.p), -1)
        known[self.gold] = self.truth
        hits = np.bincount(self.item, self.label == known[self.item], len(self.p))
        m, y = (answers - right) / answers.mean(), (answers - hits)[self.gold] / answers.mean()
        return estimate_mean(y, m[self.gold], float(m.mean()), len(m))

    def shares(self) -> list[Interval]:
        """Estimate the share of items of each class: the "corrected pass rate"."""
        classes = range(self.p.shape[1])
        return [
            estimate_mean((self.truth == k) * 1.0, self.p[self.gold, k], float(self.p[:, k].mean()), len(self.p))
            for k in classes
        ]

    def accuracy(self) -> Interval:
        """Estimate how many of the items without gold have a consensus that is right."""
        best, right = self.p.max(1), self.p[self.gold].argmax(1) == self.truth
        n, n_rest = len(right), len(self.p) - len(right)
        if not n_rest:
            return Interval(1.0, 1.0, 1.0)  # every class is known
        rest = float(best.sum() - best[self.gold].sum()) / n_rest
        found = estimate_mean(right * 1.0, best[self.gold], rest, len(self.p), rest=True)
        if n >= FEW_GOLD or n - int(right.sum()) >= FEW_WRONG:
            return found
        low, high = (float(end) for end in wilson_interval(right.sum(), n))
        return Interval(min(max(found.value, low), high), low, high)

    def annotators(self, n_annotators: int) -> tuple[Floats, Floats, Floats]:
        """Estimate the accuracy of each annotator, with the ends of its interval; NaN of those without an answer."""
        rows = np.flatnonzero(self.annotator >= 0)
        who, item, expected = self.annotator[rows], self.item[rows], self.p[self.item[rows], self.label[rows]]
        known = np.full(len(self.p), -1)
        known[self.gold] = self.truth
        seen = np.flatnonzero(known[item] >= 0)
        off = (self.label[rows[seen]] == known[item[seen]]) - expected[seen]  # right, beyond what was expected

        def per_person(values: Floats, rows: Ints = seen) -> Floats:
            return np.asarray(np.bincount(who[rows], values, n_annotators), np.float64)

        g = per_person(np.ones(len(seen)))
        n = per_person(np.ones(len(who)), np.arange(len(who)))
        with np.errstate(invalid="ignore", divide="ignore"):
            d, model = per_person(off) / g, per_person(expected, np.arange(len(who))) / n
            squares = per_person((off - d[who[seen]]) ** 2)
            s2 = (squares.sum() + 1) / (np.maximum(g - 1, 0).sum() + 4)
            v = (squares + 6 * s2) / (g + 5) / g
        some = np.flatnonzero(g)
        spread = _spread_between(d[some], v[some])
        weight = np.zeros(n_annotators)
        weight[some] = 1 / (spread + v[some])
        weight /= weight.sum()
        mu = float(weight[some] @ d[some])
        pull = np.bincount(item[seen], (weight / np.maximum(g, 1))[who[seen]] * (off - mu), len(self.p))
        var_mu = float((pull**2).sum()) * len(self.gold) / max(1, len(self.gold) - 1)
        keep = np.zeros(n_annotators)  # B
        keep[some] = spread / (spread + v[some])
        value = model + mu + keep * np.where(g > 0, d - mu, 0.0)
        variance = np.where(g > 0, keep * np.where(g > 0, v, 0.0), spread) + (1 - keep**2) * var_mu
        value = np.clip(value, 0.5 / (n + 1), 1 - 0.5 / (n + 1))
        low, high = _on_logits(value, np.sqrt(variance), min(len(self.gold) - 2, DEGREES))
        return value, low, high


def estimate_mean(y: Floats, m: Floats, mean_m: float, n_items: int, *, rest: bool = False) -> Interval:
    """Estimate the mean of Y over all items, or over those without gold.

    Parameters
    ----------
    y, m : arrays (n,)
        What is known on gold items, and what the model expects there.
    mean_m : float
        Mean of m over the items that the mean is of.
    n_items : int
        N.
    rest : bool
        Whether the mean is over items without gold.
    """
    n = len(y)
    if n < 3:
        return Interval(mean_m, 0.0, 1.0)
    spread = float(np.var(m))
    lam = float(np.clip(np.mean((y - y.mean()) * (m - m.mean())) / spread, 0, 1)) if spread > 0 else 0.0
    r = y - lam * m
    if not rest and n >= n_items:
        return Interval(*[float(y.mean())] * 3)
    value = float(np.clip(lam * mean_m + r.mean(), 0.5 / (n_items + 1), 1 - 0.5 / (n_items + 1)))
    h = min((float(y.sum()) + 2) / (n + 4), 1.0)
    s2 = (float(((r - r.mean()) ** 2).sum()) + 2 * h * (1 - h)) / (n + 1)
    se = np.sqrt(s2 / n * (1 + n / (n_items - n) if rest else 1 - n / n_items))
    centre = min((n * value + 2 * h) / (n + 2), 1 - 0.5 / (n_items + 1))
    low, high = (float(end) for end in _on_logits(np.array(centre), se, n - 2))
    return Interval(value, min(low, value), max(high, value))


def t_quantile(degrees: int) -> float:
    """Return the two-sided 95% quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(max(1, degrees), (1 + INTERVAL) / 2))


def _on_logits(value: Floats, se: Floats, degrees: int) -> tuple[Floats, Floats]:
    """Return the ends of an interval that is even on the logit scale."""
    logit, half = np.log(value) - np.log1p(-value), t_quantile(degrees) * se / (value * (1 - value))
    return 1 / (1 + np.exp(half - logit)), 1 / (1 + np.exp(-half - logit))


def _spread_between(d: Floats, v: Floats) -> float:
    """Return the variance of annotators beyond chance, by moments (DerSimonian and Laird)."""
    w = 1 / v
    excess = float(w @ (d - w @ d / w.sum()) ** 2) - (len(d) - 1)
    scale = float(w.sum() - (w @ w) / w.sum())
    return max(LEAST_SPREAD**2, excess / scale if scale > 0 else 0.0)
