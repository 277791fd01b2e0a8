"""What a fitted method says about every annotation, and what all answers to an item say together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray

from ..data import SPLITS
from ..detect import Posteriors
from ..detect.gold import GoldFound
from ..errors import DivergedError
from ..learn.answers.judging import LEAST, Judge, fit_judge, log_of
from ..learn.answers.model import Answers as SaidAnswers
from ..learn.answers.model import log_softmax
from ..learn.answers.posterior import Posterior
from ..learn.answers.rows import AnswerRows
from ..learn.batch import Groups
from ..learn.engine import Fitted
from ..learn.engine.predict import Scored, score_rows
from ..learn.engine.session import using_threads
from ..run.predictions import Predictions
from .closed import GIVEN_NUMBERS, KEPT_NUMBERS, ClosedFit
from .prepare import Job
from .splits import TEST, TRAIN, VALID

JUDGED_ITEMS, JUDGED_NUMBERS = 2**14, 2**19  # items, and answers x classes, judged at once: what caches hold
POWERS = np.linspace(0.02, 1.0, 50)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class Answers:
    """What a fitted method says, before any label is judged by it."""

    predictions: Predictions  # one row per annotation; no label is marked
    posteriors: Posteriors  # of all items
    scores: "RowScores"  # what the predictions are made of, and more
    judging: "Judging"  # how items are judged by all of their answers
    gold: GoldFound | None = None  # what items of known class say about all, where these are enough


def predict(job: Job, fitted: Fitted, fabric: Fabric) -> Answers:
    """Ask the fitted method about every annotation and item; what sets of labels are found to be is known."""
    if isinstance(fitted, ClosedFit) and isinstance(fitted.found, Answers):
        return fitted.found
    found, kept = RowScores.empty(job.table.label_codes), ItemProbabilities(len(job.rows.groups), job.spec.n_classes)
    with using_threads(job.threads):
        put_all(job, fitted, fabric, found, kept)
        tempered = Tempered.fit(job, kept) if job.trains and not job.cross_fitted else None
        if isinstance(fitted, ClosedFit):
            rows, judge = fitted.answers, fitted.judge
        else:
            rows, judge = _fit_beside(job, kept, tempered)
        judging = Judging(job, fitted, fabric, rows, judge, kept, tempered)
        posteriors = judging.judge_all(found)
    return Answers(found.predictions(job, posteriors), posteriors, found, judging)


def predict_alone(job: Job, fitted: Fitted, fabric: Fabric) -> Predictions:
    """Ask about every annotation without what all answers say together: a benchmark of labels needs none.

    A method that judges items is asked as ever.
    """
    if job.method_class.by_item:
        return predict(job, fitted, fabric).predictions
    found = RowScores.empty(job.table.label_codes)
    with using_threads(job.threads):
        put_all(job, fitted, fabric, found)
    return found.predictions(job, None)


@dataclass
class RowScores:
    """What is said about every annotation."""

    # predicted, probability: (N,), the class that f finds most likely, and its probability
    predicted: NDArray[np.int64]
    probability: NDArray[np.float32]
    # confidence, margin: (N,), f's probability of the given label, and the logarithm of its ratio to that of the
    # likeliest other class
    confidence: NDArray[np.float32]
    margin: NDArray[np.float32]
    # quality, full, unaided: (N,), probability that the label is right: by f, and all answers to the item where these
    # are judged together. The label itself counts half, in full, and not at all.
    quality: NDArray[np.float32]
    full: NDArray[np.float32]
    unaided: NDArray[np.float32]
    # (2, N), the same in full, at the least and at the most that may be stated: mistakes that answers share are not
    # seen
    stated: NDArray[np.float32]
    # untouched, shuffled, shuffled_labels: (N,), f's probability of the given label and of another one, and that: the
    # given labels, shuffled among the rows. By an f that no answer to the item has reached, where there is one.
    untouched: NDArray[np.float32]
    shuffled: NDArray[np.float32]
    shuffled_labels: NDArray[np.integer[Any]]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)  # (N,), what the method says beside that

    @classmethod
    def empty(cls, given: NDArray[np.integer[Any]]) -> "RowScores":
        """Return zeros, to be filled, for annotations with these labels."""
        shapes: dict[str, Any] = {each.name: len(given) for each in fields(cls) if each.name != "columns"}
        shapes["stated"] = (2, len(given))
        arrays: dict[str, Any] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        arrays["predicted"] = np.zeros(len(given), np.int64)
        arrays["shuffled_labels"] = np.random.default_rng(0).permutation(np.array(given))
        return cls(**arrays)

    @classmethod
    def joined(cls, parts: Sequence["RowScores"]) -> "RowScores":
        """Put the annotations of several together."""
        names = [each.name for each in fields(cls) if each.name != "columns"]
        arrays = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in names}
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
        return cls(**arrays, columns=columns)

    def take(self, rows: NDArray[np.int64]) -> "RowScores":
        """Keep these annotations alone."""
        arrays = {name: value[..., rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays, columns={name: values[rows] for name, values in self.columns.items()})

    def put(self, said: Scored, given: NDArray[Any]) -> None:
        """Keep what f says about some annotations; `given` are the labels of all."""
        at, p, labels = said.rows, said.probabilities, given[said.rows]
        every = np.arange(len(p))
        first = p.argmax(1)
        best = p[every, first]
        rest = p.copy()
        rest[every, first] = 0.0
        own = p[said.input, labels]
        other = np.where(first[said.input] == labels, rest.max(1)[said.input], best[said.input])
        self.predicted[at], self.probability[at] = first[said.input], best[said.input]
        self.confidence[at] = self.quality[at] = own
        self.margin[at] = np.log(np.maximum(own, LEAST)) - np.log(np.maximum(other, LEAST))
        for name, values in said.columns.items():
            self.columns.setdefault(name, np.zeros(len(given), values.dtype))[at] = values
        self.put_untouched(said, given)

    def put_untouched(self, said: Scored, given: NDArray[Any]) -> None:
        """Keep what an f that no answer to their items has reached says about some annotations."""
        at, p = said.rows, said.probabilities
        self.untouched[at], self.shuffled[at] = p[said.input, given[at]], p[said.input, self.shuffled_labels[at]]

    def judge(self, at: NDArray[np.int64], said: Posterior) -> None:
        """Keep what is said about the annotations `at` with all answers to their items."""
        self.quality[at], self.full[at], self.unaided[at] = said.quality, said.full, said.unaided
        self.stated[:, at] = said.stated

    def check_finite(self, job: Job) -> None:
        """Refuse answers that are not numbers."""
        if not np.isfinite(self.quality).all() or not np.isfinite(self.columns.get("gate", self.quality)).all():
            leave = "" if job.training.guard == "recover" else ", or leave it to the guard with --set guard=recover"
            raise DivergedError(
                "Training has diverged: the network's answers are not numbers; use a smaller --lr, or clip gradients "
                f"with --set clip=1{leave}."
            )

    def predictions(self, job: Job, posteriors: Posteriors | None) -> Predictions:
        """Put the scores beside the table, with the consensus of every item."""
        table, group = job.table, group_of_rows(job.rows.groups)
        said = dict(self.columns)
        if posteriors is not None:
            said |= {"consensus_label": posteriors.label[group], "consensus_quality": posteriors.quality[group]}
        found = Predictions.build(
            table.frame,
            table.classes,
            predicted_label=self.predicted,
            predicted_probability=self.probability,
            label_quality=self.quality,
            given_probability=self.confidence,
            given_margin=self.margin,
            **said,
            split=pd.Series(pd.Categorical.from_codes(job.split, categories=pd.Index(SPLITS))),
            pi_columns=table.pi_columns,
            has_input=job.inputs.kind != "none",
        )
        if table.long_rows is not None:
            for at, name in enumerate(("tagged_item", "tag"), 2):
                found.frame.insert(at, name, table.frame[name])
        if table.file_rows is not None:
            found.frame.insert(1, "table_row", table.file_rows)
        return found


class ItemProbabilities:
    """Log-probabilities of items in half precision: of all, or where these are too many of evenly spaced ones."""

    def __init__(self, n_items: int, n_classes: int):
        self.every = max(1, -(-n_items * n_classes // KEPT_NUMBERS))
        self.items = np.arange(0, n_items, self.every)
        self.log_p = np.zeros((len(self.items), n_classes), np.float16)

    def put(self, items: Ints, p: Floats) -> None:
        """Keep the probabilities p of these items."""
        kept = items % self.every == 0
        self.log_p[items[kept] // self.every] = log_of(p[kept])


@dataclass(frozen=True)
class Tempered:
    """Makes what a network says about items that it was trained on as sure as what it says about others.

    A network is surer of what it was trained on, and has learned some of the answers there.
    """

    trained: NDArray[np.bool_]  # (n,), items that it was trained on
    power: float  # to which their probabilities are taken

    @classmethod
    def fit(cls, job: Job, kept: ItemProbabilities) -> "Tempered":
        """Find the power, at most 1, under which TRAIN items are as sure as VALID ones."""
        part = first_part(job)
        known = part[kept.items]
        trained, valid = (kept.log_p[known == number].astype(np.float64) for number in (TRAIN, VALID))
        if not len(trained) or not len(valid):
            return cls(part == TRAIN, 1.0)
        wanted = _sureness(valid, 1.0)
        power = next((float(power) for power in POWERS if _sureness(trained, float(power)) >= wanted), 1.0)
        return cls(part == TRAIN, power)

    def __call__(self, items: Ints, log_p: Floats) -> Floats:
        """Temper log-probabilities of these items."""
        return np.where(self.trained[items][:, None], log_softmax(self.power * log_p), log_p)


def _sureness(log_p: Floats, power: float) -> float:
    """Return the mean of the largest probability, of at most 10,000 evenly spaced items."""
    log_p = log_p[:: max(1, len(log_p) // 10_000)]
    return float(np.exp(log_softmax(log_p * power).max(1)).mean())


def first_part(job: Job) -> NDArray[np.int8]:
    """Return what each item is of: TRAIN if any of its annotations is, else VALID, else TEST."""
    groups = job.rows.groups
    return np.asarray(np.minimum.reduceat(job.split[groups.order.numpy()], groups.starts[:-1].numpy()))


def _scored(job: Job, fitted: Fitted, fabric: Fabric) -> Iterator[Scored]:
    """Yield what f says about all items, a chunk at a time."""
    if not isinstance(fitted, ClosedFit):
        yield from score_rows(fitted.method, job.rows, fabric, job.train)
        return
    for items in chunks(job):
        index, item = job.rows.groups.members(torch.from_numpy(items))
        p = fitted.probabilities(items).astype(np.float32)
        yield Scored(index.numpy(), items, item.numpy(), item.numpy(), p, {})


def chunks(job: Job) -> list[Ints]:
    """Return items that are judged at once."""
    n, k = len(job.rows.groups), job.spec.n_classes
    size = max(1, min(JUDGED_ITEMS, int(JUDGED_NUMBERS * n / (k * len(job.rows)))))
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def put_all(job: Job, fitted: Fitted, fabric: Fabric, found: RowScores, kept: ItemProbabilities | None = None) -> None:
    """Keep what f says about all annotations and items, a chunk at a time."""
    given = job.table.label_codes
    for each in _scored(job, fitted, fabric):
        found.put(each, given)
        if isinstance(fitted, ClosedFit) and fitted.untouched is not None:
            p = fitted.untouched(each.items).astype(np.float32)
            found.put_untouched(replace(each, probabilities=p), given)
        if kept is not None:
            kept.put(each.items, each.of_items())
    found.check_finite(job)


def _fit_beside(job: Job, kept: ItemProbabilities, tempered: Tempered | None) -> tuple[AnswerRows, Judge]:
    """Learn how answers come about beside what a network says, from annotations that are not test rows."""
    learned = ~job.test & (job.rows.weight.numpy() > 0)
    rows = AnswerRows.fit(job.rows, job.spec, learned)
    places = np.flatnonzero(first_part(job)[kept.items] != TEST)
    per_item = len(job.rows) / len(job.rows.groups)
    places = places[:: max(1, int(len(places) * per_item * job.spec.n_classes // GIVEN_NUMBERS))]
    items, log_p = kept.items[places], kept.log_p[places].astype(np.float64)
    log_p = log_p if tempered is None else tempered(items, log_p)
    return rows, fit_judge(rows.of(items, learned)[0], log_p, truth=rows.truth(items))


@dataclass(frozen=True)
class Judging:
    """A fitted method, and how it judges items by what f says and all of their answers."""

    job: Job
    fitted: Fitted
    fabric: Fabric
    rows: AnswerRows  # all annotations, and how their PI is read
    judge: Judge  # how answers come about
    kept: ItemProbabilities  # what f says about the items
    tempered: Tempered | None

    def ask(self, wanted: NDArray[np.bool_] | None = None) -> Iterator[tuple[Ints, Floats]]:
        """Yield items, all or those that are wanted (n,), and their log-probabilities, some at a time.

        f is asked once more where its probabilities were too many to keep.
        """
        for items, log_p in self._ask(wanted):
            yield items, log_p if self.tempered is None else self.tempered(items, log_p)

    def _ask(self, wanted: NDArray[np.bool_] | None) -> Iterator[tuple[Ints, Floats]]:
        if not isinstance(self.fitted, ClosedFit) and self.kept.every > 1:
            for each in _scored(self.job, self.fitted, self.fabric):
                chosen = slice(None) if wanted is None else wanted[each.items]
                yield each.items[chosen], log_of(each.of_items()[chosen])
            return
        for items in chunks(self.job):
            items = items if wanted is None else items[wanted[items]]
            if len(items) and isinstance(self.fitted, ClosedFit):
                yield items, log_of(self.fitted.probabilities(items))
            elif len(items):
                yield items, self.kept.log_p[items].astype(np.float64)

    def judge_all(self, found: RowScores) -> Posteriors:
        """Work out posteriors of all items, by f and all answers; the quality of annotations goes to `found`."""
        posteriors = Posteriors.empty(len(self.job.rows.groups), self.job.spec.n_classes)
        for items, log_p in self.ask():
            answers, index = self.rows.of(items)
            said = self.judge(answers, log_p, self.rows.truth(items))
            posteriors.put(items, said.q)
            posteriors.votes[items], posteriors.stated[:, items] = said.votes, said.stated_items
            found.judge(index, said)
            self.put_gate(answers, index, said.full, found)
        return posteriors

    def put_gate(self, answers: SaidAnswers, index: Ints, full: Floats, found: RowScores) -> None:
        """Keep how likely each answer was given by chance, where the method judges items."""
        if self.job.method_class.by_item:
            gate = found.columns.setdefault("gate", np.zeros(len(self.job.rows), np.float32))
            by_chance = np.exp(
                -np.maximum(self.judge.model.skills(answers), 0.0)
            )  # share of right answers given anyway
            gate[index] = 1 - full * (1 - by_chance)


def group_of_rows(groups: Groups) -> NDArray[np.int64]:
    """Return the number of the item of every annotation."""
    number = torch.repeat_interleave(groups.starts.diff())
    of_row = torch.empty_like(number)
    of_row[groups.order] = number
    return of_row.numpy()
