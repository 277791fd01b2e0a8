"""What is known about the annotator of a label, and about its pair of classes, where that is beyond chance.

Each function gives a text for every issue, "" where there is nothing to say, and its weight: the logarithm of how many
times more frequent such wrong answers are than usual.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .annotator_habits import MIN_ANSWERS
from .intervals import CHANCE, CROWD_ANSWERS, chance_excess, sums

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Part = tuple[list[str], Floats]

CLEARLY_LOWER = 0.05  # by how much an annotator must be below the others to be mentioned
LIFT = 1.5  # how many times more frequent than usual, to be worth saying


def annotator_part(rows: Ints, names: Array, given: Ints, suggested: Ints, annotator: Array, judge: str) -> Part:
    """This annotator on this class beside the others, else on all classes, where clearly worse.

    Parameters
    ----------
    rows : int array (R,)
        The issues.
    names : array (K,)
        Names of the classes.
    given, suggested, annotator : int array (N,)
    judge : "consensus" or "model"
        Whose labels are suggested.
    """
    texts, weights = _on_class(rows, names, given, suggested, annotator.astype(np.int64))
    general, general_weights = _overall(rows, given == suggested, annotator, judge)
    both = [one or other for one, other in zip(texts, general, strict=True)]
    return both, np.where([bool(one) for one in texts], weights, general_weights)


def _on_class(rows: Ints, names: Array, given: Ints, suggested: Ints, annotator: Ints) -> Part:
    k = len(names)
    of_class = np.bincount(suggested, minlength=k)
    wrong = np.flatnonzero(given != suggested)
    pair = suggested[wrong] * k + given[wrong]
    triples, index = np.unique(annotator[wrong] * k**2 + pair, return_inverse=True)
    count = np.bincount(index, minlength=len(triples)).astype(np.float64)
    people, own = np.unique(annotator * k + suggested, return_counts=True)
    n = own[np.searchsorted(people, triples // k**2 * k + triples % k**2 // k)].astype(np.float64)
    pairs, number = np.unique(triples % k**2, return_inverse=True)
    all_count, all_n = sums(number, count, len(pairs))[number], of_class[triples % k**2 // k]
    usual = all_count / np.maximum(all_n, 1)
    others = (all_count - count + CROWD_ANSWERS * usual) / (all_n - n + CROWD_ANSWERS)
    tested = (n >= MIN_ANSWERS) & (all_n > n)
    bound = n * others + chance_excess(n * others * (1 - others), CHANCE / max(int(tested.sum()), 1))
    share = (count + CROWD_ANSWERS * others) / (n + CROWD_ANSWERS)
    found = tested & (count > bound) & (share >= LIFT * others)
    place = np.full(len(given), -1, np.int64)
    place[wrong] = index
    mine = place[rows]
    told = (mine >= 0) & found[np.maximum(mine, 0)] if len(found) else np.zeros(len(rows), bool)
    texts = [""] * len(rows)
    for at in np.flatnonzero(told).tolist():
        one = mine[at]
        a, b = names[suggested[rows[at]]], names[given[rows[at]]]
        texts[at] = (
            f"This annotator says {b} to {count[one] / n[one]:.0%} of items that are {a} ({count[one]:,.0f} of "
            f"{n[one]:,.0f}); the others to {others[one]:.0%}."
        )
    weights = np.zeros(len(rows))
    weights[told] = np.log(share[mine[told]] / np.maximum(others[mine[told]], 1e-3))
    return texts, weights


def _overall(rows: Ints, agrees: Array, annotator: Array, judge: str) -> Part:
    n = np.bincount(annotator)
    agreed = np.bincount(annotator, weights=agrees)
    rest = (agreed.sum() - agreed) / np.maximum(n.sum() - n, 1)
    share = agreed / np.maximum(n, 1)
    tested = (n >= MIN_ANSWERS) & (n < n.sum())
    bound = n * rest - chance_excess(n * rest * (1 - rest), CHANCE / max(int(tested.sum()), 1))
    worse = tested & (share < rest - CLEARLY_LOWER) & (agreed < bound)
    texts = np.full(len(n), "", dtype=object)
    for one in np.flatnonzero(worse):
        texts[one] = (
            f"The {judge} agrees with {share[one]:.0%} of this annotator's labels, with {rest[one]:.0%} of the others'."
        )
    weight = np.where(worse, np.log(np.maximum(1 - share, 1e-3) / np.maximum(1 - rest, 1e-3)), 0.0)
    return texts[annotator[rows]].tolist(), weight[annotator[rows]]


def own_record(rows: Ints, names: Array, given: Ints, suggested: Ints, annotator: Array) -> list[str]:
    """How often this annotator is right on the suggested class, if that is clearly below all annotators together.

    Nothing is said where this label is their only mistake on the class. Chance is not excluded: it is a fact to look
    at, which has no weight among the reasons.
    """
    k = len(names)
    keys, index, n = np.unique(annotator.astype(np.int64) * k + suggested, return_inverse=True, return_counts=True)
    right = sums(index, given == suggested, len(keys))
    everybody = sums(suggested, given == suggested, k) / np.maximum(np.bincount(suggested, minlength=k), 1)
    worse = (n >= MIN_ANSWERS) & (n - right > 1) & (right / n < everybody[keys % k] - CLEARLY_LOWER)
    sentences = {
        one: f"This annotator is right on {right[one]:,.0f} of {n[one]:,} items that are {names[keys[one] % k]} "
        f"({right[one] / n[one]:.0%}; all: {everybody[keys[one] % k]:.0%})."
        for one in np.unique(index[rows]).tolist()
        if worse[one]
    }
    return [sentences.get(one, "") for one in index[rows].tolist()]


def pair_part(rows: Ints, names: Array, given: Ints, suggested: Ints) -> Part:
    """How often items of the suggested class are given this label, where that is more frequent than other mistakes."""
    k = len(names)
    of_class = np.bincount(suggested, minlength=k)
    differs = given != suggested
    pairs, index = np.unique(suggested[differs] * k + given[differs], return_inverse=True)
    count, n = np.bincount(index, minlength=len(pairs)), of_class[pairs // k]
    usual = float(differs.mean()) / max(k - 1, 1)
    share = count / np.maximum(n, 1)
    bound = n * usual + chance_excess(n * usual * (1 - usual), CHANCE / max(len(pairs), 1))
    found = (n >= MIN_ANSWERS) & (count > bound) & (share >= LIFT * usual)
    place = np.full(len(given), -1, np.int64)
    place[differs] = index
    mine = place[rows]
    told = (mine >= 0) & found[np.maximum(mine, 0)] if len(found) else np.zeros(len(rows), bool)
    sentences = [
        f"{share:.0%} of the answers to items that are {names[pair // k]} say {names[pair % k]}."
        for pair, share in zip(pairs.tolist(), share.tolist(), strict=True)
    ]
    weights = np.zeros(len(rows))
    weights[told] = np.log(share[mine[told]] / max(usual, 1e-3))
    return [sentences[one] if said else "" for one, said in zip(mine.tolist(), told.tolist(), strict=True)], weights
