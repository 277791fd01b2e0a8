"""What all answers to an item say together, and how good each annotator is, from the posterior of every item.

The posterior q_i(k) is the probability that class k is the true one of item i, by its input and all answers to it:
a method that judges items has its own, all others are given one by `pidual.run.consensus`. Its temperature is chosen so
that answers that were left out are likely, without any clean label. So it is as sure as the answers allow, and no
surer than they agree; where most people are misled alike, it is misled with them, and sure of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError
from ..predictions import label_column

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ALL_CLASSES = 20  # up to so many, the posterior of every class is kept
TOP = 5  # classes that are kept of more
CROWD_ANSWERS = 2.0  # an interval begins with as many answers of the crowd's quality
INTERVAL = 0.95
MIN_CONFUSIONS = 2  # items that must be confused before it is said of an annotator
MIN_ANSWERS = 5  # an annotator must have given to a class, or to items of it, before anything is said of it
CLEARLY = 3.0  # standard deviations by which a favourite answer must come more often than the crowd's
BLOCK_NUMBERS = 2**24  # annotators x classes that are looked at together


@dataclass
class Posteriors:
    """What is kept of the posteriors of all items, which come a chunk at a time.

    Parameters
    ----------
    label : int array (n,)
        Code of the most likely class of every item.
    quality : array (n,)
        Its probability.
    p : array (n, K), or (n, 5)
        Probability of every class, or of the five most likely ones.
    top : int array (n, 5), optional
        Codes of these, most likely first; None where `p` has all classes.
    """

    label: Ints
    quality: npt.NDArray[np.float32]
    p: npt.NDArray[np.float32]
    top: npt.NDArray[np.int32] | None

    @classmethod
    def empty(cls, n_items: int, n_classes: int) -> "Posteriors":
        """Place for so many items."""
        few = n_classes <= ALL_CLASSES
        return cls(
            np.zeros(n_items, np.int64),
            np.zeros(n_items, np.float32),
            np.zeros((n_items, n_classes if few else TOP), np.float32),
            None if few else np.zeros((n_items, TOP), np.int32),
        )

    def put(self, items: Ints, posterior: npt.NDArray[np.float32]) -> None:
        """Keep what is needed of some items.

        Parameters
        ----------
        items : int array (B,)
            Which items.
        posterior : array (B, K)
        """
        label = posterior.argmax(1)
        self.label[items], self.quality[items] = label, posterior[np.arange(len(items)), label]
        if self.top is None:
            self.p[items] = posterior
            return
        most = np.argpartition(-posterior, TOP - 1, axis=1)[:, :TOP]
        order = np.argsort(-np.take_along_axis(posterior, most, 1), axis=1, kind="stable")
        top = np.take_along_axis(most, order, 1)
        self.top[items], self.p[items] = top, np.take_along_axis(posterior, top, 1)
        self.label[items] = top[:, 0]


def items_table(
    item: npt.ArrayLike,
    names: Sequence[Any] | pd.Index,
    given: npt.ArrayLike,
    predicted: npt.ArrayLike,
    posteriors: Posteriors,
    classes: Sequence[Any],
) -> pd.DataFrame:
    """One row per item.

    Parameters
    ----------
    item : int array (N,)
        Code of the item of every annotation; every item has at least one.
    names : sequence
        Names of the items, in the order of their codes.
    given, predicted : int array (N,)
        Codes of the given and the predicted labels.
    posteriors : Posteriors
        Of the items, in the order of their codes.
    classes : list
        Class names in the order of their codes.

    Returns
    -------
    pandas.DataFrame
        item; consensus_label, the most likely class by input and answers; consensus_quality, its probability, in
        [0, 1], high = surely this class; num_annotations; predicted_label, by the input alone; annotator_agreement, the
        share of the item's labels that say the consensus label; p_<class>, the probability of every class, or with more
        than 20 classes top_1 ... top_5 and top_1_probability ... top_5_probability.
    """
    code, given = np.asarray(item).astype(np.int64), np.asarray(given)
    n = np.bincount(code, minlength=len(names))
    if len(n) != len(posteriors.label) or not n.all():
        raise UsageError(f"{len(names):,} items need annotations, but only {np.count_nonzero(n):,} have one.")
    model = np.zeros(len(names), np.int64)
    model[code] = np.asarray(predicted)
    columns: dict[str, Any] = {
        "item": names,
        "consensus_label": label_column(posteriors.label, classes),
        "consensus_quality": posteriors.quality,
        "num_annotations": n,
        "predicted_label": label_column(model, classes),
        "annotator_agreement": (np.bincount(code, weights=given == posteriors.label[code]) / n).astype(np.float32),
    }
    if posteriors.top is None:
        columns |= {f"p_{name}": posteriors.p[:, k] for k, name in enumerate(classes)}
    else:
        for place in range(TOP):
            columns[f"top_{place + 1}"] = label_column(posteriors.top[:, place], classes)
            columns[f"top_{place + 1}_probability"] = posteriors.p[:, place]
    return pd.DataFrame(columns)


def annotators_table(
    annotator: npt.ArrayLike,
    names: Sequence[Any] | pd.Index,
    given: npt.ArrayLike,
    right: npt.ArrayLike,
    consensus: npt.ArrayLike,
    consensus_quality: npt.ArrayLike,
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
    given : int array (N,)
        Codes of the given labels.
    right : array (N,)
        Probability that each of them is right.
    consensus, consensus_quality : arrays (N,)
        Code of the consensus label of the item, and its probability.
    is_issue : bool array (N,)
    classes : list
        Class names in the order of their codes.
    gate : array (N,), optional

    Returns
    -------
    pandas.DataFrame
        annotator
        annotator_quality
            Mean probability that their labels are right, in [0, 1], high = good; quality_low and quality_high are its
            95% interval, that of a Beta distribution of the expected numbers of right and wrong labels, begun with two
            labels of the crowd's quality.
        num_labelled, num_issues
        worst_class
            The given class that is the consensus least often, among those this annotator gave at least 5 times and the
            consensus disagreed with at least once; else missing.
        favourite_label, favourite_excess
            The label that they give more often than the crowd would to the same items, and by how much, as a share of
            their labels: where that is beyond chance (three standard deviations, 5 labels), else missing. Here and
            below every label is counted by how sure the consensus of its item is.
        worst_confusion, worst_confusion_share
            "dog -> cat" where they give cat to items whose consensus is dog, and to which share of these: their most
            frequent one, of at least 2 items among 5 with that consensus; else missing.
        mean_gate
            With a gate.
    """
    who, given, consensus = np.asarray(annotator).astype(np.int64), np.asarray(given), np.asarray(consensus)
    right = np.asarray(right, np.float64)
    size, k = len(names), len(classes)
    n = np.bincount(who, minlength=size)
    rights = np.bincount(who, weights=right, minlength=size)
    quality = rights / np.maximum(n, 1)
    low, high = beta_interval(rights, n, float(right.mean()) if len(right) else 0.5)
    sure = np.asarray(consensus_quality, np.float64)
    favourite, excess = _favourites(who, given, consensus, sure, size, k)
    confusion, share = _worst_confusion(who, given, consensus, sure, size, classes)
    columns: dict[str, Any] = {
        "annotator": names,
        "annotator_quality": quality.astype(np.float32),
        "quality_low": np.minimum(low, quality).astype(np.float32),
        "quality_high": np.maximum(high, quality).astype(np.float32),
        "num_labelled": n.astype(np.int64),
        "num_issues": np.bincount(who, weights=np.asarray(is_issue), minlength=size).astype(np.int64),
        "worst_class": label_column(_worst_class(who, given, given == consensus, size, k), classes),
        "favourite_label": label_column(favourite, classes),
        "favourite_excess": excess.astype(np.float32),
        "worst_confusion": pd.Series(confusion, dtype="str").array,
        "worst_confusion_share": share.astype(np.float32),
    }
    if gate is not None:
        columns["mean_gate"] = (np.bincount(who, weights=np.asarray(gate), minlength=size) / np.maximum(n, 1)).astype(
            np.float32
        )
    frame = pd.DataFrame(columns)[n > 0]
    order = ["annotator_quality", "num_labelled"]
    frame = frame.sort_values(order, ascending=[True, False], kind="stable", ignore_index=True)
    # Categories in the order of the rows: what is read from the file and written again has the same bytes.
    return frame.assign(annotator=label_column(np.arange(len(frame)), frame["annotator"].tolist()))


