"""What a fitted method says of every annotation, item and annotator."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from ..batch import Groups
from ..detect import Cutoff, Posteriors, describe_annotators, describe_items, mark_issues
from ..engine import Fitted, guard
from ..engine.predict import score_rows
from ..engine.threads import using_threads
from ..errors import DivergedError
from ..methods import METHODS, Method
from ..methods.answer_model import AnswerModel
from ..predictions import Predictions
from ..table import SPLITS
from .consensus import LEAST, first_part, fit_judge, pi_effects
from .evaluate import evaluation
from .prepare import Job

KEPT_NUMBERS = 2**27  # items x classes of which probabilities are kept at once
JUDGED_ITEMS, JUDGED_NUMBERS = 2**14, 2**23  # items, and answers x classes, that are judged at once


@dataclass
class Results:
    """What a fit says of the labels."""

    predictions: Predictions
    items: pd.DataFrame | None
    annotators: pd.DataFrame | None
    summary: dict[str, Any]


def assess(job: Job, fitted: Fitted, fabric: Fabric, *, consensus: bool = True) -> Results:
    """What the fitted method says of every annotation, item and annotator.

    `consensus=False` leaves it out where the method has none of its own, and items and annotators with it: a benchmark
    of labels needs neither.
    """
    table, n = job.table, len(job.table)
    given = table.label_codes
    predicted = np.zeros(n, np.int64)
    probability, quality = np.zeros(n, np.float32), np.zeros(n, np.float32)
    extra: dict[str, NDArray[Any]] = {}
    by_item = METHODS[job.options.method].by_item
    posteriors = Posteriors.empty(len(job.rows.groups), n, job.spec.n_classes) if by_item else None
    given_p = None if by_item or not consensus else ItemProbabilities(len(job.rows.groups), job.spec.n_classes)
    with using_threads(job.threads):
        for scored in score_rows(fitted.method, job.rows, fabric, job.split == 0):
            at, p = scored.rows, scored.probabilities
            predicted[at], probability[at] = p.argmax(1)[scored.input], p.max(1)[scored.input]
            quality[at] = p[scored.input, given[at]]
            if posteriors is not None and scored.posterior is not None:
                posteriors.put(scored.items, scored.posterior, at, scored.item, given[at])
                quality[at] = posteriors.right[at]
            elif given_p is not None:
                given_p.put(scored.items, scored.of_items())
            for name, values in scored.columns.items():
                extra.setdefault(name, np.zeros(n, values.dtype))[at] = values
        if not np.isfinite(quality).all() or not np.isfinite(extra.get("gate", quality)).all():
            leave = "" if job.training.guard == "recover" else ", or leave it to the guard with --set guard=recover"
            raise DivergedError(
                "Training has diverged: the network's answers are not numbers; use a smaller --lr, or clip gradients "
                f"with --set clip=1{leave}."
            )
        answers = fitted.method.answer_model
        if given_p is not None:
            posteriors, answers = judge_together(job, fitted.method, given_p, fabric)
    if "gate" in extra and "noise_label" in extra and not fitted.method.random_pi:  # of which it is the purpose
        warn_of_learning_by_heart(job, extra["noise_label"] == given, extra["gate"])
    group = group_of_rows(job.rows.groups)
    split = pd.Series(pd.Categorical.from_codes(job.split, categories=pd.Index(SPLITS)))
    predictions = Predictions.build(
        table.frame,
        table.classes,
        predicted=predicted,
        predicted_probability=probability,
        consensus=None if posteriors is None else posteriors.label[group],
        consensus_quality=None if posteriors is None else posteriors.quality[group],
        label_quality=quality,
        gate=extra.pop("gate", None),
        noise=extra.pop("noise_label", None),
        scores=extra,
        split=split,
        pi_columns=table.pi_columns,
    )
    predictions, cutoff = mark_issues(predictions, posterior=by_item)
    summary = summarise(job, fitted, predictions, cutoff)
    if posteriors is None:
        return Results(predictions, None, None, summary)
    if answers is not None:
        with using_threads(job.threads):
            summary["pi_effects"] = pi_effects(
                *answers, job.rows, job.spec, table.frame, job.encoder.columns_, posteriors.label[group], job.split != 2
            )
    items = describe_items(predictions, posteriors)
    return Results(predictions, items, describe_annotators(predictions, posteriors.right), summary)


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
    trained = torch.from_numpy(first_part(job.split, rows, torch.arange(n)) == 0)

    def put(items: Tensor, log_p: Tensor) -> None:
        index, item = rows.groups.members(items)
        q = judge.posterior(log_p, rows.select(index, item=item, with_x=False), trained[items])
        posteriors.put(items.numpy(), q.numpy(), index.numpy(), item, rows.y_noisy[index])

    if given.every == 1:
        size = max(1, min(JUDGED_ITEMS, int(JUDGED_NUMBERS * n / (k * len(rows)))))
        for items in given.items.split(size):
            put(items, given.log_p[items].float())
    else:
        for scored in score_rows(method, rows, fabric, job.split == 0):
            put(torch.from_numpy(scored.items), log_of(scored.of_items()))
    return posteriors, (judge.members.answers, judge.shares)


def group_of_rows(groups: Groups) -> NDArray[np.int64]:
    """The number of the item of every annotation."""
    number = torch.repeat_interleave(groups.starts.diff())
    of_row = torch.empty_like(number)
    of_row[groups.order] = number
    return of_row.numpy()


def warn_of_learning_by_heart(job: Job, knows: NDArray[np.bool_], gate: NDArray[np.float32]) -> None:
    """Add a warning where PI has led the noise network to learn labels by heart instead of how they were made."""
    reason = guard.find_learning_by_heart(knows, gate, job.split == 0)
    if reason is not None:
        job.warnings.append(
            f"Labels were learned by heart: {reason}. PI that tells rows apart, and not how their labels were made, "
            "leaves the classifier little to learn from; fit again without what cannot tell of wrong labels among "
            f"{', '.join(job.table.pi_columns)}."
        )


def summarise(job: Job, fitted: Fitted, predictions: Predictions, cutoff: Cutoff) -> dict[str, Any]:
    """The summary of a run as JSON values."""
    record = next((r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch), fitted.history[-1])
    return {
        "n_issues": predictions.n_issues,
        "estimated_noise_rate": cutoff.estimated_noise_rate,
        "cutoff": cutoff.to_json(),
        "selected_epoch": fitted.selected_epoch,
        "valid_accuracy": record.get("valid_accuracy"),
        "seconds": sum(r["seconds"] for r in fitted.history),
        "guard": {
            "recovered": bool(fitted.events) and not fitted.collapsed,
            "collapsed": fitted.collapsed,
            "events": fitted.events,
        },
        "label_quality": "posterior" if METHODS[job.options.method].by_item else "confidence",
        "model_selection": fitted.selection,
        "warnings": job.warnings,
        "evaluation": evaluation(predictions, METHODS[job.options.method].scores[1:]),
    }
