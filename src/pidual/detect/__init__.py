"""From predictions to suspected labels: scores, the cut-off, consensus, annotators, reasons. No torch."""

from typing import Literal

import numpy as np
import pandas as pd

from ..errors import UsageError
from ..predictions import Predictions
from .annotators import annotators_table, describe_annotators
from .class_accuracy import describe_annotator_classes
from .people import describe_people
from .reasons import find_reason_parts, find_reasons, reasons_for
from .scores import confidence_score, gate_score
from .tables import Posteriors, items_table
from .threshold import Cutoff, auto_cutoff, budget_cutoff, by_posterior, choose_cutoff, find_issues, fixed_cutoff

__all__ = [
    "Cutoff",
    "Posteriors",
    "annotators_table",
    "auto_cutoff",
    "budget_cutoff",
    "choose_cutoff",
    "confidence_score",
    "count_issues",
    "describe_annotator_classes",
    "describe_annotators",
    "describe_items",
    "describe_people",
    "find_issues",
    "find_reason_parts",
    "find_reasons",
    "fixed_cutoff",
    "gate_score",
    "items_table",
    "mark_issues",
    "reasons_for",
]


def mark_issues(
    predictions: Predictions,
    *,
    cutoff: float | Literal["auto"] = "auto",
    budget: int | None = None,
    posterior: bool = False,
) -> tuple[Predictions, Cutoff]:
    """Mark the labels that look wrong, with the reason for each.

    Parameters
    ----------
    predictions : Predictions
    cutoff : float or "auto"
        Quality below which a label is an issue if another label is suggested: the consensus of its item.
    budget : int, optional
        Instead: take this many labels of lowest quality.
    posterior : bool
        Whether label_quality is a posterior probability, by the input and all answers: then it says itself how many
        labels are wrong.

    Returns
    -------
    Predictions, Cutoff
        The predictions with is_label_issue and reason filled in, and the cut-off used.
    """
    scores = predictions.label_quality, predictions.given, predictions.suggested
    chosen = choose_cutoff(*scores, cutoff=cutoff, budget=budget)
    if posterior:
        chosen = by_posterior(chosen, predictions.label_quality)
    is_issue = find_issues(chosen, *scores)
    return predictions.with_issues(is_issue, reasons_for(predictions, is_issue, posterior=posterior)), chosen


def count_issues(annotators: pd.DataFrame, predictions: Predictions) -> pd.DataFrame:
    """The annotators table with the issues of predictions that were marked anew, and all else as it is."""
    column = predictions.frame["annotator"]
    counts = pd.Series(
        np.bincount(column.cat.codes, weights=predictions.is_issue, minlength=len(column.cat.categories)),
        index=column.cat.categories.astype(str),
    )
    missing = ~annotators["annotator"].astype(str).isin(counts.index)
    if missing.any():
        raise UsageError("the annotators are others than those of the predictions")
    return annotators.assign(num_issues=counts[annotators["annotator"].astype(str)].to_numpy().astype(np.int64))


def describe_items(predictions: Predictions, posteriors: Posteriors) -> pd.DataFrame:
    """The items table of predictions, in the order of the items."""
    return items_table(
        predictions.item,
        predictions.frame["item"].cat.categories,
        predictions.given,
        predictions.predicted,
        posteriors,
        predictions.classes,
    )
