"""How well a fit went, where clean labels are known. No torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import detection_auc, finite_or_none, precision_recall
from ..predictions import Predictions


def evaluation(predictions: Predictions, scores: Sequence[str] = ()) -> dict[str, Any] | None:
    """How well it went, where clean labels are known; None where they are not.

    `scores` are the method's own. Detection counts all rows but test rows, validation rows among them; benchmarks count
    the rows trained on alone.
    """
    y = predictions.y
    if y is None or not (y >= 0).any():
        return None
    known = predictions.is_checked
    wrong = (predictions.given != y)[known]
    gate = predictions.gate
    test = (y >= 0) & ~known
    return {
        "noise_rate": float(wrong.mean()) if len(wrong) else None,
        "detection_auc": finite_or_none(detection_auc(predictions.label_quality[known], wrong)),
        "gate_auc": finite_or_none(detection_auc(1 - gate[known], wrong)) if gate is not None else None,
        "score_auc": native_aucs(predictions, scores, known),
        **evaluate_issues(predictions),
        "consensus_accuracy": consensus_accuracy(predictions, known),
        "test_accuracy": float((predictions.predicted == y)[test].mean()) if test.any() else None,
    }


def consensus_accuracy(predictions: Predictions, rows: NDArray[np.bool_]) -> float | None:
    """Share of the items of these rows whose consensus is the clean label; None where there is no consensus."""
    if "consensus_label" not in predictions.frame:
        return None
    _, first = np.unique(predictions.item[rows], return_index=True)
    right = (predictions.suggested == predictions.y)[rows][first]
    return float(right.mean()) if len(right) else None


def native_aucs(predictions: Predictions, scores: Sequence[str], rows: NDArray[np.bool_]) -> dict[str, float | None]:
    """Detection AUC of the method's own scores, high = wrong, on those of the rows for which they are known."""
    aucs = {}
    for name in scores:
        if name in predictions.frame:
            score = predictions.frame[name].to_numpy(dtype=np.float32)
            known = rows & ~np.isnan(score)
            aucs[name] = finite_or_none(detection_auc(-score[known], (predictions.given != predictions.y)[known]))
    return aucs


def evaluate_issues(predictions: Predictions) -> dict[str, float | None]:
    """Precision and recall of the marked issues against the clean labels, on the rows that have one and are not test.

    Parameters
    ----------
    predictions : Predictions
        With clean labels.

    Returns
    -------
    dict
        issue_precision and issue_recall; None where undefined.
    """
    known = predictions.is_checked
    precision, recall = precision_recall(predictions.is_issue[known], (predictions.given != predictions.y)[known])
    return {"issue_precision": finite_or_none(precision), "issue_recall": finite_or_none(recall)}
