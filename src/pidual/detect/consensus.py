"""What the annotations of an item say together, and how good each annotator is.

Items: the posterior of class k for an item x with labels l_1 ... l_m from annotators of quality q_1 ... q_m is

    P(k) ∝ p_f(k|x) * prod_j P(l_j|k)        with P(l_j|k) = q_j if l_j = k, else (1 - q_j) / (K - 1)

(the one-coin model: every annotator errs at one rate, evenly over the other classes), which in logarithms is
log p_f(k|x) plus, for every label j that says k, the weight w_j = log(q_j (K - 1) / (1 - q_j)).
The quality is the share of the annotator's labels that the model agrees with, shrunk towards the share of all labels:

    q_j = (agreed_j + s * q_all) / (n_j + s)   with s = 10 labels,  clipped to [1/K, 0.99]

so that few labels prove little, and an annotator worse than chance counts nothing instead of counting against.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Consensus:
    """What is known of a chunk of items; every array has one entry per item.

    Attributes
    ----------
    label : int array
        Code of the most probable class.
    quality : float32 array
        Its posterior probability, in [0, 1], high = surely this class.
    predicted : int array
        Code of the class the model alone finds most likely.
    agreement : float32 array
        Share of the item's labels that say the consensus label, in [0, 1]; NaN for an item without labels.
    num_annotations : int array
    """

    label: Ints
    quality: npt.NDArray[np.float32]
    predicted: Ints
    agreement: npt.NDArray[np.float32]
    num_annotations: Ints


class ItemVotes:
    """The labels of all items, sorted by item once, so that items can be judged chunk by chunk.

    Parameters
    ----------
    item : int array (N,)
        Code of the item of every annotation.
    given : int array (N,)
        Code of the given label.
    quality : array (A,)
        Quality of every annotator (`shrunk_quality`).
    annotator : int array (N,) or None
        Code of the annotator; None where `quality` has one entry for all.
    n_items, n_classes : int
    """

    def __init__(
        self,
        item: npt.ArrayLike,
        given: npt.ArrayLike,
        quality: npt.ArrayLike,
        annotator: npt.ArrayLike | None = None,
        *,
        n_items: int,
        n_classes: int,
    ):
        item, given = np.asarray(item), np.asarray(given)
        order = np.argsort(item, kind="stable")
        self.n_items, self.n_classes = n_items, n_classes
        self.offsets = np.r_[0, np.cumsum(np.bincount(item, minlength=n_items))]
        self.labels = given[order].astype(np.int64)
        weight = _vote_weights(np.asarray(quality, dtype=np.float64), n_classes)
        self.weights = (
            np.broadcast_to(weight, (len(given),)) if annotator is None else weight[np.asarray(annotator)[order]]
        )

    def consensus(self, start: int, probabilities: npt.ArrayLike) -> Consensus:
        """Judge the items start, start + 1, ... from the model's probabilities for them.

        Parameters
        ----------
        start : int
            Code of the first item of the chunk.
        probabilities : array (M, K)
            Probabilities of the prediction network for the M items of the chunk, in the order of their codes.
        """
        p = np.asarray(probabilities, dtype=np.float64)
        if p.ndim != 2 or p.shape[1] != self.n_classes or start + len(p) > self.n_items:
            raise UsageError(
                f"Items {start} and on of {self.n_items} need probabilities of shape (M, {self.n_classes}), "
                f"but got {p.shape}."
            )
        m, offsets = len(p), self.offsets[start : start + len(p) + 1]
        rows = slice(offsets[0], offsets[-1])
        labels, n = self.labels[rows], np.diff(offsets)
        cell = np.repeat(np.arange(m), n) * self.n_classes + labels
        log_posterior = np.log(np.maximum(p, TINY))
        np.add.at(log_posterior.reshape(-1), cell, self.weights[rows])
        best = log_posterior.argmax(axis=1)
        top = log_posterior[np.arange(m), best]
        quality = 1 / np.exp(log_posterior - top[:, None]).sum(axis=1)
        same = np.bincount(np.repeat(np.arange(m), n), weights=labels == np.repeat(best, n), minlength=m)
        agreement = np.where(n > 0, same / np.maximum(n, 1), np.nan)
        return Consensus(best, quality.astype(np.float32), p.argmax(axis=1), agreement.astype(np.float32), n)


def items_table(items: Sequence[Any] | pd.Index, chunks: Iterable[Consensus], classes: Sequence[Any]) -> pd.DataFrame:
    """One row per item: consensus label and its quality, how many labels it has, and how far they agree.

    Parameters
    ----------
    items : sequence
        Names of the items, in the order of their codes.
    chunks : iterable of Consensus
        Together all items, in the same order.
    classes : list
        Class names in the order of their codes.
    """
    parts = list(chunks)

    def joined(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    if sum(len(part.label) for part in parts) != len(items):
        raise UsageError(f"{len(items)} items need as many judgements, but {sum(len(p.label) for p in parts)} came.")
    return pd.DataFrame(
        {
            "item": items,
            "consensus_label": label_column(joined("label"), classes),
            "consensus_quality": joined("quality"),
            "num_annotations": joined("num_annotations"),
            "predicted_label": label_column(joined("predicted"), classes),
            "annotator_agreement": joined("agreement"),
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
