"""From what a method says to what is wrong: cut-off, reasons, items, annotators, and the summary of it all."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
from lightning_fabric import Fabric

from ..detect import (
    Cutoff,
    describe_annotator_classes,
    describe_annotators,
    describe_items,
    describe_people,
    mark_issues,
)
from ..engine import Fitted, guard
from ..engine.threads import using_threads
from ..predictions import Predictions
from .consensus import pi_effects
from .evaluate import evaluation
from .predict import Answers, group_of_rows, predict
from .prepare import Job


@dataclass
class Results:
    """What a fit says of the labels.

    Parameters
    ----------
    predictions : Predictions
        One row per annotation; those that look wrong are marked, with the reason.
    items, annotators : DataFrame, optional
        One row per item, and per annotator where these are known.
    summary : dict
        What summary.json holds.
    annotator_classes : DataFrame, optional
        One row per annotator and true class.
    """

    predictions: Predictions
    items: pd.DataFrame
    annotators: pd.DataFrame | None
    summary: dict[str, Any]
    annotator_classes: pd.DataFrame | None = None


def assess(job: Job, fitted: Fitted, fabric: Fabric) -> Results:
    """Predict, then judge."""
    return judge(job, fitted, predict(job, fitted, fabric))


def judge(job: Job, fitted: Fitted, answers: Answers) -> Results:
    """Which labels look wrong, why, and what that says of items and annotators."""
    posteriors = answers.posteriors
    assert posteriors is not None
    predictions, cutoff = mark_issues(answers.predictions, posterior=job.method_class.by_item)
    summary = summarise(job, fitted, predictions, cutoff)
    if answers.answer_model is not None:
        truth = posteriors.label[group_of_rows(job.rows.groups)]
        with using_threads(job.threads):
            summary["pi_effects"] = pi_effects(
                *answers.answer_model, job.rows, job.spec, job.table.frame, job.encoder.columns_, truth, ~job.test
            )
    summary |= describe_people(predictions, posteriors) | {"pi_health": job.pi_health}
    items = describe_items(predictions, posteriors)
    annotators = describe_annotators(predictions, posteriors.right, posteriors)
    by_class = describe_annotator_classes(predictions, annotators, posteriors)
    return Results(predictions, items, annotators, summary, by_class)


def find_learning_by_heart(job: Job, fitted: Fitted, predictions: Predictions) -> list[str]:
    """A warning where PI has led the noise network to memorise labels instead of how they were made."""
    gate, noise = predictions.gate, predictions.frame.get("noise_label")
    if gate is None or noise is None or fitted.method.random_pi:  # of which it is the purpose
        return []
    reason = guard.find_learning_by_heart(noise.cat.codes.to_numpy() == predictions.given, gate, job.train)
    if reason is None:
        return []
    return [
        f"Labels were memorised: {reason}. PI that tells rows apart, and not how their labels were made, "
        "leaves the classifier little to learn from; fit again without what cannot tell of wrong labels among "
        f"{', '.join(job.table.pi_columns)}."
    ]


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
        "label_quality": "posterior" if job.method_class.by_item else "confidence",
        "model_selection": fitted.selection,
        "warnings": [*job.warnings, *find_learning_by_heart(job, fitted, predictions)],
        "evaluation": evaluation(predictions, job.method_class.scores[1:]),
    }
