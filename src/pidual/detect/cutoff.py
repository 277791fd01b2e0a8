"""From the quality of labels to a yes or no: how many are wrong, and which to call issues.

The quality q of a label is the probability that it is right, so that the labels of lowest quality, n of them, hold

    w(n) = sum of 1 - q over these n                                 wrong ones, to be expected,
    2 w(n) / (n + w(N))                                              their expected F1 among all N labels.

The automatic cut-off is where this is largest, and never above MAX_CUT: one in three is the least an issue should be
worth looking at. No clean label is needed or used. It was chosen among other rules by how much of the
best possible F1 it reaches on data with clean labels (docs/detection.md).
"""

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..run.predictions import Predictions
from ..run.records.summary import Cutoff
from .reasons import find_reasons

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MAX_CUT = 2 / 3
MOST_REASONS = 200_000  # texts for people; of more issues those of lowest quality get one


def auto_cutoff(label_quality: npt.ArrayLike) -> Cutoff:
    """Choose the cut-off of largest expected F1, at most MAX_CUT.

    `label_quality` (N,): probability that each label is right.
    """
    quality = _check_quality(label_quality)
    if np.ptp(quality) < 1e-6:
        note = "All labels have the same quality, so none stands out; train longer or check the inputs."
        return Cutoff("auto", 0.0, note)
    ordered = np.sort(quality)
    wrong = np.cumsum(1 - ordered)
    n = int(np.argmax(wrong / (np.arange(1, len(ordered) + 1) + wrong[-1]))) + 1
    following = ordered[n] if n < len(ordered) else 1.0
    value = min(float(ordered[n - 1] + following) / 2, MAX_CUT)
    if value < MAX_CUT:
        why = "the cut-off with the best expected F1"
    else:
        why = "each is wrong with a chance of at least one in three"
    return Cutoff(
        "auto",
        value,
        f"Labels with a quality below {value:.2g} are flagged, except where the consensus is this label: {why}.",
    )


def find_issues(cutoff: Cutoff, label_quality: npt.ArrayLike) -> Mask:
    """Return which labels are issues under a cut-off, as a bool array (N,)."""
    return np.asarray(_check_quality(label_quality) < cutoff.value)


def lowest(quality: Floats, n: int) -> npt.NDArray[np.int64]:
    """Return the rows of the n lowest qualities, earlier rows first among equals."""
    n = min(n, len(quality))
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    last = np.partition(quality, n - 1)[n - 1]
    below, tied = np.flatnonzero(quality < last), np.flatnonzero(quality == last)
    return np.concatenate([below, tied[: n - len(below)]]).astype(np.int64)


def _check_quality(label_quality: npt.ArrayLike) -> Floats:
    """Return quality as float64, or refuse what is not one value in [0, 1] per annotation."""
    quality = np.asarray(label_quality, dtype=np.float64)
    if quality.ndim != 1:
        raise UsageError(f"Quality needs one value per annotation, but its shape is {quality.shape}.")
    if not len(quality):
        raise UsageError("There are no annotations to judge.")
    if not ((quality >= 0) & (quality <= 1 + 1e-6)).all():
        raise UsageError(
            "Label quality must lie between 0 and 1 and not be NaN; pass probabilities of the given labels."
        )
    return np.minimum(quality, 1.0)


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
    resting = low & (predictions.suggested == predictions.given) & (np.bincount(item[rows])[item] > 1)
    texts = find_reasons(predictions, explained) if reasons else None
    return predictions.with_issues(low & ~resting, texts, explained if reasons else None, resting), cutoff
