"""Scores of things that are compared two at a time, by who was preferred (Bradley and Terry, ties by Davidson).

    P(first | d) ~ e^(d/2),   P(second | d) ~ e^(-d/2),   P(tie | d) ~ e^t,        d = s_first - s_second
    s ~ N(0, v [(1 - share) I + share k(x, x')])

    maximise  sum_i log sum_k P_k(d_i) e^(J_ik)  -  1/2 s' V^-1 s            J_ik: what answers to pair i say about k

by Newton's method. k is a kernel of `kernels`, so that alike items have alike scores. A *setting* is v, share and
kernel. The posterior of s is about normal, and so is that of d without the answers to its own pair, which are one
factor of it: so leave-one-out has a closed form here too. Settings are weighed by the likelihood of left-out answers,
as in `ridge`; Laplace's evidence in its place takes v far too small where items are compared a few times each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from ..answers.model import logsumexp
from .kernels import KERNELS, Scale
from .ridge import STACKING_STEPS

FIRST, SECOND, TIE = range(3)
VARIANCES = (0.1, 0.3, 1.0, 3.0)
SHARES = (0.5, 0.9, 0.98)  # of the variance that x explains; the second one chooses kernels
CHOSEN = 2  # kernels that are tried with all shares and variances
LEAST = 1e-3  # weight of a setting that counts, and of 1 - W var d
SHORTEST = 1e-6  # part of a step
NEWTON, SETTLED = 30, 1e-10  # steps at the most, and the gain in likelihood per pair below which they end
TIE_PRECISION = 0.25  # of t
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Scores:
    """Scores of n items, and what they say about m pairs."""

    mean: Floats  # (n,), 0 on average
    variance: Floats  # (n,)
    p: Floats  # (m, K), of each pair, without the answers to it


@dataclass(frozen=True)
class Comparisons:
    """Pairs of items, each item with its number, and what answers say about them."""

    first: Ints  # (m,)
    second: Ints  # (m,)
    evidence: Floats  # (m, K), K = 2, or 3 with ties: log-likelihood of all answers to the pair
    n_items: int

    @cached_property
    def difference(self) -> csr_matrix:
        """Return the matrix (m, n) that takes scores to d."""
        m = len(self.first)
        rows, columns = np.tile(np.arange(m), 2), np.concatenate([self.first, self.second])
        return csr_matrix((np.repeat([1.0, -1.0], m), (rows, columns)), (m, self.n_items))

    def log_p(self, d: Floats, tie: float) -> Floats:
        """Return log P (..., K) of differences."""
        z = np.stack([d / 2, -d / 2, np.full_like(d, tie)][: self.evidence.shape[1]], axis=-1)
        return np.asarray(z - logsumexp(z)[..., None])

    def likelihood(self, d: Floats, tie: float) -> tuple[Floats, Floats, Floats, tuple[float, float]]:
        """Return the log-likelihood of each pair, its slope by d and how much it bends, and both by t, summed."""
        log_p = self.log_p(d, tie)
        joint = log_p + self.evidence
        value = logsumexp(joint)
        p, q = np.exp(log_p), np.exp(joint - value[:, None])
        slope, bend = ((q[:, FIRST] - q[:, SECOND]) - (p[:, FIRST] - p[:, SECOND])) / 2, _spread(p) - _spread(q)
        of_tie = p[:, TIE:]
        return value, slope, bend, (float((q[:, TIE:] - of_tie).sum()), float((of_tie - of_tie**2).sum()))


def _spread(p: Floats) -> Floats:
    """Return the variance of +1/2 for the first, -1/2 for the second, 0 for a tie."""
    return np.asarray((p[:, FIRST] + p[:, SECOND] - (p[:, FIRST] - p[:, SECOND]) ** 2) / 4)


class ScoreFitter:
    """Fits scores of all items, compared or not, to evidence that changes from round to round.

    `first`, `second` (m,): items of each pair.
    `x` (n, d): features of the items.
    """

    def __init__(self, first: Ints, second: Ints, n_items: int, x: Floats | None = None):
        self.first, self.second, self.x = first, second, x
        self.alone = np.eye(n_items)
        self.settings: list[tuple[Floats, float]] = []

    def fit(self, evidence: Floats) -> Scores:
        """Fit to evidence (m, K); later calls try the settings that counted in the first one."""
        pairs = Comparisons(self.first, self.second, evidence, len(self.alone))
        settings = self.settings or [*((self.alone, v) for v in VARIANCES), *self._settings_of_x(pairs)]
        fits = [_Fit(pairs, *setting) for setting in settings]
        weight = _stack(np.stack([fit.likelihoods for fit in fits]))
        if not self.settings:
            self.settings = [one for one, w in zip(settings, weight, strict=True) if w > LEAST]
        mean = weight @ np.stack([fit.mean for fit in fits])
        spread = np.stack([fit.variance + (fit.mean - mean) ** 2 for fit in fits])
        return Scores(mean, weight @ spread, np.einsum("f,fmk->mk", weight, np.stack([fit.p for fit in fits])))

    def _settings_of_x(self, pairs: Comparisons) -> list[tuple[Floats, float]]:
        """Return settings with the kernels that do best by one of them."""
        kernels = [] if self.x is None else list(_kernels(self.x))
        tried = [_Fit(pairs, _precision(k, SHARES[1]), 1.0).likelihoods for k in kernels]
        best = sorted(range(len(kernels)), key=lambda at: -float(np.log(tried[at]).sum()))[:CHOSEN]
        return [(_precision(kernels[at], share), v) for at in best for share in SHARES for v in VARIANCES]


def _stack(likelihoods: Floats) -> Floats:
    """Return the weights of settings, by their likelihoods (F, m) of the answers to each pair left out."""
    weight = np.full(len(likelihoods), 1 / len(likelihoods))
    for _ in range(STACKING_STEPS):
        share = weight[:, None] * likelihoods
        weight = (share / share.sum(0)).mean(1)
    return weight


def _precision(k: Floats, share: float) -> Floats:
    """Return the inverse of (1 - share) I + share k."""
    return np.asarray(cho_solve(cho_factor((1 - share) * np.eye(len(k)) + share * k), np.eye(len(k))))


def _kernels(x: Floats) -> Iterator[Floats]:
    """Yield kernels (n, n) of features, centred, 1 on the mean of their diagonal."""
    for kernel in KERNELS:
        z = Scale.fit(kernel.scale, x.mean(0), x.var(0))(x)
        k = kernel.fit(z)(z, z)
        k = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
        if (size := np.diag(k).mean()) > 0:
            yield k / size


class _Fit:
    """Scores by one setting: v and the inverse of the rest of V."""

    def __init__(self, pairs: Comparisons, precision: Floats, v: float):
        self.pairs, self.precision = pairs, precision / v
        s, tie = self._maximise()
        _, slope, bend, _ = pairs.likelihood(pairs.difference @ s, tie)
        covariance = cho_solve(self._factor(bend), np.eye(len(s)))
        own, across = np.diag(covariance), covariance[pairs.first, pairs.second]
        self.mean, self.variance = s - s.mean(), own - 2 * covariance.mean(0) + covariance.mean()
        variance = own[pairs.first] + own[pairs.second] - 2 * across  # of d; next, without the answers to the pair
        variance = variance / np.maximum(1 - variance * np.maximum(bend, 0), LEAST)
        d = (pairs.difference @ s - variance * slope)[:, None] + np.sqrt(variance)[:, None] * POINTS
        self.p = np.einsum("mpk,p->mk", np.exp(pairs.log_p(d, tie)), WEIGHTS / WEIGHTS.sum())
        self.likelihoods = (self.p * np.exp(pairs.evidence - pairs.evidence.max(1, keepdims=True))).sum(1)

    def _maximise(self) -> tuple[Floats, float]:
        """Return the most likely s and t."""
        s, tie, difference = np.zeros(len(self.precision)), 0.0, self.pairs.difference
        value = self._value(s, tie)
        for _ in range(NEWTON):
            _, slope, bend, (slope_tie, bend_tie) = self.pairs.likelihood(difference @ s, tie)
            step = cho_solve(self._factor(bend), difference.T @ slope - self.precision @ s)
            step_tie = (slope_tie - TIE_PRECISION * tie) / (TIE_PRECISION + bend_tie)
            length = 1.0
            while (gain := self._value(s + length * step, tie + length * step_tie) - value) < 0 and length > SHORTEST:
                length /= 2
            if gain > 0:
                s, tie, value = s + length * step, tie + length * step_tie, value + gain
            if gain < SETTLED * len(slope):
                break
        return s, tie

    def _value(self, s: Floats, tie: float) -> float:
        value = self.pairs.likelihood(self.pairs.difference @ s, tie)[0]
        return float(value.sum() - s @ self.precision @ s / 2 - TIE_PRECISION * tie**2 / 2)

    def _factor(self, bend: Floats) -> tuple[Floats, bool]:
        """Factorise V^-1 + D' W D. W is negative where answers contradict d, and taken as 0 there."""
        weighted = self.pairs.difference.multiply(np.maximum(bend, 0.0)[:, None])
        lower, is_lower = cho_factor(self.precision + (self.pairs.difference.T @ weighted).toarray())
        return lower, is_lower


def preferred(mean: Floats) -> Floats:
    """Return how often each item is preferred to another one, on average over all others."""
    d = mean[:, None] - mean
    p = 1 / (1 + np.exp(-d))
    return np.asarray((p.sum(1) - 0.5) / max(1, len(mean) - 1))
