"""What is known about the annotator of a label, and about its pair of classes, where that is beyond chance.

Each function gives a text for every issue, "" where there is nothing to say, and its weight: the logarithm of how many
times more frequent such wrong answers are than usual.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from .class_accuracy import MIN_ANSWERS
from .counts import Counts
from .intervals import CHANCE, CROWD_ANSWERS, chance_excess

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Part = tuple[list[str], Floats]

CLEARLY_LOWER = 0.05  # by how much an annotator must be below the others to be mentioned
LIFT = 1.5  # how many times more frequent than usual, to be worth saying


def annotator_part(rows: Ints, names: Array, counts: Counts) -> Part:
    """Return how this annotator does on this class beside the others, else on all classes, where clearly worse.

    `rows` (R,): the issues.
    `names` (K,): names of the classes.
    `counts`: all answers, by the consensus of their items.
    """
    texts, weights = _on_class(rows, names, counts)
    general, general_weights = _overall(rows, counts.per("who"), counts.cell)
    both = [one or other for one, other in zip(texts, general, strict=True)]
    return both, np.where([bool(one) for one in texts], weights, general_weights)


def _on_class(rows: Ints, names: Array, counts: Counts) -> Part:
    """Compare how often annotators give a label to items of a class with how often the others do."""
    count, (n, _) = counts.n, counts.totals("who", "true")
    (all_count, _), (all_n, _) = counts.totals("true", "given"), counts.totals("true")
    others = (all_count - count + CROWD_ANSWERS * all_count / all_n) / (all_n - n + CROWD_ANSWERS)
    tested = counts.is_wrong & (n >= MIN_ANSWERS) & (all_n > n)
    bound = n * others + _most_by_chance(n * others * (1 - others), tested)
    share = (count + CROWD_ANSWERS * others) / (n + CROWD_ANSWERS)
    found = tested & (count > bound) & (share >= LIFT * others)
    mine = counts.cell[rows]
    sentences = {
        one: f"This annotator says {names[counts.given[one]]} to {count[one] / n[one]:.0%} of items that are "
        f"{names[counts.true[one]]} ({count[one]:,.0f} of {n[one]:,.0f}); the others to {others[one]:.0%}."
        for one in np.unique(mine[found[mine]]).tolist()
    }
    weights = np.log(share[mine] / np.maximum(others[mine], 1e-3), out=np.zeros(len(rows)), where=found[mine])
    return [sentences.get(one, "") for one in mine.tolist()], weights


def _overall(rows: Ints, own: Counts, cell: Ints) -> Part:
    """Compare how often annotators agree with the consensus with how often the others do."""
    n, agreed = own.n, own.right
    rest = (agreed.sum() - agreed) / np.maximum(n.sum() - n, 1)
    share = agreed / n
    tested = (n >= MIN_ANSWERS) & (n < n.sum())
    bound = n * rest - _most_by_chance(n * rest * (1 - rest), tested)
    worse = tested & (share < rest - CLEARLY_LOWER) & (agreed < bound)
    texts = np.full(len(n), "", dtype=object)
    for one in np.flatnonzero(worse):
        texts[one] = (
            f"The consensus agrees with {share[one]:.0%} of this annotator's labels, with {rest[one]:.0%} of the "
            "others'."
        )
    weight = np.where(worse, np.log(np.maximum(1 - share, 1e-3) / np.maximum(1 - rest, 1e-3)), 0.0)
    mine = own.cell[cell[rows]]
    return texts[mine].tolist(), weight[mine]


def own_record(rows: Ints, names: Array, counts: Counts) -> list[str]:
    """Return how often this annotator is right on this class, if clearly less often than all and not only here.

    Chance is not excluded: it is a fact to look at, which has no weight among the reasons.
    """
    own = counts.per("who", "true")
    n, right, (all_n, all_right) = own.n, own.right, own.totals("true")
    worse = (n >= MIN_ANSWERS) & (n - right > 1) & (right / n < all_right / all_n - CLEARLY_LOWER)
    mine = own.cell[counts.cell[rows]]
    sentences = {
        one: f"This annotator is right on {right[one]:,.0f} of {n[one]:,.0f} items that are {names[own.true[one]]} "
        f"({right[one] / n[one]:.0%}; all: {all_right[one] / all_n[one]:.0%})."
        for one in np.unique(mine[worse[mine]]).tolist()
    }
    return [sentences.get(one, "") for one in mine.tolist()]


def pair_part(rows: Ints, names: Array, counts: Counts) -> Part:
    """Return how often items of the suggested class are given this label, where that is more frequent than usual."""
    pairs = counts.per("true", "given")
    count, (n, _), wrong = pairs.n, pairs.totals("true"), pairs.is_wrong
    usual = float(count[wrong].sum() / count.sum()) / max(len(names) - 1, 1)
    share = count / n
    bound = n * usual + _most_by_chance(n * usual * (1 - usual), wrong)
    found = wrong & (n >= MIN_ANSWERS) & (count > bound) & (share >= LIFT * usual)
    mine = pairs.cell[counts.cell[rows]]
    sentences = {
        one: f"{share[one]:.0%} of the answers to items that are {names[pairs.true[one]]} say "
        f"{names[pairs.given[one]]}."
        for one in np.flatnonzero(found).tolist()
    }
    weights = np.log(share[mine] / max(usual, 1e-3), out=np.zeros(len(rows)), where=found[mine])
    return [sentences.get(one, "") for one in mine.tolist()], weights


def _most_by_chance(variance: Floats, tested: npt.NDArray[np.bool_]) -> Floats:
    """Return by how much any of the tested numbers exceeds its expectation with a probability of at most `CHANCE`."""
    return chance_excess(variance, CHANCE / max(int(np.count_nonzero(tested)), 1))
