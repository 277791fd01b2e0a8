"""Habits of annotators: answers that they like, and classes that they confuse."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .counts import Counts
from .intervals import sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_CONFUSIONS = 2  # items that must be confused before it is said about an annotator
MIN_ANSWERS = 5  # an annotator must have given to a class, or to items of it, before anything is said about it
CLEARLY = 3.0  # standard deviations by which a favourite answer must come more often than the crowd's


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
