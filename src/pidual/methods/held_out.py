"""What the answers to items that a network has not seen say about it, and of several networks together.

    q_i(k)      proportional to f_k(x_i)^sharpness * prod_j P(l_ij | k, a_ij)^tau           the posterior
    q_i,-j(k)   the same without answer j

Two likelihoods compare settings, and no clean label is needed for either:

    LOO_ij = log sum_k q_i,-j(k) P(l_ij | k, a_ij)        of an answer, given x and the other answers: for judging
    IT_i   = log sum_k f_k(x_i) prod_j P(l_ij | k, a_ij)  of all answers to an item, given x: for predicting

Answers to one item are not independent given the truth: people, and models, make the same mistakes, and a network is
surer of itself than it should be. `tau` and `sharpness` are what makes the left-out answers most likely. Where an item
has many answers, LOO hardly depends on f; IT does, and so decides what the f of each setting counts in a prediction. In
both, settings are weighted as the mixture that makes the answers most likely.

Rows of one vote, such as four submissions of one person to one item, are one answer: P of a vote is the geometric mean
of P of its rows, so that each of m rows counts 1/m (`by_vote`). Answers that are left out, and q_i,-j, are of whole
votes. Where a row is judged, its vote does not count, and then the row counts as below.

An answer is no witness of itself. Where it is judged, it counts half of what it counts for the item:

    q_ij(k)     proportional to q_i(k) / P(l_ij | k, a_ij)^(tau / 2)        the quality of answer j is q_ij(l_ij)

Counted in full, it makes itself look right, most of all where an item has one answer; not counted, its quality falls
short by all that f and the others do not know. No likelihood of answers decides between the two. Half was chosen on
data with clean labels, where it is better than either or level (docs/detection.md).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..metrics import OWN_WEIGHT

TAUS = (1.0, 0.7, 0.5, 0.35, 0.25)
SHARPNESS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0)
ROUNDS = 3  # of the search for both
MIXTURE_ROUNDS = 300


def log_posterior(
    log_f: Float[Tensor, "*M B K"], log_p: Float[Tensor, "*M R K"], item: Int[Tensor, " R"], tau: float | Tensor = 1.0
) -> Float[Tensor, "*M B K"]:
    """log q_i(k), not normalised: log f_k(x_i) + tau sum_j log P(l_ij | k, a_ij)."""
    return log_f + tau * torch.zeros_like(log_f).index_add(-2, item, log_p)


def by_vote(
    log_p: Float[Tensor, "*M R K"], item: Int[Tensor, " R"], vote: Int[Tensor, " R"] | None
) -> tuple[Float[Tensor, "*M V K"], Int[Tensor, " V"], Int[Tensor, " R"] | None]:
    """log P of every vote, the mean over its rows; the item of each; and which of the votes each row belongs to.

    Without `vote` the rows are the votes, and the last is None.
    """
    if vote is None:
        return log_p, item, None
    number, count = vote.unique(return_inverse=True, return_counts=True)[1:]
    sums = log_p.new_zeros(*log_p.shape[:-2], len(count), log_p.shape[-1]).index_add(-2, number, log_p)
    return sums / count[:, None], item.new_zeros(len(count)).scatter(0, number, item), number


def answer_quality(
    log_q: Float[Tensor, "*M B K"],
    log_p: Float[Tensor, "*M R K"],
    item: Int[Tensor, " R"],
    given: Int[Tensor, " R"],
    tau: float | Tensor = 1.0,
    owns: Sequence[float] = (OWN_WEIGHT, 0.0),
    vote: Int[Tensor, " R"] | None = None,
) -> list[Float[Tensor, "*M R"]]:
    """q_ij(l_ij): the probability that each answer is right, where it counts each of `owns` of what it counts else.

    Without it, the other rows of its vote do not count either.
    """
    rows = torch.arange(len(item), device=item.device)
    of_item = log_q if log_q.shape[-2] == len(item) and torch.equal(item, rows) else log_q.index_select(-2, item)
    of_vote, _, number = by_vote(log_p, item, vote)
    log_p = tau * log_p
    others = of_item - (log_p if number is None else tau * of_vote.index_select(-2, number))
    joints = [others + own * log_p if own else others for own in owns]
    return [(joint[..., rows, given] - joint.logsumexp(-1)).exp() for joint in joints]


def leave_one_out(
    log_f: Float[Tensor, "B K"], log_p: Float[Tensor, "R K"], item: Int[Tensor, " R"], tau: float
) -> Float[Tensor, " R"]:
    """LOO of every answer: its log-likelihood, given the input and the other answers to the item."""
    others = log_posterior(log_f, log_p, item, tau)[item] - tau * log_p
    return (others.log_softmax(-1) + log_p).logsumexp(-1)


def item_likelihood(log_f: Float[Tensor, "B K"], log_evidence: Float[Tensor, "B K"]) -> Float[Tensor, " B"]:
    """IT of every item, from log f and the logarithm of prod_j P(l_ij | k, a_ij), up to a constant of the item."""
    return (log_f + log_evidence).logsumexp(-1)


def find_tempers(
    log_f: Float[Tensor, "B K"], log_p: Float[Tensor, "R K"], item: Int[Tensor, " R"], *, calibrated: bool = False
) -> tuple[float, float, Float[Tensor, " R"]]:
    """The sharpness and the tau under which the left-out answers are most likely, and LOO with these.

    Each is searched for in turn, until neither changes. Where items have one answer each, tau stays 1, and so does the
    sharpness of an f that is `calibrated`: it has been given its temperature by the same likelihood.
    """
    several = len(item) > len(log_f)
    known: dict[tuple[float, float], Tensor] = {}

    def best_of(tries: list[tuple[float, float]]) -> tuple[float, float]:
        for sharpness, tau in tries:
            if (sharpness, tau) not in known:
                known[sharpness, tau] = leave_one_out((log_f * sharpness).log_softmax(-1), log_p, item, tau)
        return max(tries, key=lambda at: float(known[at].sum()))

    best = (1.0, 0.5 if several else 1.0)
    for _ in range(ROUNDS):
        before = best
        best = best_of([(s, best[1]) for s in (SHARPNESS if several or not calibrated else (1.0,))])
        best = best_of([(best[0], tau) for tau in (TAUS if several else TAUS[:1])])
        if best == before:
            break
    return *best, known[best]


def find_sharpness(
    log_f: Float[Tensor, "B K"], log_evidence: Float[Tensor, "B K"]
) -> tuple[float, Float[Tensor, " B"]]:
    """The sharpness under which all answers to an item are most likely given x, and IT with it."""
    tries = {s: item_likelihood((log_f * s).log_softmax(-1), log_evidence) for s in SHARPNESS if s}
    best = max(tries, key=lambda sharpness: float(tries[sharpness].sum()))
    return best, tries[best]


def mixture_shares(log_likelihoods: Float[Tensor, "G N"]) -> Float[Tensor, " G"]:
    """Weights w, at least 0 and with sum 1, that maximise sum_n log sum_g w_g exp(L_gn), by EM from equal ones."""
    likelihood = (log_likelihoods - log_likelihoods.amax(0)).double().exp()
    w = torch.full((len(likelihood),), 1 / len(likelihood), dtype=torch.float64)
    for _ in range(MIXTURE_ROUNDS):
        joint = w[:, None] * likelihood
        w = (joint / joint.sum(0)).mean(1)
    return w.float()
