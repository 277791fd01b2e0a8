"""From predictions to suspected labels: scores, the cut-off, consensus, annotators, reasons. No torch."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..run.predictions import Predictions
from .annotators import annotators_table, describe_annotators
from .calibrated import Calibration, calibrate, spread_sample
from .class_accuracy import describe_annotator_classes
from .cutoff import Cutoff, auto_cutoff, find_issues, fixed_cutoff, lowest
from .listing import Choice, expected_precision, list_labels
from .next_answers import next_answers
from .noise import expected_findings, noise_rate
from .people import describe_people
from .reasons import find_reason_parts, find_reasons, reasons_for
from .scores import confidence_score, gate_score
from .simulate_review import simulate_review
from .tables import Posteriors, items_table
from .verdict import Verdict

MOST_REASONS = 200_000  # texts for people; of more issues those of lowest quality get one

__all__ = [
    "Calibration",
    "Choice",
    "Cutoff",
    "Posteriors",
    "Verdict",
    "annotators_table",
    "auto_cutoff",
    "calibrate",
    "confidence_score",
    "describe_annotator_classes",
    "describe_annotators",
    "describe_items",
    "describe_people",
    "expected_findings",
    "expected_precision",
    "find_issues",
    "find_reason_parts",
    "find_reasons",
    "fixed_cutoff",
    "gate_score",
    "items_table",
    "list_labels",
    "mark_issues",
    "next_answers",
    "noise_rate",
    "reasons_for",
    "simulate_review",
    "spread_sample",
]


def mark_issues(
    predictions: Predictions, counted: npt.NDArray[np.int64] | None = None, *, reasons: bool = True
) -> tuple[Predictions, Cutoff]:
    """Mark the labels that look wrong, and those that rest on their own answer, with the reason for each if wanted.

    Both have a quality below the cut-off, which is returned too. A label counts half for its quality and in full for
    the consensus: where that is the label itself, and others answered too, the label is no issue. The only answer to an
    item is judged by its quality alone: counted in full, it would hardly ever be contradicted. `counted` are the rows
    that count, one of each answer, where rows repeat answers.
    """
    quality, item = predictions.label_quality, predictions.item
    rows = slice(None) if counted is None else counted
    cutoff = auto_cutoff(quality[rows])
    low = explained = find_issues(cutoff, quality)
    if np.count_nonzero(low) > MOST_REASONS:
        worst = lowest(np.where(low, quality, 2.0), MOST_REASONS)
        explained = np.bincount(worst, minlength=len(low)) > 0
    confirmed = (predictions.suggested == predictions.given) & predictions.has_consensus
    resting = low & confirmed & (np.bincount(item[rows])[item] > 1)
    texts = reasons_for(predictions, explained) if reasons else None
    return predictions.with_issues(low & ~resting, texts, explained if reasons else None, resting), cutoff


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