def beta_interval(right: npt.ArrayLike, n: npt.ArrayLike, crowd: float) -> tuple[Floats, Floats]:
    """95% interval of shares of which `right` of `n` are expected, begun with two answers of the crowd's share."""
    from scipy.special import betaincinv

    right, n = np.asarray(right, np.float64), np.asarray(n, np.float64)
    crowd = float(np.clip(crowd, 1e-3, 1 - 1e-3))
    a, b = right + CROWD_ANSWERS * crowd, n - right + CROWD_ANSWERS * (1 - crowd)
    tail = (1 - INTERVAL) / 2
    return np.asarray(betaincinv(a, b, tail)), np.asarray(betaincinv(a, b, 1 - tail))


def _worst_class(
    who: npt.NDArray[Any], given: npt.NDArray[Any], agrees: npt.NDArray[np.bool_], size: int, k: int
) -> Ints:
    """Code of the class that each annotator gives worst, -1 where none can be named; only pairs that occur are kept."""
    pairs, index = np.unique(who * k + given, return_inverse=True)
    n = np.bincount(index, minlength=len(pairs))
    agreed = np.bincount(index, weights=agrees, minlength=len(pairs))
    kept = np.flatnonzero((n >= MIN_ANSWERS) & (agreed < n))
    order = kept[np.lexsort((-n[kept], agreed[kept] / n[kept], pairs[kept] // k))]
    people, first = np.unique(pairs[order] // k, return_index=True)
    worst = np.full(size, -1, dtype=np.int64)
    worst[people] = pairs[order[first]] % k
    return worst


def _favourites(who: Ints, given: Ints, consensus: Ints, sure: Floats, size: int, k: int) -> tuple[Ints, Floats]:
    """Code of each annotator's favourite label, -1 where there is none, and its excess, NaN there."""
    from scipy.sparse import csr_array

    favourite, excess = np.full(size, -1, np.int64), np.full(size, np.nan)
    truths = csr_array((sure, (who, consensus)), shape=(size, k))
    answers = csr_array((sure, (who, given)), shape=(size, k))
    crowd = csr_array((sure, (consensus, given)), shape=(k, k))
    crowd = csr_array(crowd / np.maximum(crowd.sum(1), 1e-12)[:, None])
    for first in range(0, size, max(1, BLOCK_NUMBERS // k)):
        block = slice(first, first + max(1, BLOCK_NUMBERS // k))
        found, expected = answers[block].toarray(), (truths[block] @ crowd).toarray()
        total = np.maximum(found.sum(1, keepdims=True), 1e-12)
        spread = np.sqrt(np.maximum(expected * (1 - expected / total), 0.0))
        more = np.where((found >= MIN_ANSWERS) & (found - expected > CLEARLY * spread + 1e-9), found - expected, 0.0)
        label = more.argmax(1)
        share = more[np.arange(len(label)), label] / total[:, 0]
        favourite[block] = np.where(share > 0, label, -1)
        excess[block] = np.where(share > 0, share, np.nan)
    return favourite, excess


def _worst_confusion(
    who: Ints, given: Ints, consensus: Ints, sure: Floats, size: int, classes: Sequence[Any]
) -> tuple[npt.NDArray[np.object_], Floats]:
    """The confusion that each annotator makes most often, as text, None where there is none, and its share."""
    k, text, share = len(classes), np.full(size, None, dtype=object), np.full(size, np.nan)
    pair = who * k + consensus
    pairs, index = np.unique(pair, return_inverse=True)
    of_truth = np.bincount(index, weights=sure, minlength=len(pairs))
    wrong = np.flatnonzero(given != consensus)
    triples, index = np.unique(pair[wrong] * k + given[wrong], return_inverse=True)
    count = np.bincount(index, weights=sure[wrong], minlength=len(triples))
    total = of_truth[np.searchsorted(pairs, triples // k)]
    kept = np.flatnonzero((total >= MIN_ANSWERS) & (count >= MIN_CONFUSIONS))
    order = kept[np.lexsort((-count[kept] / total[kept], -count[kept], triples[kept] // k**2))]
    people, first = np.unique(triples[order] // k**2, return_index=True)
    chosen = order[first]
    share[people] = count[chosen] / total[chosen]
    truth, said = triples[chosen] // k % k, triples[chosen] % k
    text[people] = [f"{classes[t]} -> {classes[s]}" for t, s in zip(truth.tolist(), said.tolist(), strict=True)]
    return text, share
