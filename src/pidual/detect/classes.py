"""How the crowd labels each class: P(given | true), and classes that should be merged or defined better.

    P(j | k) = sum over answers of q_i(k) [given = j]  /  sum over answers of q_i(k)

A class is *mistaken for* another where that happens in more than `MIN_SHARE` of the cases, and in more than twice as
many as with any two classes on average, both beyond chance (Bernstein's bound, for all pairs together). Two classes
that are mistaken for each other by most annotators are hard to tell apart: merge them, or define them better. One that
is mistaken for the other, and hardly ever the reverse, needs a better definition. Where most of it is one annotator's
doing, and the others do not confuse the classes beyond chance, the classes are fine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.pi.kinds import short_name
from ..run.records.summary import Classes, ConfusedPair
from .bounds import chance_excess, sums
from .habits import MIN_ANSWERS
from .tables import ALL_CLASSES, Truth

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHOWN_PAIRS = 50
ADVISED_PAIRS = 20  # most frequent pairs about which there may be advice
MIN_SHARE = 0.05
TIMES_USUAL = 2.0
CHANCE = 0.05  # that any pair is found without reason
MOST = 0.5


@dataclass(frozen=True)
class Transitions:
    """Expected numbers of answers by true and given class: one entry for each two classes that meet."""

    true: Ints
    given: Ints
    count: Floats
    per_class: Floats  # (K,) answers to items of each class

    @classmethod
    def count_answers(cls, given: npt.ArrayLike, truth: Truth, n_classes: int) -> "Transitions":
        """From the codes of the given labels (N,), and what their items may be."""
        said = np.asarray(given).astype(np.int64)[truth.row]
        keys, index = np.unique(truth.label * n_classes + said, return_inverse=True)
        count = sums(index, truth.weight, len(keys))
        return cls(keys // n_classes, keys % n_classes, count, sums(truth.label, truth.weight, n_classes))

    @property
    def share(self) -> Floats:
        """P(given | true) of every entry."""
        return np.asarray(self.count / np.maximum(self.per_class[self.true], 1e-12))

    def matrix(self) -> Floats:
        """P(given | true) as (K, K); a class that no item is has a row of zeros."""
        k = len(self.per_class)
        return sums(self.true * k + self.given, self.share, k * k).reshape(k, k)

    def confusions(self) -> Ints:
        """Entries of wrong answers, most frequent first."""
        wrong = np.flatnonzero(self.true != self.given)
        return wrong[np.argsort(-self.count[wrong], kind="stable")]


def describe_classes(
    given: npt.ArrayLike, truth: Truth, classes: Sequence[Any], annotator: npt.ArrayLike | None = None
) -> Classes:
    """Describe how the crowd labels the classes.

    Parameters
    ----------
    given : int array (N,)
        Codes of the given labels.
    truth : Truth
        What the items may be.
    classes : list
    annotator : int array (N,), optional
        Codes.
    """
    found = Transitions.count_answers(given, truth, len(classes))
    shown = found.confusions()[:SHOWN_PAIRS]
    pairs = [
        ConfusedPair(str(classes[true]), str(classes[said]), count, share)
        for true, said, count, share in zip(
            *(part[shown].tolist() for part in (found.true, found.given, found.count, found.share)), strict=True
        )
    ]
    advice = find_advice(found, given, truth, classes, annotator)
    transitions = found.matrix().tolist() if len(classes) <= ALL_CLASSES else None
    return Classes([str(name) for name in classes], pairs, advice, transitions)


def find_advice(
    found: Transitions,
    given: npt.ArrayLike,
    truth: Truth,
    classes: Sequence[Any],
    annotator: npt.ArrayLike | None = None,
) -> list[str]:
    """What to do about classes that are confused, a sentence each, the most frequent ones first."""
    k = len(classes)
    taken = taken_for(found.count, found.per_class[found.true], found)
    advice, done = [], set()
    for entry in found.confusions()[:ADVISED_PAIRS].tolist():
        pair = frozenset((int(found.true[entry]), int(found.given[entry])))
        if not taken[entry] or pair in done:
            continue
        done.add(pair)
        back = np.flatnonzero((found.true == found.given[entry]) & (found.given == found.true[entry]))
        both = bool(len(back)) and bool(taken[back[0]])
        first, second = (short_name(classes[int(one[entry])]) for one in (found.true, found.given))
        people = None
        if annotator is not None:
            people = _People.of(found, entry, back if both else back[:0], given, truth, np.asarray(annotator), k)
            if people.mostly_one:
                advice.append(
                    f"{people.largest:.0%} of the answers that take {first} for {second}{' or the reverse' * both} "
                    "come from one annotator, and the others hardly confuse them: the classes are fine, look at that "
                    "annotator."
                )
                continue
            if not people.most:
                continue
        by = "" if people is None else f", by {people.confusing} of {people.asked} annotators"
        share = f"{found.share[entry]:.0%} of {first} are labelled {second}"
        if both:
            advice.append(
                f"{first} and {second} are confused both ways ({share}, {found.share[back[0]]:.0%} of {second} are "
                f"labelled {first}{by}): merge them, or define better what tells them apart."
            )
        else:
            advice.append(f"{share}{by}, and hardly ever the reverse: define {first} better, with examples.")
    return advice


def taken_for(count: Floats, n: Floats, found: Transitions) -> npt.NDArray[np.bool_]:
    """Which counts of wrong answers, of n each, are more than usual and more than chance explains.

    Parameters
    ----------
    count, n : array (E,)
        Wrong answers of each entry of `found`, and answers to items of its true class.
    """
    wrong, k = found.true != found.given, len(found.per_class)
    usual = TIMES_USUAL * found.count[wrong].sum() / max(found.per_class.sum(), 1e-12) / (k - 1) if k > 2 else 0.0
    least = max(MIN_SHARE, usual)
    tests = max(int(np.count_nonzero(found.per_class > 0)) * (k - 1), 1)
    bound = least * n + chance_excess(n * least * (1 - min(least, 1.0)), CHANCE / tests)
    return np.asarray(wrong & (count > bound))


@dataclass(frozen=True)
class _People:
    """Who confuses two classes."""

    asked: int  # annotators with MIN_ANSWERS items of the true class, or of both
    confusing: int  # of these, how many confuse them at least half as often as all do
    largest: float  # share of the confusions that one annotator makes
    mostly_one: bool  # and the others do not confuse them beyond chance

    @property
    def most(self) -> bool:
        return self.confusing > MOST * self.asked

    @classmethod
    def of(
        cls, found: Transitions, entry: int, back: Ints, given: npt.ArrayLike, truth: Truth, annotator: Ints, k: int
    ) -> "_People":
        true = [int(found.true[one]) for one in (entry, *back)]
        said = [int(found.given[one]) for one in (entry, *back)]
        near = np.flatnonzero(np.isin(truth.label, true))
        row, label, weight = truth.row[near], truth.label[near], truth.weight[near]
        other = np.asarray(said)[(label[:, None] == np.asarray(true)).argmax(1)]
        hit = weight * (np.asarray(given)[row] == other)
        names, who = np.unique(annotator[row], return_inverse=True)
        n, wrong = sums(who, weight, len(names)), sums(who, hit, len(names))
        asked = n >= MIN_ANSWERS
        usual = wrong.sum() / max(n.sum(), 1e-12)
        confusing = asked & (wrong >= max(0.5 * usual, 1e-9) * n)
        one = int(wrong.argmax())
        first = who == one
        mine, of_class = (float(part[first & (label == true[0])].sum()) for part in (hit, weight))
        count, per_class = found.count.copy(), found.per_class[found.true].copy()
        count[entry] -= mine
        per_class[entry] -= of_class
        largest = float(wrong[one] / max(wrong.sum(), 1e-12))
        others = bool(taken_for(count, per_class, found)[entry])
        mostly_one = len(names) > 1 and largest > MOST and not others
        return cls(int(asked.sum()), int(confusing.sum()), largest, mostly_one)
