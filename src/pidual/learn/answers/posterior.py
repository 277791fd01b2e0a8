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
from .model import Answers, log_softmax, logsumexp, only_known, softmax

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
    log_f: Floats,  # (n, K), logarithm of what is known about each item without its answers
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
    m = np.asarray(answers.by_item.sum(1)).ravel()
    b = np.minimum(1.0, 1 / (tau * (1 + rho * np.maximum(m - 1, 0))))[:, None]
    prior = log_f + (b - 1) * (np.log(np.exp(log_f).mean(0)) if log_share is None else log_share)
    power = (tau * b)[answers.item]
    if misleading is None:
        by_item = tau * (answers.by_item @ log_p)
        all_answers, at_most = b * by_item, by_item
        own, vote = power * log_p, power * answers.of_vote(log_p)
        joints = [all_answers[answers.item] - vote + weight * own for weight in (OWN_WEIGHT, 0.0)]
    else:
        k = answers.n_classes
        pairs = misleading.pairs(log_p).reshape(len(log_p), k * k)
        by_item = tau * (answers.by_item @ pairs)
        by_pair = b * by_item
        others = by_pair[answers.item] - power * answers.of_vote(pairs)
        all_answers, at_most = (misleading.of_truth(each.reshape(-1, k, k)) for each in (by_pair, by_item))
        joints = [misleading.of_truth((others + w * power * pairs).reshape(-1, k, k)) for w in (OWN_WEIGHT, 0.0)]
    log_q = log_softmax(only_known(prior + all_answers, truth))
    q = np.exp(log_q)
    cautious = softmax(CAUTION * log_q)[1]
    confident = q if (b == 1).all() else softmax(only_known(log_f + at_most, truth))[1]  # each vote counts in full
    known = None if truth is None else truth[answers.item]
    said = answers.label if spoken_for is None else spoken_for
    rows = np.arange(len(answers.item)), said
    quality, unaided = (softmax(only_known(prior[answers.item] + each, known))[1][rows] for each in joints)
    stated = np.stack([each[answers.item, said] for each in (cautious, confident)])
    stated_items = np.stack([each.max(1) for each in (cautious, confident)])
    votes, full = m * tau * b[:, 0], q[answers.item, said]
    return Posterior(q, quality, full, unaided, votes, stated, stated_items)


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
