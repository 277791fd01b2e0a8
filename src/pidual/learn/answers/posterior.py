"""What all answers to an item say together: the one posterior, whatever gave the probabilities beside it.

    q_i(k)   proportional to  f_i(k) / pi_k [ pi_k prod_j P(l_ij | k, a_ij)^(w_ij tau) ]^b_i
    b_i    = min(1, 1 / (tau (1 + RHO (m_i - 1))))          pi = mean_i f_i, m_i: votes on item i

Answers to one item may share mistakes, so that they count as m / (1 + RHO (m - 1)) votes, about two however many; tau
is what held-out answers ask for. A *vote* is what one person says about one item: rows of one vote share a weight
of 1, and are left out together. An answer is no witness of itself. Where it is judged it counts OWN_WEIGHT of a vote:

    q_ij(k)  proportional to  q_i(k) / (all of its vote)  P(l_ij | k, a_ij)^(tau b_i OWN_WEIGHT)

Mistakes that answers share cannot be seen in them, so that what is stated is a range: from q_i^CAUTION, normalised, to
the posterior with b_i = 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...metrics import OWN_WEIGHT
from .misleading import Misleading
from .model import Answers, exponentials, in_parts, logsumexp, only_known, softmax

RHO = 0.4  # correlation of answers to one item, given its class
TAUS = (1.0, 0.7, 0.5, 0.35, 0.25)
SHARPNESS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0)
ROUNDS = 3  # of the search for both
CAUTION = 0.4  # power of q, at which it states as little as it must

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Temper:
    """What held-out answers ask for."""

    sharpness: float = 1.0  # power of f
    tau: float = 1.0  # power of the answers
    likelihood: float = float("nan")  # mean log-likelihood of an answer, given the input and the other answers


@dataclass(frozen=True)
class Posterior:
    """What is said about items and answers."""

    q: Floats  # (n, K)
    quality: Floats  # (R,), probability that each answer is right, where it counts OWN_WEIGHT
    full: Floats  # where it counts in full
    unaided: Floats  # and where it does not count
    votes: Floats  # (n,), votes that the answers to each item count as
    # (2, R), probability that each answer is right, in full, at the least and at the most that may be stated
    stated: Floats
    stated_items: Floats  # (2, n), the same of the most likely class of each item


def put_together(
    answers: Answers,
    # (n, K), logarithm of what is known about each item without its answers; with `log_share` up to a number for each
    log_f: Floats,
    log_p: Floats,  # (R, K), log P(l | k, a) of each answer
    tau: float,
    *,
    log_share: Floats | None = None,  # (K,), logarithm of pi; by default of the mean of these f
    misleading: Misleading | None = None,  # where items mislead
    truth: Ints | None = None,  # (n,), class of each item where it is known, else -1
    spoken_for: Ints | None = None,  # (R,), class that each answer is right about or not; by default its label
    rho: float = RHO,  # 0 takes answers to one item for independent, up to tau
) -> Posterior:
    """Return the posterior of f and all answers."""
    n, k, item = answers.n_items, answers.n_classes, answers.item
    said = answers.label if spoken_for is None else spoken_for
    m = np.asarray(answers.by_item.sum(1)).ravel()
    b = np.minimum(1.0, 1 / (tau * (1 + rho * np.maximum(m - 1, 0))))[:, None]
    share = np.log(np.exp(log_f).mean(0)) if log_share is None else log_share
    log_e = log_p if misleading is None else misleading.pairs(log_p).reshape(len(log_p), k * k)
    of_items, power, plain = answers.by_item @ log_e, tau * b, bool((b == 1).all())
    lone = misleading is None and m.max(initial=0) <= 1  # no item has another vote
    of_votes = log_e if lone else answers.of_vote(log_e)

    def joint(items: slice | Ints, log_e: Floats, prior: Floats) -> Floats:
        """Return the logarithms of posteriors, up to a number for each, of items whose answers say this."""
        log_e = log_e if misleading is None else misleading.of_truth(log_e.reshape(-1, k, k))
        return only_known(log_e + prior[items], None if truth is None else truth[items])

    prior = log_f if plain else log_f + (b - 1) * share
    q, best, spread = np.empty((n, k)), np.empty(n), np.empty(n)
    sure = q if plain else np.empty((n, k))  # where each vote counts in full
    for part in in_parts(n, log_e.shape[1]):
        z = joint(part, power[part] * of_items[part], prior)
        z -= z.max(1, keepdims=True)
        e = np.exp(z)
        best[part] = 1 / e.sum(1)
        np.multiply(e, best[part, None], out=q[part])
        z *= CAUTION
        spread[part] = np.exp(z, out=z).sum(1)
        if sure is not q:
            sure[part] = softmax(joint(part, tau * of_items[part], log_f))[1]
    quality, unaided = np.empty(len(item)), np.empty(len(item))
    for part in in_parts(len(item), log_e.shape[1]):
        at = item[part]
        others = np.zeros(1) if lone else power[at] * (of_items[at] - of_votes[part])
        own = OWN_WEIGHT * power[at] * log_e[part]
        for found, each in ((unaided, others), (quality, others + own)):
            _, e, total = exponentials(joint(at, each, prior))
            found[part] = e[np.arange(len(at)), said[part]] / total
    full = q[item, said]
    stated = np.stack([(full / best[item]) ** CAUTION / spread[item], sure[item, said]])
    return Posterior(q, quality, full, unaided, m * power[:, 0], stated, np.stack([1 / spread, sure.max(1)]))


def leave_one_out(answers: Answers, log_f: Floats, log_p: Floats, tau: float) -> Floats:
    """Return the log-likelihood of every answer, given the input and the other votes on its item (R,)."""
    return _given_others(log_f[answers.item], _of_others(answers, log_p), log_p, tau)


def _of_others(answers: Answers, log_p: Floats) -> Floats:
    """Return the weighted sum of log P over all rows of the other votes on each answer's item (R, K)."""
    return np.asarray((answers.by_item @ log_p)[answers.item] - answers.of_vote(log_p))


