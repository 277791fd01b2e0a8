"""What the answers to items that a network has not seen say of it, and of several networks together.

    q_i(k)      proportional to f_k(x_i)^sharpness * prod_j P(l_ij | k, a_ij)^tau           the posterior
    q_i,-j(k)   the same without answer j
    LOO_ij    = log sum_k q_i,-j(k) P(l_ij | k, a_ij)                                       of each answer

Answers to one item are not independent given the truth: people, and models, are misled alike, and a network is surer
of itself than it should be. `tau` and `sharpness` are what makes the left-out answers most likely; no clean label is
needed for them. Members are weighted as a mixture that makes the left-out answers most likely, too.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

TAUS = (1.0, 0.7, 0.5, 0.35, 0.25)
SHARPNESS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0)
ROUNDS = 3  # of the search for both
MIXTURE_ROUNDS = 300


def log_posterior(
    log_f: Float[Tensor, "*M B K"], log_p: Float[Tensor, "*M R K"], item: Int[Tensor, " R"], tau: float | Tensor = 1.0
) -> Float[Tensor, "*M B K"]:
    """log q_i(k), not normalised: log f_k(x_i) + tau sum_j log P(l_ij | k, a_ij)."""
    return log_f + tau * torch.zeros_like(log_f).index_add(-2, item, log_p)


def leave_one_out(
    log_f: Float[Tensor, "B K"], log_p: Float[Tensor, "R K"], item: Int[Tensor, " R"], tau: float
) -> Float[Tensor, " R"]:
    """LOO of every answer: its log-likelihood, given the input and the other answers to the item."""
    others = log_posterior(log_f, log_p, item, tau)[item] - tau * log_p
    return (others.log_softmax(-1) + log_p).logsumexp(-1)


def find_tempers(
    log_f: Float[Tensor, "B K"], log_p: Float[Tensor, "R K"], item: Int[Tensor, " R"], *, calibrated: bool = False
) -> tuple[float, float, Float[Tensor, " R"]]:
    """The sharpness and the tau under which the left-out answers are most likely, and LOO with these.

    An f that is `calibrated` has been given its temperature by the same likelihood where items have one answer each.
    """
    several = len(item) > len(log_f)
    sharpnesses = SHARPNESS if several or not calibrated else (1.0,)
    best = (1.0, 1.0 if not several else 0.5)
    known = {best: leave_one_out(log_f, log_p, item, best[1])}
    for _ in range(ROUNDS):
        before = best
        tries = [(s, best[1]) for s in sharpnesses]
        for sharpness, tau in tries:
            if (sharpness, tau) not in known:
                known[sharpness, tau] = leave_one_out((log_f * sharpness).log_softmax(-1), log_p, item, tau)
        best = max(tries, key=lambda at: float(known[at].sum()))
        tries = [(best[0], t) for t in TAUS] if several else [best]
        for sharpness, tau in tries:
            if (sharpness, tau) not in known:
                known[sharpness, tau] = leave_one_out((log_f * sharpness).log_softmax(-1), log_p, item, tau)
        best = max(tries, key=lambda at: float(known[at].sum()))
        if best == before:
            break
    return *best, known[best]


def mixture_shares(loo: Float[Tensor, "G R"]) -> Float[Tensor, " G"]:
    """Weights w, at least 0 and with sum 1, that maximise sum_r log sum_g w_g exp(LOO_gr), by EM from equal ones."""
    likelihood = (loo - loo.amax(0)).double().exp()
    w = torch.full((len(loo),), 1 / len(loo), dtype=torch.float64)
    for _ in range(MIXTURE_ROUNDS):
        joint = w[:, None] * likelihood
        w = (joint / joint.sum(0)).mean(1)
    return w.float()
