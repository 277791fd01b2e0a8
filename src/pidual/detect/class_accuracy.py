"""How annotators do on items of each class, and the harm that does; small counts are shrunk towards the others'.

Harm is the number of wrong labels that the others would not have given to the same items. A mistake on a class counts
as many times as the class is rarer than the average one: to miss one fraud in fifty labels is to miss a fifth of what
the labels are for. Of what the data allow it is the lower end (one in twenty is lower), but not below 0, so that few
labels do not come first by chance.

    harm_a = sum_k v_k n_ak (p_ak - r_ak)  -  1.64 sqrt(sum_k v_k^2 n_ak^2 p_ak (1 - p_ak) / (n_ak + 3))

n: items of class k that a labelled; p: share of them that a mislabelled, shrunk; r: share the others did; v: weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..metrics import NORMAL_90
from ..run.predictions import Predictions, label_column
from .annotator_habits import MIN_ANSWERS
from .counts import Counts
from .intervals import CROWD_ANSWERS, beta_interval, shrunk_share, sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLASS_ANSWERS = 10.0  # a class is taken to have so many answers more than it has
LEAST_ITEMS = 1.0  # items of a class that an annotator must have labelled to be listed with it


@dataclass(frozen=True)
class ClassAccuracy:
    """How annotators did on items of each class: one entry for every annotator and class that meet.

    Parameters
    ----------
    who, label : int array (P,)
        Codes of annotator and true class.
    n, right : array (P,)
        Expected number of their labels of such items, and of right ones.
    others : array (P,)
        Share of right ones among all other annotators' labels of such items, shrunk towards that of all classes.
    """

    who: Ints
    label: Ints
    n: Floats
    right: Floats
    others: Floats

    @classmethod
    def of(cls, counts: Counts) -> "ClassAccuracy":
        """Compare the answers of each annotator on each class with those of all others."""
        own = counts.per("who", "true")
        n, right = own.totals("true")
        overall = own.right.sum() / max(own.n.sum(), 1e-12)
        return cls(own.who, own.true, own.n, own.right, shrunk_share(right - own.right, n - own.n, overall))

    @property
    def accuracy(self) -> Floats:
        """Share of right labels, shrunk towards that of the others."""
        return shrunk_share(self.right, self.n, self.others)

    def harm(self, size: int, n_classes: int) -> Floats:
        """Return the harm done by each of `size` annotators, at least 0."""
        per_class = sums(self.label, self.n, n_classes) + CLASS_ANSWERS
        weight = (per_class.mean() / per_class)[self.label]
        wrong = 1 - self.accuracy
        more = weight * self.n * (wrong - (1 - self.others))
        variance = (weight * self.n) ** 2 * wrong * (1 - wrong) / (self.n + CROWD_ANSWERS + 1)
        total, spread = (sums(self.who, part, size) for part in (more, variance))
        return np.maximum(total - NORMAL_90 * np.sqrt(spread), 0.0)

    def worst(self, size: int) -> tuple[Ints, Floats]:
        """Return the class that each annotator mislabels most often, -1 where there is none, and the accuracy on it."""
        kept = np.flatnonzero((self.n >= MIN_ANSWERS) & (self.n - self.right >= 1))
        accuracy = self.accuracy
        order = kept[np.lexsort((-self.n[kept], accuracy[kept], self.who[kept]))]
        people, first = np.unique(self.who[order], return_index=True)
        worst, on_it = np.full(size, -1, np.int64), np.full(size, np.nan)
        worst[people], on_it[people] = self.label[order[first]], accuracy[order[first]]
        return worst, on_it

    def table(self, names: Sequence[Any] | pd.Index, people: Sequence[Any], classes: Sequence[Any]) -> pd.DataFrame:
        """Return a row for each annotator and class of which a label is expected, annotators in the order of `people`.

        Parameters
        ----------
        names : sequence
            Annotators by their codes.
        people : sequence
            Annotators in the order of the table.
        classes : list
        """
        kept = np.flatnonzero(self.n >= LEAST_ITEMS)
        place = pd.Index(people).get_indexer(pd.Index(names))[self.who[kept]]
        order = kept[np.lexsort((self.label[kept], place))]
        low, high = beta_interval(self.right[order], self.n[order], self.others[order])
        numbers = {
            "num_items": self.n[order],
            "accuracy": self.accuracy[order],
            "accuracy_low": np.minimum(low, self.accuracy[order]),
            "accuracy_high": np.maximum(high, self.accuracy[order]),
            "others_accuracy": self.others[order],
        }
        columns: dict[str, Any] = {name: values.astype(np.float32) for name, values in numbers.items()}
        who = label_column(np.sort(place), list(people))
        return pd.DataFrame({"annotator": who, "true_class": label_column(self.label[order], classes)} | columns)


def describe_annotator_classes(
    predictions: Predictions, annotators: pd.DataFrame | None, counts: Counts | None = None
) -> pd.DataFrame | None:
    """Return how each annotator does on each true class; None where annotators are not known.

    Parameters
    ----------
    predictions, counts
        As for `describe_annotators`.
    annotators : DataFrame or None
        What that made of them: the order of the annotators.

    Returns
    -------
    DataFrame or None
        annotator; true_class; num_items, the expected number of items of that class that they labelled, at least 1;
        accuracy, begun with two labels of the others' accuracy, and accuracy_low and accuracy_high, its 95% interval;
        others_accuracy, of all other annotators on this class.
    """
    if predictions.annotator is None or annotators is None:
        return None
    found = ClassAccuracy.of(counts or Counts.of_predictions(predictions))
    names = predictions.frame["annotator"].cat.categories
    return found.table(names, annotators["annotator"].tolist(), predictions.classes)
