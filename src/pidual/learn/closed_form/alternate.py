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
from threadpoolctl import threadpool_limits

from ..answers.misleading import Misleading, find_misleading
from ..answers.model import STEPS, AnswerModel, Answers, fit_answer_model, log_softmax
from ..answers.posterior import Posterior, Temper, find_temper, judge
from .kernels import KERNELS, LANDMARKS, Array
from .ridge import ClosedForm, Ridge, choose_kernels

ROUNDS = 3
PRIOR_VOTES = 0.5  # that each item begins with, of all classes as they are frequent
FOLDS = 2  # of items that the answer model has not seen, where tau and sharpness are decided
FOLD_NUMBERS, FOLD_ITEMS = 2**19, 2000  # answers x K, and items, beyond which some are enough for that
LATER_STEPS = 12  # of the answer model, from the round before
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

    Of many inputs, some decide first which kernels are worth working out for all. Runs on one thread: sums, and with
    them what is found, are then the same whatever number of threads there is.
    """
    counts, kernels = np.bincount(row, minlength=len(x)).astype(np.float64), list(KERNELS)
    with threadpool_limits(1):
        if len(x) > LANDMARKS:
            q = vote_shares(answers)
            evidence = sum_by(row, shared_confusions(answers, q), len(x))
            kernels = choose_kernels(x, counts, mean_by(row, q, len(x)), evidence)
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
    folds = Folds(answers, truth)
    model = AnswerModel.empty(answers)
    assert rounds
    for number in range(rounds):
        p_rows, f = ridge.fit(mean_by(row, q, len(ridge.weight)), sum_by(row, evidence, len(ridge.weight)))
        p = p_rows[row]
        log_p = np.log(np.maximum(p, LEAST))
        steps = LATER_STEPS if number else STEPS
        model = fit_answer_model(answers, log_p, start=model, truth=truth, steps=steps)
        unseen = folds.fit(log_p, steps)
        temper = find_temper(folds.answers, *unseen)
        misleading = find_misleading(folds.answers, *unseen, temper.tau)
        log_answers = model.log_likelihood(answers)
        sharpness = temper.sharpness if misleading is None else misleading.sharpness
        log_f = log_softmax(sharpness * model.log_f(log_p))
        posterior = judge(answers, log_f, log_answers, temper.tau, misleading=misleading, truth=truth)
        q, evidence = posterior.q, answers.by_item @ log_answers
    return Alternated(f, p, model, temper, misleading, posterior)


class Folds:
    """Answer models that each have not seen a part of the items; of many items, of some of them.

    Parameters
    ----------
    answers : Answers
    truth : int array (n,), optional
        Class of each item where it is known, else -1.
    """

    def __init__(self, answers: Answers, truth: Ints | None):
        step = min(len(answers.item) * answers.n_classes // FOLD_NUMBERS, answers.n_items // FOLD_ITEMS)
        self.some = np.arange(0, answers.n_items, max(1, step))
        if step > 1:
            answers, truth = answers.subset(self.some), None if truth is None else truth[self.some]
        self.answers = answers
        fold = np.random.default_rng(0).permutation(answers.n_items) % FOLDS
        self.items = [np.flatnonzero(fold == number) for number in range(FOLDS)]
        self.others = [np.flatnonzero(fold != number) for number in range(FOLDS)]
        self.rows = [np.flatnonzero(fold[answers.item] == number) for number in range(FOLDS)]
        self.parts = [
            (answers.subset(items), answers.subset(others))
            for items, others in zip(self.items, self.others, strict=True)
        ]
        self.models = [AnswerModel.empty(answers)] * FOLDS
        self.truth, self.shape = truth, (len(answers.item), answers.n_classes)

    def fit(self, log_p: Floats, steps: int) -> tuple[Floats, Floats]:
        """Go on fitting, and return log f (n, K) and log P (R, K) by models that have not seen the items."""
        log_p = log_p[self.some]
        log_f, log_answers = np.empty_like(log_p), np.empty(self.shape)
        for number, (unseen, seen) in enumerate(self.parts):
            items, others = self.items[number], self.others[number]
            known = None if self.truth is None else self.truth[others]
            model = fit_answer_model(seen, log_p[others], start=self.models[number], truth=known, steps=steps)
            log_f[items], log_answers[self.rows[number]] = model.log_f(log_p[items]), model.log_likelihood(unseen)
            self.models[number] = model
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
