"""How far annotators agree with each other, beyond what their habits alone would give.

    alpha = 1 - (observed disagreement) / (disagreement of labels drawn at random)     Krippendorff's, nominal
    kappa = (share agreed - share expected) / (1 - share expected)                     Cohen's, of two annotators

Alpha looks at all answers to items that have two or more. Its interval is that of the delta method over items. Kappa of
two annotators looks at the items that both answered; one annotator's own agreement pools their pairs with everybody
else, and begins with `FEW_PAIRS` pairs of the crowd's agreement.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..metrics import NORMAL_95
from ..run.records.summary import AgreeingPair, Agreement
from .counts import numbered

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_PAIRS = 2**21  # pairs of answers that are looked at; of more, those of evenly spaced items
MAX_ANSWERS = 64  # answers to one item that are paired
FEW_PAIRS = 5.0
SHOWN_PAIRS = 50


def krippendorff_alpha(item: npt.ArrayLike, given: npt.ArrayLike) -> tuple[float, float, float] | None:
    """Return alpha of nominal labels and its 95% interval; None where no item has two answers, or all are one class.

    `item`, `given` (N,): codes of items and labels.
    """
    codes, labels = np.asarray(item).astype(np.int64), np.asarray(given).astype(np.int64)
    pairable = np.bincount(codes, minlength=1)[codes] > 1
    if not pairable.any():
        return None
    number, labels = numbered(codes[pairable])[1], labels[pairable]
    n, k = len(labels), int(labels.max()) + 1
    per_class = np.bincount(labels, minlength=k).astype(np.float64)
    different = float(n) ** 2 - float((per_class**2).sum())
    if different <= 0:
        return None
    answers = np.bincount(number).astype(np.float64)
    keys, counts = np.unique(number * k + labels, return_counts=True)
    agreed = np.bincount(keys // k, weights=counts * (counts - 1.0)) / (answers - 1)
    missed = (n - agreed.sum()) * (n - 1)
    # How alpha changes with one item more: its derivative by the sums that it is made of.
    d_missed = -(n - 1) * agreed + (2 * n - 1 - agreed.sum()) * answers
    d_different = 2 * n * answers - 2 * np.bincount(keys // k, weights=counts * per_class[keys % k])
    change = -d_missed / different + missed * d_different / different**2
    spread = float(np.sqrt(change.var() * len(change))) if len(change) > 1 else float("inf")
    alpha = 1 - missed / different
    return alpha, max(-1.0, alpha - NORMAL_95 * spread), min(1.0, alpha + NORMAL_95 * spread)


def ordinal_alpha(item: npt.ArrayLike, level: npt.ArrayLike) -> tuple[float, float, float]:
    """Return Krippendorff's alpha of ordered levels and its 95% interval; NaN where no two answers can differ.

    It is alpha of middle ranks as numbers: the ordinal difference of two levels is the distance of their middle ranks.
    """
    codes, level = np.asarray(item).astype(np.int64), np.asarray(level).astype(np.int64)
    pairable = np.bincount(codes, minlength=1)[codes] > 1
    number, level = np.unique(codes[pairable], return_inverse=True)[1], level[pairable]
    per_level, n = np.bincount(level, minlength=1), len(level)
    rank = (np.cumsum(per_level) - per_level / 2)[level] - n / 2  # of mean 0
    answers, squares = (np.bincount(number, weights) for weights in (np.ones(n), rank**2))
    missed = (answers * squares - np.bincount(number, rank) ** 2) / np.maximum(answers - 1, 1)
    share, whole = (n - 1) * missed.sum(), n * squares.sum()
    if not whole:
        return float("nan"), float("nan"), float("nan")
    change = (n - 1) * missed / whole + missed.sum() * answers / whole
    change -= share / whole * (squares / squares.sum() + answers / n)
    alpha, spread = 1 - share / whole, NORMAL_95 * float(np.sqrt(change.var() * len(change)))
    return alpha, max(-1.0, alpha - spread), min(1.0, alpha + spread)


def weighted_kappa(item: npt.ArrayLike, annotator: npt.ArrayLike, level: npt.ArrayLike) -> float | None:
    """Return quadratically weighted kappa of two annotators, mean over pairs by items in common; None without any."""
    who, value = np.asarray(annotator).astype(np.int64), np.asarray(level, np.float64)
    first, second = answer_pairs(item, who)
    first, second = np.where(who[first] > who[second], [second, first], [first, second])
    pair = np.unique(who[first] * (int(who.max()) + 1) + who[second], return_inverse=True)[1]
    n, x, y, x2, y2, off = (
        np.bincount(pair, weights)
        for a, b in [(value[first], value[second])]
        for weights in (np.ones(len(a)), a, b, a**2, b**2, (a - b) ** 2)
    )
    chance = x2 + y2 - 2 * x * y / n
    known = chance > 0
    return float(np.average(1 - off[known] / chance[known], weights=n[known])) if known.any() else None


def answer_pairs(item: npt.ArrayLike, annotator: npt.ArrayLike) -> tuple[Ints, Ints]:
    """Return the positions of two answers to one item by different annotators, each pair once."""
    code, who = np.asarray(item).astype(np.int64), np.asarray(annotator)
    order = np.argsort(code, kind="stable")
    starts = np.cumsum(np.bincount(code, minlength=1)) - np.bincount(code, minlength=1)
    order = order[np.arange(len(order)) - starts[code[order]] < MAX_ANSWERS]
    answers = np.bincount(code[order], minlength=1)
    every = max(1, int(np.ceil((answers * (answers - 1.0)).sum() / 2 / MAX_PAIRS)))
    order = order[code[order] % every == 0]
    first, second = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for distance in range(1, int(answers.max())):
        left, right = order[:-distance], order[distance:]
        both = (code[left] == code[right]) & (who[left] != who[right])
        first.append(left[both])
        second.append(right[both])
    return np.concatenate(first), np.concatenate(second)


def pairwise_kappa(
    pairs: tuple[Ints, Ints], annotator: npt.ArrayLike, given: npt.ArrayLike, n_classes: int
) -> tuple[Ints, Ints, Floats, Ints]:
    """Compute Cohen's kappa of every two annotators who share items, those with most items in common first.

    `pairs`: from `answer_pairs`.
    `annotator`, `given` (N,): codes.

    Returns
    -------
    arrays (P,)
        Codes a < b, kappa (NaN: none), items in common.
    """
    who, label = np.asarray(annotator).astype(np.int64), np.asarray(given).astype(np.int64)
    swapped = who[pairs[0]] > who[pairs[1]]
    first, second = np.where(swapped, pairs[1], pairs[0]), np.where(swapped, pairs[0], pairs[1])
    size = int(who.max()) + 1 if len(who) else 1
    names, index = np.unique(who[first] * size + who[second], return_inverse=True)
    kappa, n = _kappa(index, label[first], label[second], len(names), n_classes)
    order = np.argsort(-n, kind="stable")
    return names[order] // size, names[order] % size, kappa[order], n[order]


def own_agreement(
    pairs: tuple[Ints, Ints], annotator: npt.ArrayLike, given: npt.ArrayLike, n_classes: int, size: int
) -> Floats:
    """Compute kappa of each of `size` annotators with all others, shrunk towards that of all; NaN without any."""
    who, label = np.asarray(annotator).astype(np.int64), np.asarray(given).astype(np.int64)
    first, second = np.concatenate([pairs[0], pairs[1]]), np.concatenate([pairs[1], pairs[0]])
    if not len(first):
        return np.full(size, np.nan)
    kappa, n = _kappa(who[first], label[first], label[second], size, n_classes)
    crowd = float(_kappa(np.zeros(len(first), np.int64), label[first], label[second], 1, n_classes)[0][0])
    shrunk = (n * kappa + FEW_PAIRS * crowd) / (n + FEW_PAIRS)
    return np.where(np.isfinite(kappa), shrunk, np.nan)


def _kappa(group: Ints, first: Ints, second: Ints, size: int, k: int) -> tuple[Floats, Ints]:
    """Return kappa of the pairs of labels in each group, NaN where it has none, and their number."""
    n = np.bincount(group, minlength=size)
    total = np.maximum(n, 1)
    agreed = np.bincount(group, weights=first == second, minlength=size) / total
    both = np.concatenate([group * k + first, group * k + second])
    keys, index = (np.arange(size * k), both) if size * k <= len(both) else np.unique(both, return_inverse=True)
    ours, theirs = (np.bincount(part, minlength=len(keys)) for part in np.split(index, 2))
    expected = np.bincount(keys // k, weights=ours.astype(np.float64) * theirs, minlength=size) / total**2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = np.where((n > 0) & (expected < 1 - 1e-12), (agreed - expected) / (1 - expected), np.nan)
    return kappa, n


def describe_agreement(
    item: npt.ArrayLike, annotator: npt.ArrayLike | None, names: Any, given: npt.ArrayLike, n_classes: int
) -> Agreement | None:
    """Describe the agreement of a project; None where no item has two answers, or all are one class."""
    found = krippendorff_alpha(item, given)
    if found is None:
        return None
    if annotator is None:
        return Agreement(*found, mean_kappa=None, pairs=[])
    a, b, kappa, items = pairwise_kappa(answer_pairs(item, annotator), annotator, given, n_classes)
    known = np.flatnonzero(np.isfinite(kappa))
    mean = float(np.average(kappa[known], weights=items[known])) if len(known) else None
    shown = zip(*(part[known[:SHOWN_PAIRS]].tolist() for part in (a, b, kappa, items)), strict=True)
    return Agreement(
        *found, mean_kappa=mean, pairs=[AgreeingPair(str(names[a]), str(names[b]), k, n) for a, b, k, n in shown]
    )
