"""What the annotations of an item say together, and how good each annotator is.

Items: the posterior of class k for an item x with labels l_1 ... l_m from annotators of quality q_1 ... q_m is

    P(k) ∝ p_f(k|x) * prod_j P(l_j|k)        with P(l_j|k) = q_j if l_j = k, else (1 - q_j) / (K - 1)

(the one-coin model: every annotator errs at one rate, evenly over the other classes), which in logarithms is
log p_f(k|x) plus, for every label j that says k, the weight w_j = log(q_j (K - 1) / (1 - q_j)).
The quality is the share of the annotator's labels that the model agrees with, shrunk towards the share of all labels:

    q_j = (agreed_j + s * q_all) / (n_j + s)   with s = 10 labels,  clipped to [1/K, 0.99]

so that few labels prove little, and an annotator worse than chance counts nothing instead of counting against.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError
from ..metrics import wilson_interval
from ..predictions import label_column

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHRINK_LABELS = 10.0  # s above
MIN_WORST_CLASS = 5  # labels an annotator must have given to a class before it can be called their worst
TINY = 1e-12


def shrunk_quality(
    given: npt.ArrayLike,
    predicted: npt.ArrayLike,
    annotator: npt.ArrayLike | None,
    *,
    n_classes: int,
    n_annotators: int | None = None,
) -> Floats:
    """Quality of every annotator for voting, by the formula of this module.

    Parameters
    ----------
    given, predicted : int array (N,)
        Codes of the given and the predicted labels.
    annotator : int array (N,) or None
        Codes of the annotators; None takes all labels as given by one.
    n_classes : int
    n_annotators : int, optional
        Length of the result where some annotators have no labels.

    Returns
    -------
    array (A,)
        In [1/K, 0.99], higher = more to be trusted.
    """
    agrees = np.asarray(given) == np.asarray(predicted)
    who = np.zeros(len(agrees), dtype=np.int64) if annotator is None else np.asarray(annotator)
    n = np.bincount(who, minlength=n_annotators or 0)
    agreed = np.bincount(who, weights=agrees, minlength=n_annotators or 0)
    overall = agrees.mean() if len(agrees) else 0.5
    quality = (agreed + SHRINK_LABELS * overall) / (n + SHRINK_LABELS)
    clipped: Floats = np.clip(quality, min(1 / n_classes, 0.99), 0.99)
    return clipped


def items_table(
    item: npt.ArrayLike,
    names: Sequence[Any] | pd.Index,
    given: npt.ArrayLike,
    predicted: npt.ArrayLike,
    label_quality: npt.ArrayLike,
    predicted_probability: npt.ArrayLike,
    classes: Sequence[Any],
    *,
    annotator: npt.ArrayLike | None = None,
) -> pd.DataFrame:
    """One row per item, by the formula of this module.

    Only the classes that were given or predicted can win: a class nobody named has no vote and a lower p_f. So the
    probabilities of these, which the predictions hold, are enough, and the rest counts as one remainder.

    Parameters
    ----------
    item : int array (N,)
        Code of the item of every annotation; every item has at least one.
    names : sequence
        Names of the items, in the order of their codes.
    given, predicted : int array (N,)
        Codes of the given and the predicted labels.
    label_quality, predicted_probability : array (N,)
        Probability of the given, and of the predicted label.
    classes : list
        Class names in the order of their codes.
    annotator : int array (N,), optional
        Code of the annotator.

    Returns
    -------
    pandas.DataFrame
        item; consensus_label; consensus_quality, its posterior probability, in [0, 1], high = surely this class;
        num_annotations; predicted_label, by the model alone; annotator_agreement, the share of the item's labels that
        say the consensus label.
    """
    k, given, predicted = len(classes), np.asarray(given), np.asarray(predicted)
    code = np.asarray(item).astype(np.int64)
    quality = shrunk_quality(given, predicted, annotator, n_classes=k)
    votes = _vote_weights(quality, k)[np.zeros(len(code), np.int64) if annotator is None else np.asarray(annotator)]
    named = np.concatenate([code * k + given, code * k + predicted])  # (item, class) pairs, given ones first
    pairs, index = np.unique(named, return_inverse=True)
    p = np.concatenate([np.asarray(label_quality, np.float64), np.asarray(predicted_probability, np.float64)])
    p = np.bincount(index, weights=p) / np.bincount(index)  # equal in a pair, unless an item has several inputs
    weight = np.bincount(index[: len(code)], weights=votes, minlength=len(pairs))
    score = np.log(np.maximum(p, TINY)) + weight
    owner = pairs // k
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    if len(starts) != len(names):
        raise UsageError(f"{len(names):,} items need annotations, but only {len(starts):,} have one.")
    top = np.maximum.reduceat(score, starts)
    best = np.flatnonzero(score == top[owner])
    best = best[np.unique(owner[best], return_index=True)[1]]  # the first of equal ones
    rest = np.maximum(0.0, 1 - np.add.reduceat(p, starts)) * np.exp(-top)
    label = pairs[best] % k
    n = np.bincount(code, minlength=len(names))
    model = np.full(len(names), -1, np.int64)
    model[code] = predicted
    return pd.DataFrame(
        {
            "item": names,
            "consensus_label": label_column(label, classes),
            "consensus_quality": (1 / (np.add.reduceat(np.exp(score - top[owner]), starts) + rest)).astype(np.float32),
            "num_annotations": n,
            "predicted_label": label_column(model, classes),
            "annotator_agreement": (np.bincount(code, weights=given == label[code]) / n).astype(np.float32),
        }
    )


def annotators_table(
    annotator: npt.ArrayLike,
    names: Sequence[Any] | pd.Index,
    given: npt.ArrayLike,
    predicted: npt.ArrayLike,
    is_issue: npt.ArrayLike,
    classes: Sequence[Any],
    *,
    gate: npt.ArrayLike | None = None,
) -> pd.DataFrame:
    """One row per annotator with labels, worst first.

    Parameters
    ----------
    annotator : int array (N,)
        Code of the annotator of every annotation.
    names : sequence (A,)
        Pseudonyms in the order of the codes.
    given, predicted : int array (N,)
        Codes of the given and the predicted labels.
    is_issue : bool array (N,)
    classes : list
        Class names in the order of their codes.
    gate : array (N,), optional

    Returns
    -------
    pandas.DataFrame
        annotator; annotator_quality, the share of their labels that equal the model's prediction, in [0, 1], high =
        good, with quality_low and quality_high, its 95% Wilson interval; num_labelled; num_issues; worst_class, the
        given class the model agrees with least often, among those this annotator gave at least 5 times and the model
        disagreed with at least once, else missing; mean_gate with a gate.
    """
    who, given = np.asarray(annotator), np.asarray(given)
    agrees = given == np.asarray(predicted)
    size = len(names)
    n = np.bincount(who, minlength=size)
    agreed = np.bincount(who, weights=agrees, minlength=size)
    low, high = wilson_interval(agreed, n)
    worst = _worst_class(who, given, agrees, size, len(classes))
    columns: dict[str, Any] = {
        "annotator": names,
        "annotator_quality": (agreed / np.maximum(n, 1)).astype(np.float32),
        "quality_low": low.astype(np.float32),
        "quality_high": high.astype(np.float32),
        "num_labelled": n.astype(np.int64),
        "num_issues": np.bincount(who, weights=np.asarray(is_issue), minlength=size).astype(np.int64),
        "worst_class": label_column(worst, classes),
    }
    if gate is not None:
        columns["mean_gate"] = (np.bincount(who, weights=np.asarray(gate), minlength=size) / np.maximum(n, 1)).astype(
            np.float32
        )
    frame = pd.DataFrame(columns)[n > 0]
    return frame.sort_values(
        ["annotator_quality", "num_labelled"], ascending=[True, False], kind="stable", ignore_index=True
    )


def _vote_weights(quality: Floats, n_classes: int) -> Floats:
    """How much a label of an annotator of this quality adds to the log posterior of the class it names."""
    others = max(n_classes - 1, 1)
    weights: Floats = np.log(quality) + np.log(others) - np.log1p(-quality)
    return weights


def _worst_class(
    who: npt.NDArray[Any], given: npt.NDArray[Any], agrees: npt.NDArray[np.bool_], size: int, k: int
) -> Ints:
    """Code of the class that each annotator gives worst, -1 where none can be named; only pairs that occur are kept."""
    pairs, index = np.unique(who.astype(np.int64) * k + given, return_inverse=True)
    n = np.bincount(index, minlength=len(pairs))
    agreed = np.bincount(index, weights=agrees, minlength=len(pairs))
    kept = np.flatnonzero((n >= MIN_WORST_CLASS) & (agreed < n))
    order = kept[np.lexsort((-n[kept], agreed[kept] / n[kept], pairs[kept] // k))]
    people, first = np.unique(pairs[order] // k, return_index=True)
    worst = np.full(size, -1, dtype=np.int64)
    worst[people] = pairs[order[first]] % k
    return worst
