"""From predictions to suspected labels: scores, the cut-off, consensus, annotators, reasons. No torch."""

from typing import Literal

import pandas as pd

from ..predictions import Predictions
from .consensus import annotators_table, items_table, shrunk_quality
from .reasons import find_reasons, reasons_for
from .scores import confidence_score, gate_score
from .threshold import Cutoff, auto_cutoff, budget_cutoff, choose_cutoff, find_issues, fixed_cutoff

__all__ = [
    "Cutoff",
    "annotators_table",
    "auto_cutoff",
    "budget_cutoff",
    "choose_cutoff",
    "confidence_score",
    "describe_annotators",
    "describe_items",
    "find_issues",
    "find_reasons",
    "fixed_cutoff",
    "gate_score",
    "items_table",
    "mark_issues",
    "reasons_for",
    "shrunk_quality",
]


def mark_issues(
    predictions: Predictions, *, cutoff: float | Literal["auto"] = "auto", budget: int | None = None
) -> tuple[Predictions, Cutoff]:
    """Mark the labels that look wrong, with the reason for each.

    Parameters
    ----------
    predictions : Predictions
    cutoff : float or "auto"
        Quality below which a label is an issue if another label is predicted.
    budget : int, optional
        Instead: take this many labels of lowest quality.

    Returns
    -------
    Predictions, Cutoff
        The predictions with is_label_issue and reason filled in, and the cut-off used.
    """
    scores = predictions.label_quality, predictions.given, predictions.predicted
    chosen = choose_cutoff(*scores, cutoff=cutoff, budget=budget)
    is_issue = find_issues(chosen, *scores)
    return predictions.with_issues(is_issue, reasons_for(predictions, is_issue)), chosen


def describe_annotators(predictions: Predictions) -> pd.DataFrame | None:
    """The annotators table of marked predictions, worst first; None where annotators are not known."""
    annotator = predictions.annotator
    if annotator is None:
        return None
    return annotators_table(
        annotator,
        predictions.frame["annotator"].cat.categories,
        predictions.given,
        predictions.predicted,
        predictions.is_issue,
        predictions.classes,
        gate=predictions.gate,
    )


def describe_items(predictions: Predictions) -> pd.DataFrame:
    """The items table of predictions, in the order of the items."""
    return items_table(
        predictions.item,
        predictions.frame["item"].cat.categories,
        predictions.given,
        predictions.predicted,
        predictions.label_quality,
        predictions.predicted_probability,
        predictions.classes,
        annotator=predictions.annotator,
    )
