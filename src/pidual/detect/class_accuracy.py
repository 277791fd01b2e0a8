"""How annotators do on items of each class, and the harm that does; small counts are shrunk towards the others'.

Harm is the number of wrong labels that the others would not have given to the same items. A mistake on a class counts
as many times as the class is rarer than the average one: to miss one fraud in fifty labels is to miss a fifth of what
the labels are for. Of what the data allow it is the lower end (one in twenty is lower), but not below 0, so that few
labels do not come first by chance.

    harm_a = sum_k v_k n_ak (p_ak - r_ak)  -  1.64 sqrt(sum_k v_k^2 n_ak^2 p_ak (1 - p_ak) / (n_ak + 3))

n: items of class k that a labelled; p: share of them that a mislabelled, shrunk; r: share the others did; v: weight.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..metrics import NORMAL_90
from ..run.predictions import Predictions, label_column
from .counts import CROWD_ANSWERS, Counts, beta_interval, shrunk_share, sums

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
