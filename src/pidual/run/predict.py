"""What a fitted method says about every annotation, and what all answers to an item say together."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from ..batch import Groups
from ..data import SPLITS
from ..detect import Posteriors
from ..engine import Fitted
from ..engine.predict import score_rows
from ..engine.threads import using_threads
from ..errors import DivergedError
from ..methods import Method
from ..methods.answer_model import AnswerModel
from ..predictions import Predictions
from .consensus import LEAST, first_part, fit_judge
from .prepare import Job
from .splits import TRAIN

KEPT_NUMBERS = 2**27  # items x classes of which probabilities are kept at once
JUDGED_ITEMS, JUDGED_NUMBERS = 2**14, 2**23  # items, and answers x classes, that are judged at once


@dataclass
class Answers:
    """What a fitted method says, before any label is judged by it.

    Parameters
    ----------
    predictions : Predictions
        One row per annotation; no label is marked.
    posteriors : Posteriors, optional
        Of all items; None where the consensus was left out.
    scores : RowScores, optional
        What the predictions are made of, and more.
    answer_model : AnswerModel and tensor, optional
        How answers come about, and what each of its members counts.
    by_input : ItemProbabilities, optional
        What f says about the items, where a search for copies, or the consensus, needs it.
    """

    predictions: Predictions
    posteriors: Posteriors | None = None
    scores: "RowScores | None" = None
    answer_model: tuple[AnswerModel, Tensor] | None = None
    by_input: "ItemProbabilities | None" = None


def predict(job: Job, fitted: Fitted, fabric: Fabric, *, consensus: bool = True) -> Answers:
    """What the fitted method says about every annotation and item.

    `consensus=False` leaves it out where the method has none of its own: a benchmark of labels needs none.
    """
    by_item, n_items = job.method_class.by_item, len(job.rows.groups)
    posteriors = Posteriors.empty(n_items, job.spec.n_classes) if by_item else None
    needed = consensus and (not by_item or job.table.annotator_codes is not None)
    given_p = ItemProbabilities(n_items, job.spec.n_classes) if needed else None
    answer_model = fitted.method.answer_model
    with using_threads(job.threads):
        found = score_all(job, fitted.method, fabric, posteriors, given_p)
        if given_p is not None and not by_item:
            posteriors, answer_model = judge_together(job, fitted.method, given_p, found, fabric)
    if fitted.mean_confidence is not None:
        over_epochs = np.full(len(job.table), np.nan, np.float32)
        over_epochs[job.train] = fitted.mean_confidence.numpy()
        found.columns["epoch_probability"] = over_epochs
    return Answers(found.predictions(job, posteriors), posteriors, found, answer_model, given_p)


@dataclass
class RowScores:
    """What is said about every annotation.

    Parameters
    ----------
    predicted, probability : arrays (N,)
        The class that f finds most likely, and its probability.
    confidence, margin : arrays (N,)
        f's probability of the given label, and the logarithm of its ratio to that of the likeliest other class.
    quality, full, unaided : arrays (N,)
        Probability that the label is right: by f, and all answers to the item where these are judged together. The
        label itself counts half, in full, and not at all.
    shuffled, shuffled_labels : arrays (N,)
        f's probability of another label, and that: the given labels, shuffled among the rows.
    columns : dict of arrays (N,)
        What the method says beside that.
    against : array (N,), optional
        Share of the networks asked by which the label is rather wrong than right, where several judge.
    """

    predicted: NDArray[np.int64]
    probability: NDArray[np.float32]
    confidence: NDArray[np.float32]
    margin: NDArray[np.float32]
    quality: NDArray[np.float32]
    full: NDArray[np.float32]
    unaided: NDArray[np.float32]
    shuffled: NDArray[np.float32]
    shuffled_labels: NDArray[np.integer[Any]]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    against: NDArray[np.float32] | None = None

    @classmethod
    def empty(cls, given: NDArray[np.integer[Any]]) -> "RowScores":
        """Place for annotations with these labels."""
        shuffled = np.random.default_rng(0).permutation(given)
        probability, confidence, margin, quality, full, unaided, p_shuffled = (
            np.zeros(len(given), np.float32) for _ in range(7)
        )
        predicted = np.zeros(len(given), np.int64)
        return cls(predicted, probability, confidence, margin, quality, full, unaided, p_shuffled, shuffled)

    def take(self, rows: NDArray[np.int64]) -> "RowScores":
        """Of these annotations alone."""
        arrays = {name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays, columns={name: values[rows] for name, values in self.columns.items()})

    def put(self, at: NDArray[np.int64], p: NDArray[np.float32], input: NDArray[np.int64], given: NDArray[Any]) -> None:
        """Keep what f says about the annotations `at`, which are about these inputs (B, K) and have these labels."""
        every = np.arange(len(p))
        first = p.argmax(1)
        best = p[every, first]
        rest = p.copy()
        rest[every, first] = 0.0
        own, other = p[input, given], np.where(first[input] == given, rest.max(1)[input], best[input])
        self.predicted[at], self.probability[at] = first[input], best[input]
        self.confidence[at] = self.quality[at] = own
        self.margin[at] = np.log(np.maximum(own, LEAST)) - np.log(np.maximum(other, LEAST))
        self.shuffled[at] = p[input, self.shuffled_labels[at]]

    def judge(self, at: NDArray[np.int64], right: Any, full: Any, unaided: Any) -> None:
        """Keep what is said about the annotations `at` with all answers to their items."""
        self.quality[at], self.full[at], self.unaided[at] = right, full, unaided

    def check_finite(self, job: Job) -> None:
        """Refuse answers that are not numbers."""
        if not np.isfinite(self.quality).all() or not np.isfinite(self.columns.get("gate", self.quality)).all():
            leave = "" if job.training.guard == "recover" else ", or leave it to the guard with --set guard=recover"
            raise DivergedError(
                "Training has diverged: the network's answers are not numbers; use a smaller --lr, or clip gradients "
                f"with --set clip=1{leave}."
            )

    def predictions(self, job: Job, posteriors: Posteriors | None) -> Predictions:
        """The same beside the table, with the consensus of every item."""
        table, group = job.table, group_of_rows(job.rows.groups)
        own = ("gate", "noise_label", "epoch_probability")
        scores = {name: values for name, values in self.columns.items() if name not in own}
        found = Predictions.build(
            table.frame,
            table.classes,
            predicted=self.predicted,
            predicted_probability=self.probability,
            consensus=None if posteriors is None else posteriors.label[group],
            consensus_quality=None if posteriors is None else posteriors.quality[group],
            label_quality=self.quality,
            given_probability=self.confidence,
            given_margin=self.margin,
            epoch_probability=self.columns.get("epoch_probability"),
            gate=self.columns.get("gate"),
            noise=self.columns.get("noise_label"),
            scores=scores,
            split=pd.Series(pd.Categorical.from_codes(job.split, categories=pd.Index(SPLITS))),
            pi_columns=table.pi_columns,
            has_input=job.inputs.kind != "none",
        )
        if table.file_rows is not None:
            found.frame.insert(1, "table_row", table.file_rows)
        return found


def score_all(
    job: Job, method: Method, fabric: Fabric, posteriors: Posteriors | None, given_p: "ItemProbabilities | None"
) -> RowScores:
    """Ask the method about all annotations, a chunk at a time, and keep what it says about items."""
    given = job.table.label_codes
    found = RowScores.empty(given)
    for scored in score_rows(method, job.rows, fabric, job.train):
        at = scored.rows
        found.put(at, scored.probabilities, scored.input, given[at])
        if posteriors is not None and scored.posterior is not None:
            posteriors.put(scored.items, scored.posterior)
            found.judge(at, scored.right, scored.posterior[scored.item, given[at]], scored.unaided)
            if found.against is None:
                found.against = np.zeros(len(given), np.float32)
            found.against[at] = scored.against
        if given_p is not None:
            given_p.put(scored.items, scored.of_items())
        for name, values in scored.columns.items():
            found.columns.setdefault(name, np.zeros(len(given), values.dtype))[at] = values
    found.check_finite(job)
    return found


class ItemProbabilities:
    """Log-probabilities of items in half precision: of all, or where these are too many of evenly spaced ones."""

    def __init__(self, n_items: int, n_classes: int):
        self.every = max(1, -(-n_items * n_classes // KEPT_NUMBERS))
        self.items = torch.arange(0, n_items, self.every)
        self.log_p = torch.zeros(len(self.items), n_classes, dtype=torch.float16)

    def put(self, items: NDArray[np.int64], p: NDArray[np.float64]) -> None:
        """Keep the probabilities p of these items."""
        kept = items % self.every == 0
        self.log_p[items[kept] // self.every] = log_of(p[kept]).half()


def log_of(p: NDArray[np.float64]) -> Tensor:
    """Logarithms of probabilities, none of them infinite."""
    return torch.from_numpy(np.log(np.maximum(p, LEAST))).float()


def judge_together(
    job: Job, method: Method, given: ItemProbabilities, found: RowScores, fabric: Fabric
) -> tuple[Posteriors, tuple[AnswerModel, Tensor]]:
    """Posteriors of all items, by the probabilities of a method that does not judge items and all answers to each.

    The quality of all annotations goes to `found`. The network answers once more where its probabilities were too many
    to keep.
    """
    rows, k, n = job.rows, job.spec.n_classes, len(job.rows.groups)
    judge = fit_judge(given.log_p, given.items, rows, job.split, job.spec)
    posteriors = Posteriors.empty(n, k)
    trained = torch.from_numpy(first_part(job.split, rows, torch.arange(n)) == TRAIN)

    def put(items: Tensor, log_p: Tensor) -> None:
        index, item = rows.groups.members(items)
        q, right, unaided = judge.posterior(log_p, rows.select(index, item=item, with_x=False), trained[items])
        posteriors.put(items.numpy(), q.numpy())
        full = q[item, rows.y_noisy[index]]
        found.judge(index.numpy(), right.numpy(), full.numpy(), unaided.numpy())

    if given.every == 1:
        size = max(1, min(JUDGED_ITEMS, int(JUDGED_NUMBERS * n / (k * len(rows)))))
        for items in given.items.split(size):
            put(items, given.log_p[items].float())
    else:
        for scored in score_rows(method, rows, fabric, job.train):
            put(torch.from_numpy(scored.items), log_of(scored.of_items()))
    return posteriors, (judge.members.answers, judge.shares)


def group_of_rows(groups: Groups) -> NDArray[np.int64]:
    """The number of the item of every annotation."""
    number = torch.repeat_interleave(groups.starts.diff())
    of_row = torch.empty_like(number)
    of_row[groups.order] = number
    return of_row.numpy()