def _given_others(log_f: Floats, others: Floats, log_p: Floats, tau: float) -> Floats:
    """Return the log-likelihood of every answer, from f of its item and what the other votes say (R, K)."""
    joint = log_f + tau * others
    return logsumexp(joint + log_p) - logsumexp(joint)


def find_temper(answers: Answers, log_f: Floats, log_p: Floats) -> Temper:
    """Find the sharpness of f and the tau under which left-out answers are most likely.

    Each is searched for in turn, until neither changes. Both stay 1 where items have one vote each: f has been given
    its temperature by the same likelihood.
    """
    if np.bincount(answers.item[np.unique(answers.vote, return_index=True)[1]]).max(initial=0) <= 1:
        return Temper(likelihood=_weighted_mean(answers, leave_one_out(answers, log_f, log_p, 1.0)))
    known: dict[tuple[float, float], float] = {}
    others, log_f = _of_others(answers, log_p), log_f[answers.item]

    def best_of(tries: list[tuple[float, float]]) -> tuple[float, float]:
        for sharpness, tau in tries:
            if (sharpness, tau) not in known:
                found = _given_others(sharpness * log_f, others, log_p, tau)
                known[sharpness, tau] = _weighted_mean(answers, found)
        return max(tries, key=lambda each: known[each])

    best = (1.0, 0.5)
    for _ in range(ROUNDS):
        before = best
        best = best_of([(sharpness, best[1]) for sharpness in SHARPNESS])
        best = best_of([(best[0], tau) for tau in TAUS])
        if best == before:
            break
    return Temper(*best, known[best])


def _weighted_mean(answers: Answers, values: Floats) -> float:
    """Return the mean of values of answers, each counted by its weight."""
    return float(answers.weight @ values / answers.weight.sum())
