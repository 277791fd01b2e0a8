"""Latent truth in closed form: f from soft targets, the answer model beside f, and soft targets from both, in turn.

    q    <- votes
    p    <- what fits to q without each item say about it (`ridge`)            a few rounds
    P    <- the answer model, with p given (`answers.model`)
    q    <- posterior of p and all answers (`answers.posterior`)

Nothing has a learning rate, and nothing is drawn at random but the landmarks, which are the same for every seed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..answers.misleading import Misleading, find_misleading
from ..answers.model import AnswerModel, Answers, fit_answer_model, log_softmax
from ..answers.posterior import Posterior, Temper, find_temper, judge
from .kernels import KERNELS, Array
from .ridge import ClosedForm, Ridge

ROUNDS = 3
CHOOSING, WORTH = 1000, 0.05  # inputs that choose kernels, and the weight that a kernel must have there
PRIOR_VOTES = 0.5  # that each item begins with, of all classes as they are frequent
FOLDS = 2  # of items that the answer model has not seen, where tau and sharpness are decided
LATER_STEPS = 40  # of the answer model, from the round before
LEAST = 1e-6

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Alternated:
    """What was found.

    Parameters
    ----------
    f : ClosedForm
        Predicts any input.
    p : array (n, K)
        What it says about each item without it.
    model : AnswerModel
    temper : Temper
    misleading : Misleading, optional
        Where items mislead.
    posterior : Posterior
    """

    f: ClosedForm
    p: Floats
    model: AnswerModel
    temper: Temper
    misleading: Misleading | None
    posterior: Posterior


def fit_inputs(x: Array, row: Ints, answers: Answers, *, truth: Ints | None = None) -> Alternated:
    """Fit f to different inputs x (n_inputs, d), and the answer model beside it; see `alternate`.

    Of many inputs, some decide first which kernels are worth working out for all.
    """
    counts, kernels = np.bincount(row, minlength=len(x)).astype(np.float64), list(KERNELS)
    if len(x) > 2 * CHOOSING:
        rows = np.linspace(0, len(x) - 1, CHOOSING).astype(np.int64)
        items = np.flatnonzero(np.isin(row, rows))
        known = None if truth is None else truth[items]
        tried = Ridge(np.asarray(x[rows]), counts[rows])
        found = alternate(tried, np.searchsorted(rows, row[items]), answers.subset(items), truth=known)
        weights = [sum(each.weight for each in found.f.settings if each.block is block) for block in tried.blocks]
        kernels = [kernel for kernel, weight in zip(KERNELS, weights, strict=True) if weight >= WORTH]
    return alternate(Ridge(x, counts, kernels), row, answers, truth=truth)


def alternate(
    ridge: Ridge, row: Ints, answers: Answers, *, truth: Ints | None = None, rounds: int = ROUNDS
) -> Alternated:
    """Fit f and the answer model in turn.

    Parameters
    ----------
    ridge : Ridge
        Of different inputs.
    row : int array (n,)
        Which input each item has.
    answers : Answers
    truth : int array (n,), optional
        Class of each item where it is known, else -1.
    rounds : int
    """
    q = vote_shares(answers)
    evidence = shared_confusions(answers, q)
    fold = np.random.default_rng(0).permutation(answers.n_items) % FOLDS
    members = [AnswerModel.empty(answers)] * (FOLDS + 1)  # the last one sees all items
    assert rounds
    for number in range(rounds):
        p_rows, f = ridge.fit(mean_by(row, q, len(ridge.weight)), sum_by(row, evidence, len(ridge.weight)))
        p = p_rows[row]
        log_p = np.log(np.maximum(p, LEAST))
        for at, member in enumerate(members):
            how = {"steps": LATER_STEPS} if number else {}
            seen = None if at == FOLDS else fold != at
            members[at] = fit_answer_model(answers, log_p, start=member, items=seen, truth=truth, **how)
        unseen = held_out(answers, members[:FOLDS], log_p, fold)
        temper = find_temper(answers, *unseen)
        misleading = find_misleading(answers, *unseen, temper.tau)
        model = members[FOLDS]
        log_answers = model.log_likelihood(answers)
        sharpness = temper.sharpness if misleading is None else misleading.sharpness
        log_f = log_softmax(sharpness * model.log_f(log_p))
        posterior = judge(answers, log_f, log_answers, temper.tau, misleading=misleading, truth=truth)
        q, evidence = posterior.q, answers.by_item @ log_answers
    return Alternated(f, p, model, temper, misleading, posterior)


def held_out(answers: Answers, members: list[AnswerModel], log_p: Floats, fold: Ints) -> tuple[Floats, Floats]:
    """Return log f (n, K) and log P (R, K) by members that have not seen the items."""
    log_f, log_answers = np.empty_like(log_p), np.empty((len(answers.item), answers.n_classes))
    for number, member in enumerate(members):
        items = fold == number
        log_f[items] = member.log_f(log_p[items])
        log_answers[items[answers.item]] = member.log_likelihood(answers)[items[answers.item]]
    return log_f, log_answers


def vote_shares(answers: Answers) -> Floats:
    """Return the share of the votes on each item that say each class, with PRIOR_VOTES of all classes."""
    votes = answers.by_item @ np.eye(answers.n_classes)[answers.label]
    prior = votes.sum(0) / votes.sum()
    return np.asarray((votes + PRIOR_VOTES * prior) / (votes.sum(1, keepdims=True) + PRIOR_VOTES))


def shared_confusions(answers: Answers, q: Floats) -> Floats:
    """Return the evidence of a first answer model: what everybody confuses, by the votes; the same for all people."""
    k = answers.n_classes
    counts = np.zeros((k, k))
    np.add.at(counts.T, answers.label, answers.weight[:, None] * q[answers.item])
    share = counts + 2 * np.eye(k) + 0.5
    log_share = np.log(share / share.sum(1, keepdims=True))
    return np.asarray(answers.by_item @ log_share.T[answers.label])


def sum_by(row: Ints, values: Floats, n: int) -> Floats:
    """Return the sum of values over the items of each input."""
    found = np.zeros((n, values.shape[1]))
    np.add.at(found, row, values)
    return found


def mean_by(row: Ints, values: Floats, n: int) -> Floats:
    """Return the mean of values over the items of each input."""
    return sum_by(row, values, n) / np.bincount(row, minlength=n)[:, None]
