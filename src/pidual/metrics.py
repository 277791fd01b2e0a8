"""Accuracy, detection AUC, precision and recall, intervals: pure NumPy, one number each.

A number that is undefined (no rows, only one kind of label) is NaN; `finite_or_none` makes it fit for JSON.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import UsageError

Floats = npt.NDArray[np.float64]

NORMAL_90, NORMAL_95 = 1.6448536269514722, 1.959963984540054  # two-sided quantiles of the normal distribution
OWN_WEIGHT = 0.5  # what an answer counts where its own quality is judged (`learn.answers.posterior` says why)


def accuracy(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the share of rows in which `predicted` equals `truth`, in [0, 1]; NaN without rows."""
    predicted, truth = _same_length(predicted, truth)
    return float(np.mean(predicted == truth)) if len(truth) else math.nan


def detection_auc(label_quality: npt.ArrayLike, is_wrong: npt.ArrayLike) -> float:
    """Return the chance that a wrong label scores below a right one (ties count one half).

    The area under the ROC curve of finding wrong labels with `1 - label_quality`, computed from ranks.

    `label_quality` (N,): any score for which higher means more likely right. May not contain NaN.
    `is_wrong` (N,): True where the given label is known to be wrong.
    Returned: 1.0 = every wrong label below every right one, 0.5 = chance; NaN when only one kind is present.
    """
    quality, wrong = _same_length(label_quality, is_wrong)
    wrong = wrong.astype(bool)
    if np.isnan(quality).any():
        raise UsageError(f"label_quality has {int(np.isnan(quality).sum())} NaN values; remove these rows first.")
    n_wrong = int(wrong.sum())
    n_right = len(wrong) - n_wrong
    if not n_wrong or not n_right:
        return math.nan
    below = _ranks(quality)[wrong].sum() - n_wrong * (n_wrong + 1) / 2  # (right, wrong) pairs, right below wrong
    return float(1 - below / (n_wrong * n_right))


def precision_recall(flagged: npt.ArrayLike, is_wrong: npt.ArrayLike) -> tuple[float, float]:
    """Return the share of flagged labels that are wrong, and of wrong labels that are flagged; NaN where undefined."""
    flagged, wrong = (part.astype(bool) for part in _same_length(flagged, is_wrong))
    hits, n_flagged, n_wrong = (int(np.count_nonzero(part)) for part in (flagged & wrong, flagged, wrong))
    return (hits / n_flagged if n_flagged else math.nan, hits / n_wrong if n_wrong else math.nan)


def ranking_z(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return how many standard errors the scores rank rows of their own label above what permuted labels would give.

    In every class, rows are ranked by their score of that class; the statistic is the mean rank of each row in the
    class of its label. Its mean and variance under all permutations of the labels are known (Hoeffding 1951). A
    classifier that always answers the most frequent class can still rank; one that has learned nothing cannot.

    `scores` (N, K): logits or probabilities of the classes.
    `labels` (N,): codes of the given labels.
    Returned: 0 where all scores or all labels are equal.
    """
    scores, labels = np.asarray(scores), np.asarray(labels)
    n = len(labels)
    if n < 2:
        return 0.0
    count = np.bincount(labels, minlength=scores.shape[1])
    used = np.flatnonzero(count)
    rank = np.stack([(_ranks(scores[:, k]) - (n + 1) / 2) / n for k in used], axis=1)  # mean 0 in every class
    own = rank[np.arange(n), np.searchsorted(used, labels)].sum()
    weight = count[used]
    mean = rank @ weight / n
    variance = float((np.square(rank - mean[:, None]) @ weight).sum()) / (n - 1)
    return float(own / math.sqrt(variance)) if variance > 1e-12 else 0.0


def wilson_interval(successes: npt.ArrayLike, n: npt.ArrayLike, *, z: float = NORMAL_95) -> tuple[Floats, Floats]:
    """Return the Wilson score interval of a share: low and high end, each of the shape of `n`; (0, 1) where `n` is 0.

    Unlike the plain normal interval it stays in [0, 1] and is honest for few observations.
    """
    successes, n = np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64)
    counted = np.maximum(n, 1)
    share = successes / counted
    scale = 1 + z**2 / counted
    centre = (share + z**2 / (2 * counted)) / scale
    half = z / scale * np.sqrt(share * (1 - share) / counted + z**2 / (4 * counted**2))
    low, high = np.clip(centre - half, 0, share), np.clip(centre + half, share, 1)
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


def finite_or_none(value: float | None) -> float | None:
    """Return `value` as a float that JSON can hold: None in place of NaN, infinity or None."""
    return float(value) if value is not None and math.isfinite(value) else None


def _ranks(values: npt.NDArray[Any]) -> Floats:
    """Return ranks from 1, ties sharing their mean rank."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(values[order]) != 0])
    ends = np.r_[starts[1:], len(values)]
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((starts + ends + 1) / 2, ends - starts)
    return ranks


def _same_length(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim != 1:
        raise UsageError(f"Two arrays of one length are needed, but their shapes are {first.shape} and {second.shape}.")
    return first, second
