"""One row per annotator: how good, on what weak, with which habits, how fast, how steady; worst harm first."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi.kinds import numbers, value_text
from ..run.predictions import Predictions, label_column
from ..run.records.summary import CopyGroup
from .agreement import answer_pairs, own_agreement
from .annotator_habits import favourites, worst_confusion
from .class_accuracy import ClassAccuracy
from .copies import copied_by
from .counts import Counts
from .drift import Drift, find_drift
from .intervals import beta_interval, shrunk_share
from .timing import median_of, order_column, seconds_column

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def describe_annotators(
    predictions: Predictions,
    right: npt.ArrayLike,
    counts: Counts | None = None,
    copies: Iterable[CopyGroup] = (),
) -> pd.DataFrame | None:
    """Build the annotators table of marked predictions; None where annotators are not known.

    Parameters
    ----------
    predictions : Predictions
    right : array (N,)
        Probability that each label is right.
    counts : Counts, optional
        Answers by what their items may be; by default by the consensus.
    copies : sequence of CopyGroup
        Clusters of annotators who copy each other, by `Copies.describe`.

    Returns
    -------
    DataFrame or None
        annotator
        annotator_quality
            Mean probability that their labels are right, in [0, 1], high = good; quality_low and quality_high are its
            95% interval, that of a Beta distribution of the expected numbers of right and wrong labels, begun with two
            labels of the crowd's quality.
        num_labelled, num_issues
        harm
            Wrong labels beyond those that the others would have given, mistakes on rare classes counting more, at the
            lower end of what the data allow (see `class_accuracy`); 0 where they are no worse, or too little is known.
        expected_wrong
            Expected number of wrong labels.
        worst_class, worst_class_accuracy
            The true class on which they are right least often, and how often, begun with two labels of the others'
            accuracy: of classes of which they labelled 5 items and mislabelled one; else missing.
        favourite_label, favourite_excess
            The label that they give more often than the crowd would to the same items, and by how much, as a share of
            their labels: where that is beyond chance (three standard deviations, 5 labels), else missing. Here and
            below every label is counted by how sure the consensus of its item is.
        worst_confusion, worst_confusion_share
            "dog -> cat" where they give cat to items whose consensus is dog, and to which share of these: their most
            frequent one, of at least 2 items among 5 with that consensus; else missing.
        agreement
            Kappa with the others, shrunk towards that of all; missing without an item in common.
        median_seconds
            With a PI column that says how long an answer took.
        drift, drift_at, accuracy_before, accuracy_after
            Whether their share of labels that are the consensus changes, beyond chance; when (trial, time, or which of
            their labels); and the shares before and after.
        mean_gate
            With a gate.
        copies
            The others of a cluster of annotators who copy each other.
    """
    if predictions.annotator is None:
        return None
    who, given, consensus = predictions.annotator.astype(np.int64), predictions.given, predictions.suggested
    names, k = predictions.frame["annotator"].cat.categories, len(predictions.classes)
    size, order, seconds, gate = len(names), order_column(predictions), seconds_column(predictions), predictions.gate
    by_consensus = Counts.of_predictions(predictions)
    on_classes = ClassAccuracy.of(counts or by_consensus)
    columns: dict[str, Any] = {"annotator": names}
    columns |= _quality(who, np.asarray(right, np.float64), predictions.is_issue, on_classes, size, k)
    columns |= _habits(by_consensus, on_classes, size, predictions.classes)
    own = own_agreement(answer_pairs(predictions.item, who), who, given, k, size)
    columns["agreement"] = np.clip(own, -1, 1).astype(np.float32)
    if seconds is not None:
        columns["median_seconds"] = median_of(who, seconds, size).astype(np.float32)
    n_of_class, right_of_class = by_consensus.by_class()
    expected = shrunk_share(right_of_class, n_of_class, right_of_class.sum() / max(n_of_class.sum(), 1e-12))[consensus]
    places = None if order is None else numbers(order)
    columns |= _drift(find_drift(who, given == consensus, expected, size, places), order)
    n: Ints = columns["num_labelled"]
    if gate is not None:
        columns["mean_gate"] = (np.bincount(who, weights=gate, minlength=size) / np.maximum(n, 1)).astype(np.float32)
    frame: pd.DataFrame = pd.DataFrame(columns)[n > 0]
    by = ["harm", "annotator_quality", "num_labelled"]
    frame = frame.sort_values(by, ascending=[False, True, False], kind="stable", ignore_index=True)
    others = pd.Series(copied_by(frame["annotator"], copies), dtype="str")
    # Categories in the order of the rows: what is read from the file and written again has the same bytes.
    return frame.assign(annotator=label_column(np.arange(len(frame)), frame["annotator"].tolist()), copies=others)


def _quality(
    who: Ints, right: Floats, is_issue: npt.NDArray[np.bool_], found: ClassAccuracy, size: int, k: int
) -> dict[str, Any]:
    """Return the columns about how many of their labels are right."""
    n = np.bincount(who, minlength=size)
    rights = np.bincount(who, weights=right, minlength=size)
    quality = rights / np.maximum(n, 1)
    low, high = beta_interval(rights, n, float(right.mean()) if len(right) else 0.5)
    return {
        "annotator_quality": quality.astype(np.float32),
        "quality_low": np.minimum(low, quality).astype(np.float32),
        "quality_high": np.maximum(high, quality).astype(np.float32),
        "num_labelled": n.astype(np.int64),
        "num_issues": np.bincount(who, weights=is_issue, minlength=size).astype(np.int64),
        "harm": found.harm(size, k).astype(np.float32),
        "expected_wrong": np.maximum(n - rights, 0).astype(np.float32),
    }


def _habits(counts: Counts, found: ClassAccuracy, size: int, classes: Sequence[Any]) -> dict[str, Any]:
    """Return the columns about the class they are worst at, their favourite label and what they confuse."""
    worst, on_it = found.worst(size)
    favourite, excess = favourites(counts, size)
    confusion, share = worst_confusion(counts, size, classes)
    return {
        "worst_class": label_column(worst, classes),
        "worst_class_accuracy": on_it.astype(np.float32),
        "favourite_label": label_column(favourite, classes),
        "favourite_excess": excess.astype(np.float32),
        "worst_confusion": pd.Series(confusion, dtype="str").array,
        "worst_confusion_share": share.astype(np.float32),
    }


def _drift(drift: Drift, order: "pd.Series[Any] | None") -> dict[str, Any]:
    """Return the columns about drift."""
    text = np.full(len(drift.found), None, dtype=object)
    for one in np.flatnonzero(drift.found).tolist():
        text[one] = f"label {drift.number[one]:,}" if order is None else value_text(order.iloc[int(drift.row[one])])
    return {
        "drift": drift.found,
        "drift_at": pd.Series(text, dtype="str").array,
        "accuracy_before": drift.before.astype(np.float32),
        "accuracy_after": drift.after.astype(np.float32),
    }
