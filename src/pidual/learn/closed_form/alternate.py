"""Latent truth in closed form: f from soft targets, the answer model beside f, and soft targets from both, in turn.

    q    <- votes
    p    <- what fits to q without each item say about it (`ridge`)            until few items change
    P    <- the answer model, with p given (`answers.model`)
    q    <- posterior of p and all answers (`answers.posterior`)

Nothing has a learning rate, and nothing is drawn at random but the landmarks, which are the same for every seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from ..answers.judging import HeldOut, Judge, fit_judge, log_of
from ..answers.model import STEPS, AnswerModel, Answers
from .kernels import KERNELS, LANDMARKS
from .ridge import ALONE, ClosedForm, Processes, Ridge, choose_kernels

ROUNDS, SETTLED = 8, 0.02  # at the most, and the share of items that change their class, below which it ends
PRIOR_VOTES = 0.5  # that each item begins with, of all classes as they are frequent
LATER_STEPS = 12  # of the answer model, from the round before

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
State = Mapping[str, Floats]


@dataclass(frozen=True)
class Alternated:
    """What was found."""

    f: ClosedForm  # predicts any input
    p: Floats  # (n, K), what it says about each item without it
    # (n, K), the same after the first round, by the votes on the other items alone: later, what an item's own answers
    # say has reached others, and comes back
    first: Floats
    judge: Judge
    q: Floats  # (n, K), posterior of each item
    likelihoods: list[float]  # of a left-out answer, after each round: the mean logarithm


def fit_inputs(
    x: Any,
    row: Ints,
    answers: Answers,
    *,
    truth: Ints | None = None,
    processes: Processes = ALONE,
    **how: Any,
) -> Alternated:
    """Fit f to different inputs x (n_inputs, d), and the answer model beside it; see `alternate`.

    x is an array, or anything that gives rows of one when it is indexed. Of many inputs, some decide first which
    kernels are worth working out for all. Runs on one thread: sums, and with them what is found, are then the same
    whatever number of threads there is.
    """
    counts, kernels = np.bincount(row, minlength=len(x)).astype(np.float64), list(KERNELS)
    with threadpool_limits(1):
        if len(x) > LANDMARKS:
            q = vote_shares(answers, truth)
            evidence = sum_by(row, shared_confusions(answers, q), len(x))
            kernels = choose_kernels(x, counts, mean_by(row, q, len(x)), evidence)
        return alternate(Ridge(x, counts, kernels, processes), row, answers, truth=truth, **how)


def alternate(
    ridge: Ridge,  # of different inputs
    row: Ints,  # (n,), which input each item has
    answers: Answers,
    *,
    truth: Ints | None = None,  # (n,), class of each item where it is known, else -1
    start: AnswerModel | None = None,  # where the answer model begins
    prior: AnswerModel | None = None,  # and what it is shrunk to
    begin: tuple[Floats, Floats] | None = None,  # q and evidence to begin with, by default those of the votes
    rounds: int = ROUNDS,  # at the most
    state: State | None = None,  # what `after_round` was given after a round to go on from
    after_round: Callable[[int, State], None] = lambda number, state: None,
) -> Alternated:
    """Fit f and the answer model in turn.

    `after_round` is called after every round but the last, with its number and all that is needed to go on from there.
    """
    held_out, model, likelihoods = (
        HeldOut(answers, truth, sharpen=False, prior=prior),
        start or prior or AnswerModel.empty(answers),
        list[float](),
    )
    if begin is not None:
        q, evidence = begin
    elif state is None:
        q = vote_shares(answers, truth)
        evidence = shared_confusions(answers, q)
    else:
        q, evidence, likelihoods = state["q"], state["evidence"], state["likelihoods"].tolist()
        first = state["first"]
        model = model.like(state["model"])
        held_out.models = [model.like(flat) for flat in state["held_out"]]
    for number in range(len(likelihoods), rounds):
        p_rows, f = ridge.fit(mean_by(row, q, len(ridge.weight)), sum_by(row, evidence, len(ridge.weight)))
        p = p_rows[row]
        first = first if number else p
        steps = LATER_STEPS if number else STEPS
        how: dict[str, Any] = {"start": model, "held_out": held_out, "steps": steps, "sharpen": False, "prior": prior}
        judge = fit_judge(answers, log_of(p), truth=truth, **how)
        model, before = judge.model, q.argmax(1)
        q, evidence = np.empty_like(p), np.empty_like(p)
        for items, part in answers.parts:  # a number for each answer and class is too much at once
            known = None if truth is None else truth[items]
            q[items], log_p = judge(part, log_of(p[items]), known).q, model.log_likelihood(part)
            evidence[items] = part.by_item @ log_p
        changed = (q.argmax(1) != before).mean()
        likelihoods.append(judge.temper.likelihood)
        if number and changed < SETTLED:
            break
        if number + 1 < rounds:
            now = {
                "q": q,
                "evidence": evidence,
                "first": first,
                "likelihoods": np.asarray(likelihoods),
                "model": model.flat(),
            }
            after_round(number, now | {"held_out": np.stack([each.flat() for each in held_out.models])})
    return Alternated(f, p, first, judge, q, likelihoods)


def vote_shares(answers: Answers, truth: Ints | None = None) -> Floats:
    """Return the share of the votes on each item that say each class, with PRIOR_VOTES of all classes.

    An item of a known class has that alone.
    """
    said = csr_matrix((answers.weight, (answers.item, answers.label)), (answers.n_items, answers.n_classes))
    votes = np.asarray(said.todense())
    prior = votes.sum(0) / votes.sum()
    shares = (votes + PRIOR_VOTES * prior) / (votes.sum(1, keepdims=True) + PRIOR_VOTES)
    if truth is not None:
        shares[truth >= 0] = np.eye(answers.n_classes)[truth[truth >= 0]]
    return np.asarray(shares)


def shared_confusions(answers: Answers, q: Floats) -> Floats:
    """Return the evidence of a first answer model: what everybody confuses, by the votes; the same for all people."""
    log_p = log_confusions(answers, q).T
    return np.concatenate([part.by_item @ log_p[part.label] for _, part in answers.parts])


def log_confusions(answers: Answers, q: Floats) -> Floats:
    """Return log P(l | k) of everybody (K, K), by the classes q of the items."""
    k = answers.n_classes
    counts = np.zeros((k, k))
    for items, part in answers.parts:
        np.add.at(counts.T, part.label, part.weight[:, None] * q[items][part.item])
    share = counts + 2 * np.eye(k) + 0.5
    return np.asarray(np.log(share / share.sum(1, keepdims=True)))


def sum_by(row: Ints, values: Floats, n: int) -> Floats:
    """Return the sum of values over the items of each input."""
    found = np.zeros((n, values.shape[1]))
    np.add.at(found, row, values)
    return found


def mean_by(row: Ints, values: Floats, n: int) -> Floats:
    """Return the mean of values over the items of each input."""
    return sum_by(row, values, n) / np.bincount(row, minlength=n)[:, None]
