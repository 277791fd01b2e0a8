"""Mark the labels that look wrong."""

import numpy as np
import numpy.typing as npt

from ..run.predictions import Predictions
from ..run.records.summary import Cutoff
from .cutoff import auto_cutoff, find_issues, lowest
from .reasons import find_reasons

MOST_REASONS = 200_000  # texts for people; of more issues those of lowest quality get one


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
