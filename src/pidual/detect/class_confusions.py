"""How the crowd labels each class: P(given | true), and classes that should be merged or defined better.

    P(j | k) = sum over answers of q_i(k) [given = j]  /  sum over answers of q_i(k)

A class is *mistaken for* another where that happens in more than `MIN_SHARE` of the cases, and in more than twice as
many as with any two classes on average, both beyond chance (Bernstein's bound, for all pairs together). Two classes
that are mistaken for each other by most annotators are hard to tell apart: merge them, or define them better. One that
is mistaken for the other, and hardly ever the reverse, needs a better definition. Where most of it is the doing of one
annotator, who confuses the classes more than twice as often as the others, beyond chance, look at that annotator first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.pi.kinds import short_name
from ..run.records.summary import Classes, ConfusedPair
from .annotator_habits import MIN_ANSWERS
from .counts import Counts
from .intervals import CHANCE, chance_excess, sums
from .items import ALL_CLASSES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHOWN_PAIRS = 50
ADVISED_PAIRS = 20  # most frequent pairs about which there may be advice
MIN_SHARE = 0.05
TIMES_USUAL = 2.0
MOST = 0.5


@dataclass(frozen=True)
class Transitions:
    """Expected numbers of answers by true and given class: one entry for each two classes that meet."""

    true: Ints
    given: Ints
    count: Floats
    per_class: Floats  # (K,) answers to items of each class

    @classmethod
    def of(cls, counts: Counts) -> "Transitions":
        """Sum over annotators."""
        found = counts.per("true", "given")
        return cls(found.true, found.given, found.n, found.by_class()[0])

    @property
    def share(self) -> Floats:
        """P(given | true) of every entry."""
        return np.asarray(self.count / np.maximum(self.per_class[self.true], 1e-12))

    @property
    def pairs(self) -> int:
        """How many wrong answers are possible: classes that occur, times the other ones."""
        return max(int(np.count_nonzero(self.per_class > 0)) * (len(self.per_class) - 1), 1)

    def matrix(self) -> Floats:
        """Return P(given | true) as (K, K); a class that no item has gets a row of zeros."""
        k = len(self.per_class)
        return sums(self.true * k + self.given, self.share, k * k).reshape(k, k)

    def confusions(self) -> Ints:
        """Return the entries of wrong answers, most frequent first."""
        wrong = np.flatnonzero(self.true != self.given)
        return wrong[np.argsort(-self.count[wrong], kind="stable")]


def describe_classes(counts: Counts, classes: Sequence[Any], *, people: bool) -> Classes:
    """Describe how the crowd labels the classes.

    Parameters
    ----------
    counts : Counts
    classes : list
    people : bool
        Whether annotators are known.
    """
    found = Transitions.of(counts)
    shown = found.confusions()[:SHOWN_PAIRS]
    pairs = [
        ConfusedPair(str(classes[true]), str(classes[said]), count, share)
        for true, said, count, share in zip(
            *(part[shown].tolist() for part in (found.true, found.given, found.count, found.share)), strict=True
        )
    ]
    advice = find_advice(found, counts if people else None, classes)
    transitions = found.matrix().tolist() if len(classes) <= ALL_CLASSES else None
    return Classes([str(name) for name in classes], pairs, advice, transitions)


def find_advice(found: Transitions, counts: Counts | None, classes: Sequence[Any]) -> list[str]:
    """Return what to do about classes that are confused, a sentence each, the most frequent ones first.

    `counts` are by annotator, None where these are not known.
    """
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
        if counts is not None:
            people = _People.of(found, [entry, *back.tolist()] if both else [entry], counts)
            if people.mostly_one:
                advice.append(
                    f"{people.largest:.0%} of the answers that take {first} for {second}{' or the reverse' * both} "
                    f"come from one annotator, who does so in {people.own:.0%} of the cases, the others in "
                    f"{people.others:.0%}: look at that annotator first."
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
    """Return which counts of wrong answers, of n each, are more than usual and more than chance explains.

    Parameters
    ----------
    count, n : array (E,)
        Wrong answers of each entry of `found`, and answers to items of its true class.
    """
    wrong, k = found.true != found.given, len(found.per_class)
    usual = TIMES_USUAL * found.count[wrong].sum() / max(found.per_class.sum(), 1e-12) / (k - 1) if k > 2 else 0.0
    least = max(MIN_SHARE, usual)
    return np.asarray(wrong & (count > most_by_chance(n, least, found.pairs)))


def most_by_chance(n: npt.ArrayLike, share: float, tests: int) -> Floats:
    """Return the largest number out of n that a share explains, for so many of them together."""
    n = np.asarray(n, np.float64)
    return np.asarray(share * n + chance_excess(n * share * (1 - min(share, 1.0)), CHANCE / tests))


@dataclass(frozen=True)
class _People:
    """Who confuses two classes."""

    asked: int  # annotators with MIN_ANSWERS items of the true class, or of both
    confusing: int  # of these, how many confuse them at least half as often as all do
    largest: float  # share of the confusions that one annotator makes
    own: float  # share of that annotator's answers that do so
    others: float  # and of all others'
    mostly_one: bool  # and one annotator makes most of them, more than twice as often as the others, beyond chance

    @property
    def most(self) -> bool:
        return self.confusing > MOST * self.asked

    @classmethod
    def of(cls, found: Transitions, entries: list[int], counts: Counts) -> "_People":
        true, said = found.true[entries], found.given[entries]
        near = np.flatnonzero(np.isin(counts.true, true))
        other = said[(counts.true[near][:, None] == true).argmax(1)]
        names, who = np.unique(counts.who[near], return_inverse=True)
        n = sums(who, counts.n[near], len(names))
        wrong = sums(who, counts.n[near] * (counts.given[near] == other), len(names))
        asked = n >= MIN_ANSWERS
        confusing = asked & (wrong >= max(0.5 * wrong.sum() / max(n.sum(), 1e-12), 1e-9) * n)
        one = int(wrong.argmax())
        largest = float(wrong[one] / max(wrong.sum(), 1e-12))
        rest = n.sum() - n[one]
        others = float((wrong.sum() - wrong[one]) / max(rest, 1e-12))
        usual = min(max(MIN_SHARE, TIMES_USUAL * others), 1.0)
        more = bool(wrong[one] > most_by_chance(n[one], usual, found.pairs * len(names)))
        mostly_one = rest >= MIN_ANSWERS and largest > MOST and more
        own = float(wrong[one] / max(n[one], 1e-12))
        return cls(int(asked.sum()), int(confusing.sum()), largest, own, others, mostly_one)
