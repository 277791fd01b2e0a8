"""Habits of annotators: answers that they like, and classes that they confuse."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_CONFUSIONS = 2  # items that must be confused before it is said about an annotator
MIN_ANSWERS = 5  # an annotator must have given to a class, or to items of it, before anything is said about it
CLEARLY = 3.0  # standard deviations by which a favourite answer must come more often than the crowd's
BLOCK_NUMBERS = 2**24  # annotators x classes that are looked at together


def favourites(who: Ints, given: Ints, consensus: Ints, sure: Floats, size: int, k: int) -> tuple[Ints, Floats]:
    """Code of each annotator's favourite label, -1 where there is none, and its excess, NaN there."""
    from scipy.sparse import csr_array

    favourite, excess = np.full(size, -1, np.int64), np.full(size, np.nan)
    truths = csr_array((sure, (who, consensus)), shape=(size, k))
    answers = csr_array((sure, (who, given)), shape=(size, k))
    crowd = csr_array((sure, (consensus, given)), shape=(k, k))
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


def worst_confusion(
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


def median_of(who: Ints, values: Floats, size: int) -> Floats:
    """Median of the known values of each of `size` annotators, NaN where there is none."""
    known = np.isfinite(values)
    who, values = who[known], values[known]
    values = values[np.lexsort((values, who))]
    n = np.bincount(who, minlength=size)
    start, median, some = np.cumsum(n) - n, np.full(size, np.nan), n > 0
    low, high = (start + np.maximum(n - 1, 0) // 2)[some], (start + n // 2)[some]
    median[some] = (values[low] + values[high]) / 2
    return median
