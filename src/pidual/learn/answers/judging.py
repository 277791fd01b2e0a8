"""From probabilities of the items' classes to what all answers say: the same for a closed form, a network, a model of
somebody else, and no inputs at all.

    judge = fit_judge(answers, log_p)           how answers come about, beside these probabilities
    judge(answers, log_p)                       the posterior of any items and their answers

How sharp p is, what answers count, and whether items mislead is decided by items that the answer model has not seen.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .levels import LevelModel
from .misleading import Misleading, find_misleading
from .model import STEPS, AnswerModel, Answers, fit_answer_model, log_softmax
from .posterior import Posterior, Temper, find_temper, put_together

FOLDS = 2  # of items that the answer model has not seen
FOLD_NUMBERS, FOLD_ITEMS = 2**19, 2000  # answers x K, and items, beyond which some are enough for that
LEAST = 1e-6  # probability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Judge:
    """What was learned about answers, and how they are put together with probabilities."""

    model: AnswerModel
    temper: Temper
    log_share: Floats  # (K,), logarithm of the mean of f: how frequent the classes are
    misleading: Misleading | None = None  # where items mislead

    def log_f(self, log_p: Floats) -> Floats:
        """Return log f (n, K): probabilities as sharp as held-out answers ask for."""
        return log_softmax(self._sharpened(log_p))

    def _sharpened(self, log_p: Floats) -> Floats:
        """Return log f, up to a number for each item."""
        sharpness = self.temper.sharpness if self.misleading is None else self.misleading.sharpness
        return sharpness * self.model.sharpness * log_p + sharpness * self.model.bias

    def __call__(self, answers: Answers, log_p: Floats, truth: Ints | None = None) -> Posterior:
        """Judge items with these log-probabilities (n, K) by all of their answers."""
        log_answers = self.model.log_likelihood(answers)
        return put_together(
            answers,
            self._sharpened(log_p),
            log_answers,
            self.temper.tau,
            log_share=self.log_share,
            misleading=self.misleading,
            truth=truth,
            spoken_for=self.model.spoken_for(answers, log_answers, self.log_share),
        )


class HeldOut:
    """Answer models that each have not seen a part of the items; of many items, of some of them. See `fit_judge`."""

    def __init__(
        self,
        answers: Answers,
        truth: Ints | None = None,
        *,
        begin: AnswerModel | None = None,
        sharpen: bool = True,
        prior: AnswerModel | None = None,
    ):
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
        self.models = [begin or prior or AnswerModel.empty(answers)] * FOLDS
        self.prior, self.sharpen, self.truth, self.shape = prior, sharpen, truth, (len(answers.item), answers.n_classes)

    def fit(self, log_p: Floats, steps: int) -> tuple[Floats, Floats]:
        """Go on fitting, and return log f (n, K) and log P (R, K) by models that have not seen the items."""
        log_p = log_p[self.some]
        log_f, log_answers = np.empty_like(log_p), np.empty(self.shape)
        for number, (unseen, seen) in enumerate(self.parts):
            items, others = self.items[number], self.others[number]
            known = None if self.truth is None else self.truth[others]
            how: dict[str, Any] = {"start": self.models[number], "steps": steps, "sharpen": self.sharpen}
            model = fit_answer_model(seen, log_p[others], truth=known, prior=self.prior, **how)
            log_f[items], log_answers[self.rows[number]] = model.log_f(log_p[items]), model.log_likelihood(unseen)
            self.models[number] = model
        return log_f, log_answers


def fit_judge(
    answers: Answers,
    log_p: Floats,  # (n, K), of each item's classes, by something that has not seen its answers
    *,
    truth: Ints | None = None,  # (n,), class of each item where it is known, else -1
    start: AnswerModel | None = None,  # where to begin
    held_out: HeldOut | None = None,  # models of these answers to go on with
    steps: int = STEPS,  # of each answer model, at the most
    sharpen: bool = True,  # whether a sharpness of p is fitted; not where it has its own from the same answers
    n_levels: int | None = None,  # of answers that are levels, not classes
    prior: AnswerModel | None = None,  # what answer models are shrunk to
) -> Judge:
    """Learn how answers come about, beside the logarithms of given probabilities."""
    begin = prior or (AnswerModel.empty(answers) if n_levels is None else LevelModel.begin(answers, n_levels))
    start = start or begin
    model = fit_answer_model(answers, log_p, start=start, truth=truth, steps=steps, sharpen=sharpen, prior=prior)
    held_out = held_out or HeldOut(answers, truth, begin=begin, sharpen=sharpen, prior=prior)
    unseen = held_out.fit(log_p, steps)
    temper = find_temper(held_out.answers, *unseen)
    misleading = find_misleading(held_out.answers, *unseen, temper.tau)
    judge = Judge(model, temper, np.zeros(answers.n_classes), misleading)
    share = np.exp(judge.log_f(log_p)).mean(0)
    return Judge(model, temper, np.log(np.maximum(share, LEAST)), misleading)


def log_of(p: NDArray[np.floating]) -> Floats:
    """Return logarithms of probabilities, none of them infinite."""
    return np.log(np.maximum(np.asarray(p, np.float64), LEAST))
