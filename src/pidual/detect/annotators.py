"""One row per annotator: how good, at what weak, with which habits, how fast; worst harm first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi import guess_kind
from ..data.pi.encoder import MILLISECONDS, MINUTES, numbers, words
from ..run.predictions import Predictions, label_column
from ..run.records.summary import CopyGroup
from .agreement import answer_pairs, own_agreement
from .classes import MIN_ANSWERS, ClassAccuracy
from .copies import copied_by
from .counts import Counts, beta_interval, sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MIN_CONFUSIONS = 2  # items that must be confused before it is said about an annotator
CLEARLY = 3.0  # standard deviations by which a favourite answer must come more often than the crowd's


def describe_annotators(
    predictions: Predictions,
    right: npt.ArrayLike,
    counts: Counts | None = None,
    copies: Iterable[CopyGroup] = (),
    known: tuple[Floats, Floats, Floats] | None = None,
    no_answers: Mapping[str, int] | None = None,
    most: npt.ArrayLike | None = None,
) -> pd.DataFrame | None:
    """Build the table of `ANNOTATORS_COLUMNS` for marked predictions; None where annotators are not known.

    `right` (N,): probability that each label is right.
    `counts`: answers by what their items may be; by default by the consensus.
    `copies`: clusters of annotators who copy each other, by `Copies.describe`.
    `known` (A,): accuracy of each annotator and the ends of its interval, as items of known class say.
    `no_answers`: how often each gave no answer (`AnnotationTable.no_answers`).
    `most` (N,): probability that each label is right, counted in full, at the most that may be stated.
    """
    if predictions.annotator is None:
        return None
    who, right, classes = predictions.annotator.astype(np.int64), np.asarray(right, np.float64), predictions.classes
    names = predictions.frame["annotator"].cat.categories
    size = len(names)
    by_consensus, n = Counts.of_predictions(predictions), np.bincount(who, minlength=size)
    told = n, sums(who, right, size), sums(who, predictions.is_issue, size)
    in_full = None if most is None else sums(who, most, size)
    columns = describe_sums(names, classes, *told, by_consensus, counts, known, in_full)
    agreement = own_agreement(answer_pairs(predictions.item, who), who, *predictions.answers, size)
    columns["agreement"] = np.clip(agreement, -1, 1).astype(np.float32)
    if no_answers:
        columns["no_answers"] = np.array([no_answers.get(name, 0) for name in names], np.int64)
    if (seconds := _seconds(predictions)) is not None:
        there = np.isfinite(seconds)
        median = pd.Series(seconds[there]).groupby(who[there]).median().reindex(range(size))
        columns["median_seconds"] = median.to_numpy(np.float32)
    if predictions.gate is not None:
        columns["mean_gate"] = (sums(who, predictions.gate, size) / np.maximum(n, 1)).astype(np.float32)
    frame = worst_first(pd.DataFrame(columns)[n > 0])
    others = pd.Series(copied_by(frame["annotator"], copies), dtype="str")
    # Categories in the order of the rows: what is read from the file and written again has the same bytes.
    return frame.assign(annotator=label_column(np.arange(len(frame)), frame["annotator"].tolist()), copies=others)


def describe_sums(
    names: Any,
    classes: Sequence[Any],
    n: npt.ArrayLike,
    rights: npt.ArrayLike,
    issues: npt.ArrayLike,
    by_consensus: Counts,
    counts: Counts | None = None,
    known: tuple[Floats, Floats, Floats] | None = None,
    most: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """Return what sums over answers say about people, a value for each: columns of `ANNOTATORS_COLUMNS`.

    `n`, `rights`, `issues`: answers of each, right ones to be expected among them, and those that look wrong.
    `by_consensus`, `counts`: answers by the consensus of their items, and by what these may be, by default the same.
    `most`: right ones of each at the most that may be stated; the interval holds that of these, too.
    """
    n, rights, size = np.asarray(n), np.asarray(rights, np.float64), len(names)
    quality, on_classes = rights / np.maximum(n, 1), ClassAccuracy.of(counts or by_consensus)
    both = np.array([rights, rights if most is None else most], np.float64)
    crowd = both.sum(1, keepdims=True) / n.sum() if n.sum() else 0.5
    lows, highs = beta_interval(both, n, crowd)
    low, high = lows.min(0), highs.max(0)
    if known is not None:
        quality, low, high = known
        rights = quality * n
    worst, on_worst = on_classes.worst(size)
    favourite, excess = favourites(by_consensus, size)
    confusion, confused = worst_confusion(by_consensus, size, classes)
    return {
        "annotator": names,
        "annotator_quality": quality.astype(np.float32),
        "quality_low": np.minimum(low, quality).astype(np.float32),
        "quality_high": np.maximum(high, quality).astype(np.float32),
        "num_labelled": n.astype(np.int64),
        "num_issues": np.asarray(issues).astype(np.int64),
        "harm": on_classes.harm(size, len(classes)).astype(np.float32),
        "expected_wrong": np.maximum(n - rights, 0).astype(np.float32),
        "worst_class": label_column(worst, classes),
        "worst_class_accuracy": on_worst.astype(np.float32),
        "favourite_label": label_column(favourite, classes),
        "favourite_excess": excess.astype(np.float32),
        "worst_confusion": pd.Series(confusion, dtype="str").array,
        "worst_confusion_share": confused.astype(np.float32),
    }


def worst_first(people: pd.DataFrame) -> pd.DataFrame:
    """Return people in the order of what they harm."""
    by = ["harm", "annotator_quality", "num_labelled"]
    return people.sort_values(by, ascending=[False, True, False], kind="stable", ignore_index=True)


def _seconds(predictions: Predictions) -> Floats | None:
    """Return the seconds each answer took, by the first PI column that is a duration; None where there is none."""
    for name in predictions.pi_columns:
        column = predictions.frame[name]
        if guess_kind(name, column) == "duration":
            unit = {*words(name)}
            scale = 1e-3 if unit & MILLISECONDS else 60.0 if unit & MINUTES else 1.0
            return numbers(column) * scale
    return None


def favourites(counts: Counts, size: int) -> tuple[Ints, Floats]:
    """Return the code of each annotator's favourite label, -1 where there is none, and its excess, NaN there.

    It comes `CLEARLY` more often than the crowd would give it to the same items, most of all labels so; the excess is a
    share of the annotator's labels.
    """
    from scipy.sparse import csr_array

    favourite, excess = np.full(size, -1, np.int64), np.full(size, np.nan)
    own, crowd = counts.per("who", "given"), counts.per("true", "given")
    often = np.flatnonzero(own.n >= MIN_ANSWERS)
    shape = (counts.n_classes, counts.n_classes)
    habit = csr_array((crowd.n / crowd.totals("true")[0], (crowd.given, crowd.true)), shape=shape)  # P(given | true)
    truths = csr_array((counts.n, (counts.who, counts.true)), shape=(size, counts.n_classes))
    total = sums(own.who, own.n, size)[own.who[often]]
    expected = np.asarray(truths[own.who[often]].multiply(habit[own.given[often]]).sum(1))
    more = own.n[often] - expected
    found = more > CLEARLY * np.sqrt(np.maximum(expected * (1 - expected / total), 0.0)) + 1e-9
    kept = often[found][np.lexsort((-more[found], own.who[often][found]))]
    people, first = np.unique(own.who[kept], return_index=True)
    share = np.zeros(len(own.n))
    share[often] = more / total
    favourite[people], excess[people] = own.given[kept[first]], share[kept[first]]
    return favourite, excess


def worst_confusion(counts: Counts, size: int, classes: Sequence[Any]) -> tuple[npt.NDArray[np.object_], Floats]:
    """Return the confusion that each annotator makes most often, as text, None where there is none, and its share."""
    text, share = np.full(size, None, dtype=object), np.full(size, np.nan)
    total, _ = counts.totals("who", "true")
    kept = np.flatnonzero(counts.is_wrong & (total >= MIN_ANSWERS) & (counts.n >= MIN_CONFUSIONS))
    order = kept[np.lexsort((-counts.n[kept] / total[kept], -counts.n[kept], counts.who[kept]))]
    people, first = np.unique(counts.who[order], return_index=True)
    worst = order[first]
    share[people] = counts.n[worst] / total[worst]
    pairs = zip(counts.true[worst].tolist(), counts.given[worst].tolist(), strict=True)
    text[people] = [f"{classes[true]} -> {classes[given]}" for true, given in pairs]
    return text, share
