"""How many labels are wrong, how many of a list, and how far that can be trusted: expectations, no clean labels.

An answer counts half where its own quality is judged (`learn.answers.posterior`). What it would be if it counted in
full, and not at all, bounds what can be said: the truth has mostly been between the two (docs/detection.md). Beyond
these an interval goes as far as chance may: which items there happen to be, and for each of them what is not known.
Labels of one item are right or wrong together.

What a list is expected to hold is stated with each answer counted in full where its item has others, and half where it
is the only one: nearer the truth than either alone (docs/detection.md).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..metrics import NORMAL_90
from ..run.predictions import Predictions
from ..run.records.summary import ClassFindings, Detection, Findings, Rate

Floats = npt.NDArray[np.float64]

POINTS = 40  # of the curve
SHARED = 1 / 3  # of the other answers to an item, from which on they share a label of a set


def noise_rate(item: npt.ArrayLike, quality: npt.ArrayLike, stated: npt.ArrayLike) -> Rate:
    """Estimate the share of wrong labels, and the range that may be stated.

    `item` (N,): codes of the items.
    `quality` (N,): probability that each label is right, where it counts half.
    `stated` (2, N): the same in full, at the least and at the most that may be stated.
    """
    wrong = 1 - np.asarray(quality, np.float64)
    if not len(wrong):
        return Rate(0.0, 0.0, 0.0)
    rate = float(wrong.mean())
    between = np.bincount(np.asarray(item), weights=wrong - rate)
    within = np.bincount(np.asarray(item), weights=np.sqrt(wrong * (1 - wrong)))
    error = NORMAL_90 * float(np.sqrt(np.square(between).sum() + np.square(within).sum())) / len(wrong)
    ends = [float(1 - np.mean(np.asarray(values, np.float64))) for values in np.asarray(stated)]
    low, high = min(rate, *ends) - error, max(rate, *ends) + error
    return Rate(rate, max(0.0, low), min(1.0, high))


def expected_findings(
    predictions: Predictions, full: npt.ArrayLike, unaided: npt.ArrayLike, *, of_sets: bool = False
) -> Detection:
    """Estimate what looking at the issues, or at the n most suspicious labels, will find.

    `of_sets`: the labels are those of sets. Whether a class that some tick and others do not is missed by these or
    ticked in error by those cannot be seen in answers: at the least, no issue is wrong that many others share.
    """
    found, quality = predictions.is_issue, predictions.label_quality.astype(np.float64)
    alone = np.bincount(predictions.item)[predictions.item] == 1
    listed_wrong = 1 - np.where(alone, quality, np.asarray(full, np.float64))
    precision = low = high = None
    if found.any():
        precision = float(listed_wrong[found].mean())
        per_item = np.bincount(predictions.item[found])
        error = NORMAL_90 * float(np.sqrt(precision * (1 - precision) * np.square(per_item).sum())) / per_item.sum()
        ends = [float(1 - np.asarray(values, np.float64)[found].mean()) for values in (full, unaided)]
        if of_sets:
            ends.append(float((listed_wrong * ~_shared(predictions))[found].mean()))
        low, high = max(0.0, min(precision, *ends) - error), min(1.0, max(precision, *ends) + error)
    curve = _findings_curve(listed_wrong[np.lexsort([quality, ~found])])
    classes = _findings_by_class(predictions.given, found, 1 - quality, predictions.classes)
    return Detection(precision, low, high, curve, classes)


def _shared(predictions: Predictions) -> npt.NDArray[np.bool_]:
    """Return which labels SHARED of the other answers to their item have, too."""
    item, given = predictions.item, predictions.given
    _, of, n = np.unique(
        item.astype(np.int64) * len(predictions.classes) + given, return_inverse=True, return_counts=True
    )
    others = np.bincount(item)[item] - 1
    return np.asarray((others > 0) & (n[of] - 1 >= SHARED * others))


def _findings_curve(wrong: Floats) -> list[Findings]:
    """Return the expected number of wrong labels among the first n, for some n between one and all."""
    total = len(wrong)
    if not total:
        return []
    sums = np.cumsum(wrong)
    sizes = np.unique(np.round(np.geomspace(1, total, POINTS)).astype(np.int64))
    found = zip(sizes, sums[sizes - 1], strict=True)
    return [Findings(int(n), float(x), float(min(1.0, x / n))) for n, x in found]


def _findings_by_class(
    given: npt.ArrayLike, found: npt.NDArray[np.bool_], wrong: Floats, classes: Sequence[Any]
) -> list[ClassFindings]:
    """Count labels given, issues, and labels expected to be wrong, of every class."""
    given, k = np.asarray(given), len(classes)
    counts = [np.bincount(given, weights=weights, minlength=k) for weights in (None, found, wrong)]
    return [
        ClassFindings(name, int(n), int(issues), float(expected))
        for name, n, issues, expected in zip(classes, *counts, strict=True)
    ]
