"""How annotators do on items of each class and the harm that does, and how the crowd mistakes classes for each other.

Small counts of an annotator are shrunk towards the others'. Harm is the number of wrong labels that the others would
not have given to the same items. A mistake on a class counts as many times as the class is rarer than the average one:
to miss one fraud in fifty labels is to miss a fifth of what the labels are for. Of what the data allow it is the lower
end (one in twenty is lower), but not below 0, so that few labels do not come first by chance.

    harm_a = sum_k v_k n_ak (p_ak - r_ak)  -  1.64 sqrt(sum_k v_k^2 n_ak^2 p_ak (1 - p_ak) / (n_ak + 3))

n: items of class k that a labelled; p: share of them that a mislabelled, shrunk; r: share the others did; v: weight.
The whole crowd labels class k as j with the probability

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
import pandas as pd

from ..data.pi.encoder import short_name
from ..metrics import NORMAL_90
from ..run.predictions import Predictions, label_column
from ..run.records.summary import Classes, ConfusedPair
from .counts import CHANCE, CROWD_ANSWERS, Counts, beta_interval, chance_excess, shrunk_share, sums
from .items import ALL_CLASSES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLASS_ANSWERS = 10.0  # a class is taken to have so many answers more than it has
MIN_ANSWERS = 5  # an annotator must have given to a class, or to items of it, before anything is said about it
LEAST_ITEMS = 1.0  # items of a class that an annotator must have labelled to be listed with it


@dataclass(frozen=True)
class ClassAccuracy:
    """How annotators did on items of each class."""

    own: Counts  # a cell for every annotator and class that meet
    # (C,), share of right ones among all other annotators' labels of such items, shrunk towards that of all classes
    others: Floats

    @classmethod
    def of(cls, counts: Counts) -> "ClassAccuracy":
        """Compare the answers of each annotator on each class with those of all others."""
        own = counts.per("who", "true")
        n, right = own.totals("true")
        overall = own.right.sum() / max(own.n.sum(), 1e-12)
        return cls(own, shrunk_share(right - own.right, n - own.n, overall))

    @property
    def accuracy(self) -> Floats:
        """Share of right labels, shrunk towards that of the others."""
        return shrunk_share(self.own.right, self.own.n, self.others)

    def harm(self, size: int, n_classes: int) -> Floats:
        """Return the harm done by each of `size` annotators, at least 0."""
        n, per_class = self.own.n, sums(self.own.true, self.own.n, n_classes) + CLASS_ANSWERS
        weight = (per_class.mean() / per_class)[self.own.true]
        wrong = 1 - self.accuracy
        more = weight * n * (wrong - (1 - self.others))
        variance = (weight * n) ** 2 * wrong * (1 - wrong) / (n + CROWD_ANSWERS + 1)
        total, spread = (sums(self.own.who, part, size) for part in (more, variance))
        return np.maximum(total - NORMAL_90 * np.sqrt(spread), 0.0)

    def worst(self, size: int) -> tuple[Ints, Floats]:
        """Return the class that each annotator mislabels most often, -1 where there is none, and the accuracy on it."""
        own, accuracy = self.own, self.accuracy
        kept = np.flatnonzero((own.n >= MIN_ANSWERS) & (own.n - own.right >= 1))
        order = kept[np.lexsort((-own.n[kept], accuracy[kept], own.who[kept]))]
        people, first = np.unique(own.who[order], return_index=True)
        worst, on_it = np.full(size, -1, np.int64), np.full(size, np.nan)
        worst[people], on_it[people] = own.true[order[first]], accuracy[order[first]]
        return worst, on_it


def describe_annotator_classes(
    predictions: Predictions, annotators: pd.DataFrame | None, counts: Counts | None = None
) -> pd.DataFrame | None:
    """Build the table of `ANNOTATOR_CLASSES_COLUMNS`; None where annotators are not known.

    It has a row for each annotator and class of which a label is expected, in the order of `annotators`, the table that
    `describe_annotators` made of the same predictions and counts.
    """
    if predictions.annotator is None or annotators is None:
        return None
    found = ClassAccuracy.of(counts or Counts.of_predictions(predictions))
    own, people = found.own, annotators["annotator"].tolist()
    kept = np.flatnonzero(own.n >= LEAST_ITEMS)
    place = pd.Index(people).get_indexer(predictions.frame["annotator"].cat.categories)[own.who[kept]]
    order = kept[np.lexsort((own.true[kept], place))]
    accuracy, others = found.accuracy[order], found.others[order]
    low, high = beta_interval(own.right[order], own.n[order], others)
    return pd.DataFrame(
        {
            "annotator": label_column(np.sort(place), people),
            "true_class": label_column(own.true[order], predictions.classes),
            "num_items": own.n[order].astype(np.float32),
            "accuracy": accuracy.astype(np.float32),
            "accuracy_low": np.minimum(low, accuracy).astype(np.float32),
            "accuracy_high": np.maximum(high, accuracy).astype(np.float32),
            "others_accuracy": others.astype(np.float32),
        }
    )


SHOWN_PAIRS = 50
ADVISED_PAIRS = 20  # most frequent pairs about which there may be advice
MIN_SHARE = 0.05
TIMES_USUAL = 2.0
MOST = 0.5


def describe_classes(counts: Counts, classes: Sequence[Any], *, people: bool) -> Classes:
    """Describe how the crowd labels the classes.

    `people`: whether annotators are known.
    """
    found, names = counts.per("true", "given"), [str(name) for name in classes]
    of_class = found.by_class()[0]
    share = found.n / np.maximum(of_class[found.true], 1e-12)
    wrong = np.flatnonzero(found.is_wrong)
    wrong = wrong[np.argsort(-found.n[wrong], kind="stable")]
    shown = zip(
        *(part[wrong[:SHOWN_PAIRS]].tolist() for part in (found.true, found.given, found.n, share)), strict=True
    )
    pairs = [ConfusedPair(names[true], names[given], n, part) for true, given, n, part in shown]
    advice = _advice(found, share, wrong[:ADVISED_PAIRS].tolist(), counts if people else None, classes)
    matrix = found.matrix() / np.maximum(of_class, 1e-12)[:, None]
    return Classes(names, pairs, advice, matrix.tolist() if len(classes) <= ALL_CLASSES else None)


def find_mistaken(found: Counts) -> npt.NDArray[np.bool_]:
    """Return which cells of true and given class are mistakes more frequent than usual, and than chance explains."""
    wrong, k, (of_class, _) = found.is_wrong, found.n_classes, found.totals("true")
    usual = TIMES_USUAL * found.n[wrong].sum() / max(found.n.sum(), 1e-12) / (k - 1) if k > 2 else 0.0
    return np.asarray(wrong & (found.n > _most_by_chance(of_class, max(MIN_SHARE, usual), _tests(found))))


def _tests(found: Counts) -> int:
    """Return how many mistakes are possible: classes that occur, times the other ones."""
    return max(int(np.count_nonzero(found.by_class()[0] > 0)) * (found.n_classes - 1), 1)


def _most_by_chance(n: npt.ArrayLike, share: float, tests: int) -> Floats:
    """Return the largest number out of n that a share explains, for so many of them together."""
    n = np.asarray(n, np.float64)
    return np.asarray(share * n + chance_excess(n * share * (1 - min(share, 1.0)), CHANCE / tests))


def _advice(found: Counts, share: Floats, cells: list[int], counts: Counts | None, classes: Sequence[Any]) -> list[str]:
    """Return what to do about classes that are confused in these cells, a sentence for each two of them."""
    mistaken, advice, done = find_mistaken(found), [], set()
    for cell in cells:
        pair = frozenset((int(found.true[cell]), int(found.given[cell])))
        if not mistaken[cell] or pair in done:
            continue
        done.add(pair)
        back = np.flatnonzero((found.true == found.given[cell]) & (found.given == found.true[cell]))
        both = bool(len(back)) and bool(mistaken[back[0]])
        first, second = (short_name(classes[int(one[cell])]) for one in (found.true, found.given))
        by = ""
        if counts is not None:
            one, many = _who_confuses(found, [cell, *back.tolist()] if both else [cell], counts)
            if one is not None:
                largest, own, others = one
                advice.append(
                    f"{largest:.0%} of the answers that take {first} for {second}{' or the reverse' * both} come from "
                    f"one annotator, who does so in {own:.0%} of the cases, the others in {others:.0%}: look at that "
                    "annotator first."
                )
                continue
            if many is None:
                continue
            confusing, asked = many
            by = f", by {confusing} of {asked} annotators"
        labelled = f"{share[cell]:.0%} of {first} are labelled {second}"
        if both:
            merge = "merge them, or " if found.n_classes > 2 else ""
            advice.append(
                f"{first} and {second} are confused both ways ({labelled}, {share[back[0]]:.0%} of {second} are "
                f"labelled {first}{by}): {merge}define better what tells them apart."
            )
        else:
            advice.append(f"{labelled}{by}, and hardly ever the reverse: define {first} better, with examples.")
    return advice


def _who_confuses(
    found: Counts, cells: list[int], counts: Counts
) -> tuple[tuple[float, float, float] | None, tuple[int, int] | None]:
    """Return whether one annotator makes the mistakes of these cells, and whether most annotators do.

    One makes most of them, more than twice as often as the others, beyond chance: the share of the mistakes, and of the
    answers of this one and of the others. Most make them at least half as often as all do: how many, and of how many
    with `MIN_ANSWERS` items of these classes.
    """
    true, said = found.true[cells], found.given[cells]
    near = np.flatnonzero(np.isin(counts.true, true))
    other = said[(counts.true[near][:, None] == true).argmax(1)]
    names, who = np.unique(counts.who[near], return_inverse=True)
    n = sums(who, counts.n[near], len(names))
    wrong = sums(who, counts.n[near] * (counts.given[near] == other), len(names))
    worst = int(wrong.argmax())
    rest = n.sum() - n[worst]
    largest, own = float(wrong[worst] / max(wrong.sum(), 1e-12)), float(wrong[worst] / max(n[worst], 1e-12))
    others = float((wrong.sum() - wrong[worst]) / max(rest, 1e-12))
    usual = min(max(MIN_SHARE, TIMES_USUAL * others), 1.0)
    beyond = bool(wrong[worst] > _most_by_chance(n[worst], usual, _tests(found) * len(names)))
    asked = n >= MIN_ANSWERS
    n_asked = int(asked.sum())
    confusing = int((asked & (wrong >= max(0.5 * wrong.sum() / max(n.sum(), 1e-12), 1e-9) * n)).sum())
    return (
        (largest, own, others) if rest >= MIN_ANSWERS and largest > MOST and beyond else None,
        (confusing, n_asked) if confusing > MOST * n_asked else None,
    )
