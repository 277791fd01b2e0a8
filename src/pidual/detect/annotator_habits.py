"""Habits of annotators: answers that they like, and classes that they confuse."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .counts import Counts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_CONFUSIONS = 2  # items that must be confused before it is said about an annotator
MIN_ANSWERS = 5  # an annotator must have given to a class, or to items of it, before anything is said about it
CLEARLY = 3.0  # standard deviations by which a favourite answer must come more often than the crowd's
BLOCK_NUMBERS = 2**24  # annotators x classes that are looked at together


def favourites(counts: Counts, size: int) -> tuple[Ints, Floats]:
    """Return the code of each annotator's favourite label, -1 where there is none, and its excess, NaN there."""
    from scipy.sparse import csr_array

    k, favourite, excess = counts.n_classes, np.full(size, -1, np.int64), np.full(size, np.nan)
    truths = csr_array((counts.n, (counts.who, counts.true)), shape=(size, k))
    answers = csr_array((counts.n, (counts.who, counts.given)), shape=(size, k))
    crowd = csr_array((counts.n, (counts.true, counts.given)), shape=(k, k))
    crowd = csr_array(crowd / np.maximum(crowd.sum(1), 1e-12)[:, None])
    often = np.flatnonzero(answers.max(axis=1).toarray().ravel() >= MIN_ANSWERS)  # who gave any label often enough
    for first in range(0, len(often), max(1, BLOCK_NUMBERS // k)):
        block = often[first : first + max(1, BLOCK_NUMBERS // k)]
        found, expected = answers[block].toarray(), (truths[block] @ crowd).toarray()
        total = np.maximum(found.sum(1, keepdims=True), 1e-12)
        spread = np.sqrt(np.maximum(expected * (1 - expected / total), 0.0))
        more = np.where((found >= MIN_ANSWERS) & (found - expected > CLEARLY * spread + 1e-9), found - expected, 0.0)
        label = more.argmax(1)
        share = more[np.arange(len(label)), label] / total[:, 0]
        favourite[block] = np.where(share > 0, label, -1)
        excess[block] = np.where(share > 0, share, np.nan)
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
