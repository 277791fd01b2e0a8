"""How well a fit went, where clean labels are known. No torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import detection_auc, finite_or_none, precision_recall, wilson_interval
from ..run.predictions import Predictions
from ..run.records.summary import Evaluation
from .noise import noise_rate

CHECKED = 20  # items with a clean label, from which on these can contradict what is stated
MARGIN = 0.02  # of no account, however many clean labels show it


def evaluation(predictions: Predictions, scores: Sequence[str] = ()) -> Evaluation | None:
    """Measure how well a fit went by clean labels; None where they are not known.

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
    precision, recall = precision_recall(predictions.is_issue[known], wrong)
    return Evaluation(
        noise_rate=float(wrong.mean()) if len(wrong) else None,
        detection_auc=finite_or_none(detection_auc(predictions.label_quality[known], wrong)),
        gate_auc=finite_or_none(detection_auc(1 - gate[known], wrong)) if gate is not None else None,
        score_auc=native_aucs(predictions, scores, known),
        issue_precision=finite_or_none(precision),
        issue_recall=finite_or_none(recall),
        consensus_accuracy=consensus_accuracy(predictions, known),
        test_accuracy=float((predictions.predicted == y)[test].mean()) if test.any() else None,
        n_items=len(np.unique(predictions.item[known])),
    )


def consensus_accuracy(predictions: Predictions, rows: NDArray[np.bool_]) -> float | None:
    """Return the share of the items of these rows whose consensus is the clean label; None without items."""
    _, first = np.unique(predictions.item[rows], return_index=True)
    right = (predictions.suggested == predictions.y)[rows][first]
    return float(right.mean()) if len(right) else None


def native_aucs(predictions: Predictions, scores: Sequence[str], rows: NDArray[np.bool_]) -> dict[str, float | None]:
    """Return the detection AUC of the method's own scores, high = wrong, on those rows for which they are known."""
    aucs = {}
    for name in scores:
        if name in predictions.frame:
            score = predictions.frame[name].to_numpy(dtype=np.float32)
            known = rows & ~np.isnan(score)
            aucs[name] = finite_or_none(detection_auc(-score[known], (predictions.given != predictions.y)[known]))
    return aucs


def find_false_claims(
    predictions: Predictions,
    full: NDArray[np.floating[Any]],
    unaided: NDArray[np.floating[Any]],
    bounds: NDArray[np.floating[Any]],
) -> list[str]:
    """Find what clean labels contradict: their 95% interval excludes what is stated about the same labels.

    A consensus or a list that is better than stated is no contradiction.

    `full`, `unaided` (N,): probability that each label is right, counted in full, and not at all.
    `bounds` (2, N): the former, at the least and at the most that may be stated.
    """
    known, y, item = np.flatnonzero(predictions.is_checked), predictions.y, predictions.item
    one = known[np.unique(item[known], return_index=True)[1]]
    if y is None or len(one) < CHECKED:
        return []
    found, quality, wrong = [], predictions.label_quality, predictions.given != y
    share, low, high = share_by_items((predictions.suggested == y)[one], item[one])
    stated = float(predictions.suggested_probability[one].mean())
    if stated > high + MARGIN:
        found.append(
            f"Of the {len(one):,} items with a clean label the consensus is right for {share:.0%} ({low:.0%} to "
            f"{high:.0%}); the run states {stated:.0%}."
        )
    listed = known[predictions.is_issue[known]]
    for rows, what in ((listed, "labels that look wrong and have a clean label"), (known, "labels with a clean label")):
        if len(np.unique(item[rows])) < CHECKED:
            continue
        share, low, high = share_by_items(wrong[rows], item[rows])
        ends = bounds if rows is known else np.stack([unaided, full])
        said = noise_rate(item[rows], quality[rows], ends[:, rows])
        if said.low > high + MARGIN or (said.high < low - MARGIN and rows is known):
            found.append(
                f"Of the {len(rows):,} {what} {share:.0%} are wrong ({low:.0%} to {high:.0%}); the run states "
                f"{said.rate:.0%} ({said.low:.0%} to {said.high:.0%})."
            )
    return found


def share_by_items(hits: NDArray[np.bool_], item: NDArray[np.integer[Any]]) -> tuple[float, float, float]:
    """Return the share of hits and its 95% interval: Wilson's, of as many independent labels as these are worth."""
    share, code = float(hits.mean()), np.unique(item, return_inverse=True)[1]
    variance = float(np.square(np.bincount(code, weights=hits - share)).sum()) / len(hits) ** 2
    n = share * (1 - share) / variance if variance > 0 else float(code.max() + 1)
    low, high = wilson_interval(share * n, n)
    return share, float(low), float(high)
