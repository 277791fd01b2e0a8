"""Items that mislead: everybody is drawn to the same wrong class, and the input says otherwise.

    E_i(z, m)   = prod_j ((1 - follow) P(l_ij | z, a_ij) + follow P(l_ij | m, a_ij))^tau
    q_i(z)        proportional to f_z(x_i) [ (1 - rate) E_i(z, z) + rate / (K - 1) sum_{m != z} E_i(z, m) ]

An item of class z misleads with probability `rate`: it looks like some other class m, and an answer to it comes from m
with probability `follow`, else from z. E_i(z, z) is the product of all answers: with rate = 0 this is the posterior
without items that mislead.

Where f and most answers disagree, either may be wrong. The other answers show which: if f is wrong they are scattered,
if the item misleads they are of f's class. So there is a rival explanation: f is wrong at some rate however sure it is,
(1 - rate) f + rate (1 - f) / (K - 1), and all answers come from the truth. Items are taken to mislead only if that
makes held-out answers more likely than the rival does, by CLEAR standard errors. Before that, f itself must make them
more likely, by as much, than the same class shares for all items do: an f that knows nothing contradicts nobody.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..metrics import OWN_WEIGHT
from .answer_model import FULL_CLASSES
from .held_out import answer_quality, by_vote, item_likelihood, log_posterior

RATES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
FOLLOWS = (0.5, 0.7, 0.85)
SHARPNESS = (0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0)
CLEAR = 2.0  # standard errors
MOST_NUMBERS = 2**21  # answers x K^2 that decide
TINY = 1e-30


class Misleading(NamedTuple):
    """The share of items that mislead, the part of their answers that follows, and the sharpness of f by setting."""

    rate: float
    follow: float
    sharpness: list[float]


def judge_answers(
    log_f: Float[Tensor, "M B K"],
    log_p: Float[Tensor, "M R K"],
    item: Int[Tensor, " R"],
    given: Int[Tensor, " R"],
    tau: Float[Tensor, "M 1 1"],
    rate: float = 0.0,
    follow: float = 0.0,
    owns: Sequence[float] = (OWN_WEIGHT, 0.0),
    vote: Int[Tensor, " R"] | None = None,
) -> tuple[Float[Tensor, "M B K"], list[Float[Tensor, "M R"]]]:
    """log q_i(z), not normalised, and the quality of each answer, once for each weight of its own vote in `owns`."""
    if not rate:
        log_q = log_posterior(log_f, *by_vote(log_p, item, vote)[:2], tau)
        return log_q, answer_quality(log_q, log_p, item, given, tau, owns, vote)
    members = zip(log_f, log_p, tau, strict=True)
    judged = [judge_member(f, p, item, given, t, rate, follow, owns, vote) for f, p, t in members]
    qualities = [torch.stack([quality[at] for _, quality in judged]) for at in range(len(owns))]
    return torch.stack([log_q for log_q, _ in judged]), qualities


def judge_member(
    log_f: Float[Tensor, "B K"],
    log_p: Float[Tensor, "R K"],
    item: Int[Tensor, " R"],
    given: Int[Tensor, " R"],
    tau: Tensor,
    rate: float,
    follow: float,
    owns: Sequence[float],
    vote: Int[Tensor, " R"] | None,
) -> tuple[Float[Tensor, "B K"], list[Float[Tensor, " R"]]]:
    """The same for one member of the population, where items may mislead."""
    pairs = whole = tau * pair_likelihoods(log_p, follow)
    of_vote, vote_item, number = by_vote(log_p, item, vote)
    log_e = evidence(pairs, item, len(log_f))
    if number is not None:
        votes = tau * pair_likelihoods(of_vote, follow)
        log_e, whole = evidence(votes, vote_item, len(log_f)), votes[number]
    rows = torch.arange(len(item), device=item.device)
    joints = [log_posterior_by_pairs(log_f[item], log_e[item] - (whole - own * pairs), rate) for own in owns]
    qualities = [(joint[rows, given] - joint.logsumexp(-1)).exp() for joint in joints]
    return log_posterior_by_pairs(log_f, log_e, rate), qualities


def pair_likelihoods(log_p: Float[Tensor, "R K"], follow: float) -> Float[Tensor, "R K K"]:
    """log((1 - follow) P(l | z) + follow P(l | m)) of each answer l, for all z and m."""
    p = log_p.exp()
    return ((1 - follow) * p[:, :, None] + follow * p[:, None, :] + TINY).log()


def evidence(pairs: Float[Tensor, "R K K"], item: Int[Tensor, " R"], n: int) -> Float[Tensor, "B K K"]:
    """log E_i(z, m) of n items."""
    return pairs.new_zeros(n, *pairs.shape[1:]).index_add(0, item, pairs)


def log_posterior_by_pairs(
    log_f: Float[Tensor, "B K"], log_e: Float[Tensor, "B K K"], rate: float
) -> Float[Tensor, "B K"]:
    """log q_i(z), not normalised, by f and E."""
    return log_f + answers_by_truth(*split_evidence(log_e), rate)


def answers_by_truth(right: Float[Tensor, "B K"], wrong: Float[Tensor, "B K"], rate: float) -> Float[Tensor, "B K"]:
    """log((1 - rate) E_i(z, z) + rate / (K - 1) sum_{m != z} E_i(z, m)), from the two of `split_evidence`."""
    return torch.logaddexp(right + math.log(1 - rate), wrong + math.log(rate / (right.shape[-1] - 1)))


def split_evidence(log_e: Float[Tensor, "B K K"]) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K"]]:
    """log E_i(z, z), and the logarithm of the sum of E_i(z, m) over all other m."""
    same = torch.eye(log_e.shape[-1], dtype=torch.bool, device=log_e.device)
    return log_e.diagonal(dim1=-2, dim2=-1), log_e.masked_fill(same, -torch.inf).logsumexp(-1)


def find_misleading(
    log_f: Float[Tensor, "G B K"],
    log_p: Float[Tensor, "G R K"],
    item: Int[Tensor, " R"],
    tau: Sequence[float],
    shares: Sequence[float],
) -> Misleading | None:
    """Whether items mislead, by held-out items: G settings with their tau and their share in judging decide together.

    None where they do not, clearly; where items have one answer each or f does not predict the answers; for more than
    FULL_CLASSES classes; and where a member has diverged.
    """
    g, n, k = log_f.shape
    if len(item) <= n or not 2 <= k <= FULL_CLASSES or not (log_f.isfinite().all() and log_p.isfinite().all()):
        return None
    log_f, log_p, item = some_items(log_f, log_p, item, MOST_NUMBERS // (k * k))
    counting = [at for at in range(g) if shares[at] > 0]
    weights = torch.tensor([shares[at] for at in counting], dtype=torch.float64)[:, None]
    flat = log_f.exp().mean(1, keepdim=True).log().expand_as(log_f)
    rivals, unaided = (
        torch.stack([rival(log[at], log_p[at], item, tau[at]) for at in counting]) for log in (log_f, flat)
    )
    if not is_clear((weights * (rivals - unaided)).sum(0)):
        return None
    tries = [likelihoods(log_f[at], log_p[at], item, tau[at]) for at in counting]
    gains = {pair: (weights * (torch.stack([found[pair][0] for found in tries]) - rivals)).sum(0) for pair in tries[0]}
    best = max(gains, key=lambda pair: float(gains[pair].sum()))
    if not is_clear(gains[best]):
        return None
    sharpness = dict(zip(counting, (found[best][1] for found in tries), strict=True))
    return Misleading(*best, [sharpness.get(at, 1.0) for at in range(g)])


def is_clear(gain: Float[Tensor, " b"]) -> bool:
    """Whether items gain on average, by CLEAR standard errors."""
    return bool(gain.mean() > CLEAR * gain.std() / math.sqrt(len(gain)))


def rival(
    log_f: Float[Tensor, "B K"], log_p: Float[Tensor, "R K"], item: Int[Tensor, " R"], tau: float
) -> Float[Tensor, " B"]:
    """log-likelihood of all answers to an item by the rival, at the best sharpness of f and rate of its mistakes."""
    plain = log_posterior(torch.zeros_like(log_f), log_p, item, tau)
    tries = [item_likelihood(wrong_at(f, rate), plain) for f in sharpened(log_f).values() for rate in (0.0, *RATES)]
    return max(tries, key=lambda made: float(made.sum()))


def likelihoods(
    log_f: Float[Tensor, "B K"], log_p: Float[Tensor, "R K"], item: Int[Tensor, " R"], tau: float
) -> dict[tuple[float, float], tuple[Float[Tensor, " B"], float]]:
    """The same by each rate and follow of items that mislead, with the best sharpness of f."""
    by_sharpness, found = sharpened(log_f), {}
    for follow in FOLLOWS:
        right, wrong = split_evidence(evidence(tau * pair_likelihoods(log_p, follow), item, len(log_f)))
        for rate in RATES:
            by_answers = answers_by_truth(right, wrong, rate)
            tries = [(item_likelihood(f, by_answers), s) for s, f in by_sharpness.items()]
            found[rate, follow] = max(tries, key=lambda made: float(made[0].sum()))
    return found


def sharpened(log_f: Float[Tensor, "B K"]) -> dict[float, Float[Tensor, "B K"]]:
    """log f at every sharpness."""
    return {s: (log_f * s).log_softmax(-1) for s in SHARPNESS}


def wrong_at(log_f: Float[Tensor, "B K"], rate: float) -> Float[Tensor, "B K"]:
    """log f where f is wrong at this rate however sure it is: (1 - rate) f + rate (1 - f) / (K - 1)."""
    f = log_f.exp()
    return ((1 - rate) * f + rate * (1 - f) / (f.shape[-1] - 1) + TINY).log()


def some_items(
    log_f: Float[Tensor, "G B K"], log_p: Float[Tensor, "G R K"], item: Int[Tensor, " R"], most: int
) -> tuple[Float[Tensor, "G b K"], Float[Tensor, "G r K"], Int[Tensor, " r"]]:
    """Every n-th item with its answers: n is 1, or so large that about `most` answers are left."""
    step = -(-len(item) // most)
    rows = item % step == 0
    return log_f[:, ::step], log_p[:, rows], item[rows] // step
