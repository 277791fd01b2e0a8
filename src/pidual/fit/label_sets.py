"""Sets of labels: one judgement, yes or no, of each class, by features worked out once and skill shared by all classes.

    shared     the answer model of yes and no, fitted to the answers to all classes together
    class c    f_c (`closed_form.ridge`, by the same kernels, landmarks and eigenvectors for all classes), and an answer
               model of its own, shrunk to the shared one

A class is judged in full and forgotten but for its *open* pairs of item and class: those that some answer has, or that
may be missing (P >= OPEN). So memory grows with the labels that are there, not with items x classes. What is said about
rows of one class each, `no dog` or `dog`, is then what is said about labels of any table.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..detect import Posteriors
from ..learn.answers.judging import Judge, fit_judge, log_of
from ..learn.answers.model import AnswerModel, fit_answer_model, softmax
from ..learn.answers.model import Answers as Said
from ..learn.answers.posterior import Temper
from ..learn.answers.rows import AnswerRows
from ..learn.closed_form.alternate import alternate, mean_by, shared_confusions, sum_by, vote_shares
from ..learn.closed_form.kernels import KERNELS, LANDMARKS
from ..learn.closed_form.ridge import Ridge, choose_kernels
from ..learn.engine import Interrupted, Session, make_fabric
from ..learn.methods.fitted_truth import AnswerWeights, FittedTruth
from ..learn.nets import build_network
from ..run.records.config import Network
from ..run.records.summary import AnswerChoice, LabelSetsLeftOut
from .closed import GIVEN_NUMBERS, Asked, ClosedFit, LearnedInputs, records_of
from .predict import Answers, ItemProbabilities, Judging, RowScores, group_of_rows, predict
from .prepare import Job

OPEN = 0.05  # probability of a class that no answer has, from which on its rows are kept
SHARE_STEPS = 20  # of EM, to find how frequent a class is by the shared answer model
TOGETHER, TOGETHER_NUMBERS = 32, 2**22  # classes, and items x classes, that are predicted at once
SHARED_CLASSES = 64  # that skill is first learned from
CHOOSING_CLASSES = 3  # most frequent ones, by which kernels are chosen

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Made(NamedTuple):
    """The fit of one class."""

    judge: Judge
    asked: tuple[Asked, Asked | None]
    likelihood: float


class _Open(NamedTuple):
    """What is kept of one class."""

    rows: Ints
    label: int
    item: Ints  # as numbered in `Rows.groups`
    scores: RowScores
    posteriors: Posteriors
    log_p: NDArray[np.float16]
    left_out: int
    missed: float


def fit_sets(job: Job, session: Session | None = None) -> ClosedFit:
    """Fit and judge all classes of a job whose answers are sets; a stop is asked for after every class.

    A fit that was stopped begins again: no class of it is kept.
    """
    session, started = session or Session(), time.monotonic()
    assert job.table.sets is not None
    k, fabric = len(job.table.sets.classes), session.fabric or make_fabric("cpu")
    session.progress.start(k, 1, 0, job.network.name)
    try:
        with threadpool_limits(1):
            learner = _Learner(job)
            parts, choices = list[_Open](), list[AnswerChoice]()
            for label, (fitted, choice) in enumerate(learner.fit(range(k))):
                parts.append(_judge(fitted, label, learner.job_of(label), fabric))
                choices.append(choice)
                session.progress.step(label, 1)
                if session.stop():
                    raise Interrupted("stopped between two classes")
    finally:
        session.progress.stop()
    history = records_of([choice.answer_log_likelihood for choice in choices], started)
    fit: dict[str, Any] = vars(learner.shared_fit()) | {
        "history": history,
        "selected_epoch": k - 1,
        "selection": [_mean(choices)],
    }
    return ClosedFit(**fit | {"found": _put_together(job, learner, parts, fabric)})


class _Learner:
    """Fits one class after the other, by what does not depend on the class."""

    def __init__(self, job: Job):
        self.job = job
        kept = job.train & (job.rows.weight.numpy() > 0)
        self.answers = AnswerRows.fit(job.rows, job.spec, kept)
        order, starts = job.rows.groups.order.numpy(), job.rows.groups.starts.numpy()
        learned = np.flatnonzero(np.add.reduceat(kept[order], starts[:-1]))
        sets = job.table.sets
        assert sets is not None
        self.sets, self.k = sets, len(sets.classes)
        self.inputs: LearnedInputs | None = None
        if job.inputs.kind in ("none", "probabilities"):
            self.items = learned[:: max(1, int(len(learned) * 2 * len(job.rows) / len(starts)) // GIVEN_NUMBERS)]
            self.said, self.index = self.answers.of(self.items, kept)
        else:
            self.inputs = LearnedInputs.of(job, self.answers, learned, kept, self.k)
            self.items, self.said, self.index = self.inputs.items, self.inputs.said, self.inputs.index
            self.ridge = self._factorise(self.inputs)
        self.shared = self._share()

    def said_of(self, label: int) -> Said:
        """Return the answers to one class, 0 or 1."""
        return replace(self.said, label=self.sets.answers(label)[self.index])

    def job_of(self, label: int) -> Job:
        """Return the job of one class."""
        said = self.sets.answers(label)
        names = pd.Index(self.sets.sides[2 * label : 2 * label + 2])
        frame = self.job.table.frame.assign(label=pd.Categorical.from_codes(said, names))
        table = replace(self.job.table, frame=frame)
        return replace(self.job, table=table, rows=replace(self.job.rows, y_noisy=torch.from_numpy(said)))

    def fit(self, labels: Iterable[int]) -> Iterator[tuple[ClosedFit, AnswerChoice]]:
        """Fit classes, some at a time: features of items that none is fitted to are worked out once for these."""
        remaining, n = iter(labels), min(TOGETHER, TOGETHER_NUMBERS // len(self.job.rows.groups))
        while some := list(islice(remaining, max(1, n))):
            for label, made in zip(some, self._made(some), strict=True):
                temper = made.judge.temper
                rows = replace(self.answers, rows=self.job_of(label).rows)
                choice = AnswerChoice(temper.tau, temper.sharpness, made.likelihood)
                yield replace(self._hold(made), answers=rows), choice

    def _made(self, labels: list[int]) -> list[_Made]:
        """Fit some classes."""
        if self.inputs is None:
            return [self._beside(self.said_of(label), self._given(label)) for label in labels]
        how: dict[str, Any] = {"prior": self.shared}
        said = [self.said_of(label) for label in labels]
        found = [alternate(self.ridge, self.inputs.row, each, begin=_begin(each, self.shared), **how) for each in said]
        asked = self.inputs.asked(found)
        return [_Made(each.judge, one, each.likelihoods[-1]) for each, one in zip(found, asked, strict=True)]

    def _beside(self, said: Said, asked: Asked) -> _Made:
        """Fit the answer model of a class beside given probabilities."""
        judge = fit_judge(said, log_of(asked(self.items)), prior=self.shared)
        return _Made(judge, (asked, None), judge.temper.likelihood)

    def shared_fit(self) -> ClosedFit:
        """Return what annotators have in common for all classes."""
        judge = Judge(self.shared, Temper(), np.log(np.full(2, 0.5)))
        return self._hold(_Made(judge, (self._given(0), None), 0.0))

    def _hold(self, made: _Made) -> ClosedFit:
        """Make a fit of it."""
        f = build_network("prior", in_shape=(1,), n_classes=2)
        weights = AnswerWeights.of(self.job.spec, self.answers.design, made.judge)
        method = FittedTruth.around(f, self.job.spec, weights)
        self.job.method_options = weights.given
        about: dict[str, Any] = {"answers": self.answers, "judge": made.judge}
        about |= {"probabilities": made.asked[0], "untouched": made.asked[1]}
        about |= {"selected_epoch": 0, "history": [], "events": []}
        return ClosedFit(method, method.state_dict(), **about)

    def _factorise(self, inputs: LearnedInputs) -> Ridge:
        """Work out features, landmarks and eigenvectors, once for all classes."""
        x: Any = inputs.x
        counts, kernels = np.bincount(inputs.row, minlength=len(inputs.x)).astype(np.float64), list(KERNELS)
        if len(inputs.x) > LANDMARKS:
            chosen = set()
            for label in np.argsort(-np.diff(self.sets.said.indptr), kind="stable")[:CHOOSING_CLASSES].tolist():
                chosen |= {*choose_kernels(x, counts, *self._by_input(_begin(self.said_of(label))))}
            kernels = [kernel for kernel in KERNELS if kernel in chosen]
        return Ridge(x, counts, kernels)

    def _by_input(self, begin: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Return q and evidence by input, not by item."""
        assert self.inputs is not None
        row, n = self.inputs.row, len(self.inputs.x)
        return mean_by(row, begin[0], n), sum_by(row, begin[1], n)

    def _given(self, label: int) -> Asked:
        """Return given probabilities of a class; without any, how frequent its answers are."""
        if self.job.inputs.kind == "probabilities":
            array, first = self.job.inputs.array, self.answers.first(np.arange(len(self.job.rows.groups)))
            assert isinstance(array, np.ndarray)
            x_row = self.job.rows.x_row.numpy()[first]
            p = np.clip(np.asarray(array[:, label], np.float64)[x_row], 0.0, 1.0)
            return lambda items: np.stack([1 - p[items], p[items]], axis=1)
        share = vote_shares(self.said_of(label)).mean(0)
        return lambda items: np.repeat(share[None], len(items), 0)

    def _share(self, before: AnswerModel | None = None) -> AnswerModel:
        """Fit one answer model to the answers to all classes, or to evenly spaced ones of many; twice beside inputs."""
        labels = np.unique(np.linspace(0, self.k - 1, min(self.k, SHARED_CLASSES)).astype(np.int64))
        step = max(1, 2 * len(self.said.item) * len(labels) // GIVEN_NUMBERS)
        items = np.arange(0, self.said.n_items, step)
        log_p, said = [], []
        for label in labels.tolist():
            of_class = self.said_of(label)
            if self.inputs is not None:
                p = self.ridge.fit(*self._by_input(_begin(of_class, before)))[0]
                log_p.append(log_of(p[self.inputs.row[items]]))
            else:
                log_p.append(log_of(self._given(label)(self.items[items])))
            said.append(of_class.subset(items))
        one, n = said[0], len(labels)
        votes = int(one.vote.max(initial=-1)) + 1
        number = np.repeat(np.arange(n), len(one.item))
        parts: dict[str, Any] = {"item": np.tile(one.item, n) + number * one.n_items, "n_items": one.n_items * n}
        parts |= {"vote": np.tile(one.vote, n) + number * votes, "weight": np.tile(one.weight, n)}
        parts |= {"label": np.concatenate([each.label for each in said]), "context": np.tile(one.context, n)}
        model = fit_answer_model(replace(one, **parts), np.concatenate(log_p), sharpen=False)
        model = replace(model, bias=np.zeros(2), log_sharpness=np.zeros(()))
        return model if before is not None or self.inputs is None else self._share(model)


def _begin(said: Said, model: AnswerModel | None = None) -> tuple[Floats, Floats]:
    """Return soft targets and evidence to begin with: by an answer model and how frequent the class is, or by votes."""
    q = vote_shares(said)
    if model is None:
        return q, shared_confusions(said, q)
    evidence = np.asarray(said.by_item @ model.log_likelihood(said))
    for _ in range(SHARE_STEPS):
        q = softmax(evidence + np.log(np.maximum(q.mean(0), 0.5 / len(q))))[1]
    return q, evidence


def _mean(choices: list[AnswerChoice]) -> AnswerChoice:
    """Return what held-out answers decided, on average over the classes."""
    names = ("tau", "sharpness", "answer_log_likelihood")
    means: dict[str, Any] = {name: float(np.mean([getattr(choice, name) for choice in choices])) for name in names}
    return AnswerChoice(**means)


def _judge(fitted: ClosedFit, label: int, job: Job, fabric: Any) -> _Open:
    """Judge all answers to one class, and keep those to open pairs."""
    answers = predict(job, fitted, fabric)
    yes, group = answers.posteriors.p[:, 1], group_of_rows(job.rows.groups)
    said = np.bincount(group, job.rows.y_noisy.numpy(), len(yes)) > 0
    is_open = said | (yes >= OPEN)
    rows, items = np.flatnonzero(is_open[group]), np.flatnonzero(is_open)
    scores = answers.scores.take(rows)
    scores.predicted += 2 * label
    scores.shuffled_labels = scores.shuffled_labels.astype(np.int32) + 2 * label
    found = answers.posteriors
    posteriors = Posteriors(
        2 * label + found.label[items],
        found.quality[items],
        np.sort(found.p[items], axis=1)[:, ::-1],
        (2 * label + np.stack([found.label[items], 1 - found.label[items]], axis=1)).astype(np.int32),
        found.votes[items],
        found.stated[:, items],
    )
    p = log_of(fitted.probabilities(items)).astype(np.float16) if len(items) else np.zeros((0, 2), np.float16)
    left = ~is_open[group]
    return _Open(rows, label, items, scores, posteriors, p, int(left.sum()), float(yes[group][left].sum()))


def _put_together(job: Job, learner: _Learner, parts: list[_Open], fabric: Any) -> Answers:
    """Put the rows of all classes together, as what is said about one table of labels."""
    rows = np.concatenate([part.rows for part in parts])
    label = np.repeat([part.label for part in parts], [len(part.rows) for part in parts])
    item = np.concatenate([part.item for part in parts])
    of_item = np.repeat([part.label for part in parts], [len(part.item) for part in parts])
    order, by_item = np.lexsort((label, rows)), np.lexsort((of_item, item))
    rows, label = rows[order], label[order]
    table, k = job.table.long(rows, label), learner.k
    said = replace(
        job.rows.subset(rows),
        y_noisy=torch.from_numpy(table.label_codes.astype(np.int64)),
        item=torch.from_numpy(table.item_codes.astype(np.int64)),
        vote=None if table.answer_codes is None else torch.from_numpy(table.answer_codes),
    )
    left = LabelSetsLeftOut(k, len(rows), sum(part.left_out for part in parts), sum(part.missed for part in parts))
    long = replace(
        job,
        table=table,
        rows=said,
        split=job.split[rows],
        together=job.together[rows] * k + label,
        network=Network("prior", job.network.in_shape, {}),
        left_out=left,
    )
    scores = RowScores.joined([part.scores for part in parts]).take(order)
    posteriors = Posteriors.joined([part.posteriors for part in parts], by_item)
    kept = ItemProbabilities(len(item), 2)
    kept.every, kept.items = 1, np.arange(len(item))
    kept.log_p = np.concatenate([part.log_p for part in parts])[by_item]
    fitted = learner.shared_fit()
    answers = AnswerRows(said, learner.answers.design, 2)
    judging = Judging(long, fitted, fabric, answers, fitted.judge, kept, None)
    return Answers(scores.predictions(long, posteriors), posteriors, scores, judging)
