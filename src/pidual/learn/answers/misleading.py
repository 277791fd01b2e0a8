"""Items that mislead: everybody is drawn to the same wrong class, and the input says otherwise.

    E_i(z, m) = prod_j ((1 - follow) P(l_ij | z, a_ij) + follow P(l_ij | m, a_ij))^power
    E_i(z)    = (1 - rate) E_i(z, z) + rate / (K - 1) sum_{m != z} E_i(z, m)                 in place of E_i(z, z)

An item of class z misleads with probability `rate`: it looks like some other class m, and an answer to it comes from m
with probability `follow`, else from z.

Where f and most answers disagree, either may be wrong. The other answers show which: if f is wrong they are scattered,
if the item misleads they are of f's class. So there is a rival explanation: f is wrong at some rate however sure it is,
(1 - rate) f + rate (1 - f) / (K - 1), and all answers come from the truth. Items are taken to mislead only if that
makes held-out answers more likely than the rival does, by CLEAR standard errors. Before that, f itself must make them
more likely, by as much, than the same class shares for all items do: an f that knows nothing contradicts nobody.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .model import FULL_CLASSES, Answers, logsumexp, softmax

RATES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
FOLLOWS = (0.5, 0.7, 0.85)
SHARPNESS = (0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0)
CLEAR = 2.0  # standard errors
MOST_NUMBERS = 2**20  # answers x K^2 that decide
TINY = 1e-30

Floats = NDArray[np.float64]


class Misleading(NamedTuple):
    """The share of items that mislead, the part of their answers that follows, and the sharpness of f beside it."""

    rate: float
    follow: float
    sharpness: float

    def pairs(self, log_p: Floats) -> Floats:
        """Return log((1 - follow) P(l | z) + follow P(l | m)) of each answer l, for all z and m (R, K, K)."""
        p = np.exp(log_p)
        return np.log((1 - self.follow) * p[:, :, None] + self.follow * p[:, None, :] + TINY)

    def of_truth(self, log_e: Floats) -> Floats:
        """Return log E_i(z) from log E_i(z, m)."""
        return self.mixed(*split(log_e))

    def mixed(self, right: Floats, wrong: Floats) -> Floats:
        """Return log E_i(z) from the two of `split`."""
        share = math.log(self.rate / (right.shape[-1] - 1))
        return np.logaddexp(right + math.log(1 - self.rate), wrong + share)


def split(log_e: Floats) -> tuple[Floats, Floats]:
    """Return log E_i(z, z), and the logarithm of the sum of E_i(z, m) over all other m."""
    k = log_e.shape[-1]
    return np.einsum("...zz->...z", log_e), logsumexp(np.where(np.eye(k, dtype=bool), -np.inf, log_e))


def find_misleading(answers: Answers, log_f: Floats, log_p: Floats, tau: float) -> Misleading | None:
    """Find out whether items mislead, by items that f and the answer model have not seen.

    None where they do not, clearly; where items have one answer each or f does not predict the answers; and for more
    than FULL_CLASSES classes.
    """
    k = answers.n_classes
    if len(answers.item) <= answers.n_items or not 2 <= k <= FULL_CLASSES:
        return None
    step = -(-len(answers.item) * k * k // MOST_NUMBERS)
    if step > 1:
        some = np.arange(0, answers.n_items, step)
        kept = np.isin(answers.item, some)
        return find_misleading(answers.subset(some), log_f[some], log_p[kept], tau)
    flat = np.broadcast_to(np.log(np.exp(log_f).mean(0)), log_f.shape)
    plain = tau * (answers.by_item @ log_p)
    rival = best(_f_is_wrong(log_f, plain))
    if not _is_clear(rival - best(_f_is_wrong(flat, plain))):
        return None
    tries, fs = dict[Misleading, Floats](), _sharpened(log_f)
    for follow in FOLLOWS:
        pairs = Misleading(0.5, follow, 1.0).pairs(log_p).reshape(len(log_p), k * k)
        log_e = tau * (answers.by_item @ pairs)
        most = log_e.max(1)
        e = np.exp(log_e - most[:, None]).reshape(-1, k, k)
        right = np.einsum("nzz->nz", e).copy()
        e[:, np.arange(k), np.arange(k)] = 0
        wrong = e @ np.ones(k)
        for s, f in fs.items():
            if_right, if_wrong = _dot(f, right), _dot(f, wrong)
            for rate in RATES:
                mixed = (1 - rate) * if_right + rate / (k - 1) * if_wrong
                tries[Misleading(rate, follow, s)] = most + np.log(mixed)
    found = max(tries, key=lambda each: float(tries[each].sum()))
    return found if _is_clear(tries[found] - rival) else None


def _f_is_wrong(log_f: Floats, log_e: Floats) -> Iterator[Floats]:
    """Return the log-likelihood of each item's answers (n,), for f of each sharpness that is wrong at each rate."""
    most = log_e.max(1)
    e = np.exp(log_e - most[:, None])
    total = e.sum(1)
    for f in _sharpened(log_f).values():
        right = _dot(f, e)
        for rate in (0.0, *RATES):
            yield most + np.log((1 - rate) * right + rate / (f.shape[1] - 1) * (total - right) + TINY)


def best(tries: Iterable[Floats]) -> Floats:
    """Return the log-likelihood of each item's answers by the explanation that makes them most likely."""
    return max(tries, key=lambda made: float(made.sum()))


def _dot(a: Floats, b: Floats) -> Floats:
    """Return the product of each row with the same row of the other."""
    return np.asarray(np.einsum("nk,nk->n", a, b))


def _is_clear(gain: Floats) -> bool:
    """Return whether items gain on average, by CLEAR standard errors."""
    if len(gain) < 2:
        return False
    return bool(gain.mean() > CLEAR * gain.std(ddof=1) / math.sqrt(len(gain)))


def _sharpened(log_f: Floats) -> dict[float, Floats]:
    """Return f at every sharpness."""
    return {s: softmax(s * log_f)[1] for s in SHARPNESS}
