"""What a fitted method says of every annotation, and what all answers to an item say together."""

from dataclasses import dataclass, field
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
    answer_model : AnswerModel and tensor, optional
        How answers come about, and what each of its members counts.
    """

    predictions: Predictions
    posteriors: Posteriors | None = None
    answer_model: tuple[AnswerModel, Tensor] | None = None


def predict(job: Job, fitted: Fitted, fabric: Fabric, *, consensus: bool = True) -> Answers:
    """What the fitted method says of every annotation and item.

    `consensus=False` leaves it out where the method has none of its own: a benchmark of labels needs none.
    """
    by_item, n_items = job.method_class.by_item, len(job.rows.groups)
    posteriors = Posteriors.empty(n_items, len(job.table), job.spec.n_classes) if by_item else None
    given_p = None if by_item or not consensus else ItemProbabilities(n_items, job.spec.n_classes)
    answer_model = fitted.method.answer_model
    with using_threads(job.threads):
        found = score_all(job, fitted.method, fabric, posteriors, given_p)
        if given_p is not None:
            posteriors, answer_model = judge_together(job, fitted.method, given_p, fabric)
    return Answers(found.predictions(job, posteriors), posteriors, answer_model)


@dataclass
class RowScores:
    """What the network says of every annotation."""

    predicted: NDArray[np.int64]
    probability: NDArray[np.float32]
    quality: NDArray[np.float32]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)

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
        scores = {name: values for name, values in self.columns.items() if name not in ("gate", "noise_label")}
        return Predictions.build(
            table.frame,
            table.classes,
            predicted=self.predicted,
            predicted_probability=self.probability,
            consensus=None if posteriors is None else posteriors.label[group],
            consensus_quality=None if posteriors is None else posteriors.quality[group],
            label_quality=self.quality,
            gate=self.columns.get("gate"),
            noise=self.columns.get("noise_label"),
            scores=scores,
            split=pd.Series(pd.Categorical.from_codes(job.split, categories=pd.Index(SPLITS))),
            pi_columns=table.pi_columns,
        )


def score_all(
    job: Job, method: Method, fabric: Fabric, posteriors: Posteriors | None, given_p: "ItemProbabilities | None"
) -> RowScores:
    """Ask the method of all annotations, a chunk at a time; what it says of items goes to where that is kept."""
    n, given = len(job.table), job.table.label_codes
    found = RowScores(np.zeros(n, np.int64), np.zeros(n, np.float32), np.zeros(n, np.float32))
    for scored in score_rows(method, job.rows, fabric, job.train):
        at, p = scored.rows, scored.probabilities
        found.predicted[at], found.probability[at] = p.argmax(1)[scored.input], p.max(1)[scored.input]
        found.quality[at] = p[scored.input, given[at]]
        if posteriors is not None and scored.posterior is not None:
            posteriors.put(scored.items, scored.posterior, at, scored.item, given[at])
            found.quality[at] = posteriors.right[at]
        elif given_p is not None:
            given_p.put(scored.items, scored.of_items())
        for name, values in scored.columns.items():
            found.columns.setdefault(name, np.zeros(n, values.dtype))[at] = values
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
    job: Job, method: Method, given: ItemProbabilities, fabric: Fabric
) -> tuple[Posteriors, tuple[AnswerModel, Tensor]]:
    """Posteriors of all items, by the probabilities of a method that does not judge items and all answers to each.

    The network answers once more where its probabilities were too many to keep.
    """
    rows, k, n = job.rows, job.spec.n_classes, len(job.rows.groups)
    judge = fit_judge(given.log_p, given.items, rows, job.split, job.spec)
    posteriors = Posteriors.empty(n, len(rows), k)
    trained = torch.from_numpy(first_part(job.split, rows, torch.arange(n)) == TRAIN)

    def put(items: Tensor, log_p: Tensor) -> None:
        index, item = rows.groups.members(items)
        q = judge.posterior(log_p, rows.select(index, item=item, with_x=False), trained[items])
        posteriors.put(items.numpy(), q.numpy(), index.numpy(), item, rows.y_noisy[index])

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
