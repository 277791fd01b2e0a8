"""One row per item: its consensus, how likely that is, and what else it may be.

The posterior q_i(k) is the probability that class k is the true one of item i, by its input and all answers to it;
`learn/answers/posterior.py` works it out for all methods. Its temperature is chosen so that answers that were left out
are likely, without any clean label. So it is as sure as the answers allow, and no
surer than they agree; where most people make the same mistake, it makes that mistake too, and is sure of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError
from ..run.predictions import Predictions, label_column

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ALL_CLASSES = 20  # up to so many, the posterior of every class is kept
TOP = 5  # classes that are kept of more
PART = 2**20  # annotations that are looked at at once
LEAST_LIKELY = 0.05  # classes that are less likely are not counted as what an item may be


@dataclass
class Posteriors:
    """What is kept of the posteriors of all items, which come a chunk at a time."""

    label: Ints  # (n,), code of the most likely class of every item
    quality: npt.NDArray[np.float32]  # (n,), its probability
    p: npt.NDArray[np.float32]  # (n, K) (n, 5), probability of every class, or of the five most likely ones
    top: npt.NDArray[np.int32] | None  # (n, 5), codes of these, most likely first; None where `p` has all classes
    votes: npt.NDArray[np.float32]  # (n,), votes that the answers to every item count as
    # (2, n), probability of the most likely class, at the least and at the most that may be stated
    stated: npt.NDArray[np.float32]

    @classmethod
    def empty(cls, n_items: int, n_classes: int) -> "Posteriors":
        """Make arrays to be filled, one entry per item."""
        few = n_classes <= ALL_CLASSES
        return cls(
            np.zeros(n_items, np.int64),
            np.zeros(n_items, np.float32),
            np.zeros((n_items, n_classes if few else TOP), np.float32),
            None if few else np.zeros((n_items, TOP), np.int32),
            np.zeros(n_items, np.float32),
            np.zeros((2, n_items), np.float32),
        )

    @classmethod
    def joined(cls, parts: Sequence["Posteriors"], order: Ints) -> "Posteriors":
        """Put the items of several together, in this order; all know their most likely classes."""
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts], axis=-1 if name == "stated" else 0)
            for name in vars(parts[0])
        }
        return cls(**{name: array[:, order] if name == "stated" else array[order] for name, array in joined.items()})

    def put(self, items: Ints, posterior: npt.NDArray[np.floating[Any]]) -> None:
        """Keep what is needed of some items.

        `items` (B,): which items.
        `posterior` (B, K).
        """
        label = posterior.argmax(1)
        self.label[items], self.quality[items] = label, posterior[np.arange(len(items)), label]
        if self.top is None:
            self.p[items] = posterior
        else:
            top = largest(posterior, TOP)
            self.top[items], self.p[items] = top, np.take_along_axis(posterior, top, 1)


def largest(p: npt.NDArray[np.floating[Any]], n: int) -> Ints:
    """Return the columns (B, n) of the n largest values of each row, largest first; of equal values the first column.

    Taking the maximum n times costs a tenth of sorting or partitioning rows of a thousand columns.
    """
    rows, left = np.arange(len(p)), p.copy()
    columns = np.empty((len(p), n), np.int64)
    for place in range(n):
        columns[:, place] = left.argmax(1)
        left[rows, columns[:, place]] = -np.inf
    return columns


@dataclass(frozen=True)
class Truth:
    """What the items of annotations may be: one entry for each annotation and likely class."""

    row: Ints  # (E,), position of the annotation
    label: Ints  # (E,), code of the class
    weight: Floats  # (E,), its probability

    @classmethod
    def by_consensus(cls, consensus: npt.ArrayLike, quality: npt.ArrayLike) -> "Truth":
        """Take the consensus of every annotation's item alone, counted by its probability."""
        label = np.asarray(consensus).astype(np.int64)
        return cls(np.arange(len(label)), label, np.asarray(quality, np.float64))

    @classmethod
    def by_posterior(cls, item: npt.ArrayLike, posteriors: Posteriors) -> "Truth":
        """Take every class that is likely enough, and the most likely one.

        `item` (N,): code of every annotation's item, by which the posteriors are ordered.
        """
        return next(cls.parts(item, posteriors, max(1, len(np.asarray(item)))))

    @classmethod
    def parts(cls, item: npt.ArrayLike, posteriors: Posteriors, size: int = PART) -> Iterator["Truth"]:
        """Yield the same of so many annotations at a time."""
        kept = posteriors.p >= LEAST_LIKELY
        kept[np.arange(len(kept)), posteriors.p.argmax(1)] = True
        number, place = np.nonzero(kept)
        label = place if posteriors.top is None else posteriors.top[number, place]
        weight, counts, every = posteriors.p[number, place], kept.sum(1), np.asarray(item)
        starts = np.cumsum(counts) - counts
        for first in range(0, max(1, len(every)), size):
            some = every[first : first + size].astype(np.int64)
            n = counts[some]
            row = np.repeat(np.arange(len(some)), n)
            entry = np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n) + starts[some][row]
            yield cls(row + first, label[entry].astype(np.int64), weight[entry].astype(np.float64))


def describe_items(predictions: Predictions, posteriors: Posteriors) -> pd.DataFrame:
    """Build a table with one row per item, in the order of their codes, which that of the posteriors is too.

    Returns
    -------
    pandas.DataFrame
        item; consensus_label, the most likely class by input and answers; consensus_quality, its probability, in
        [0, 1], high = surely this class; num_annotations; predicted_label, by the input alone; annotator_agreement, the
        share of the item's labels that say the consensus label; p_<class>, the probability of every class, or with more
        than 20 classes top_1 ... top_5 and top_1_probability ... top_5_probability.
    """
    code, given, classes = predictions.item.astype(np.int64), predictions.given, predictions.classes
    names = predictions.frame["item"].cat.categories
    n = np.bincount(code, minlength=len(names))
    if len(n) != len(posteriors.label) or not n.all():
        raise UsageError(f"{len(names):,} items need annotations, but only {np.count_nonzero(n):,} have one.")
    model = np.zeros(len(names), np.int64)
    model[code] = predictions.predicted
    columns: dict[str, Any] = {
        "item": names,
        "consensus_label": label_column(posteriors.label, classes),
        "consensus_quality": posteriors.quality,
        "num_annotations": n,
        "predicted_label": label_column(model, classes),
        "annotator_agreement": (np.bincount(code, weights=given == posteriors.label[code]) / n).astype(np.float32),
    }
    if posteriors.top is None:
        columns |= {f"p_{name}": posteriors.p[:, k] for k, name in enumerate(classes)}
    else:
        for place in range(posteriors.p.shape[1]):
            columns[f"top_{place + 1}"] = label_column(posteriors.top[:, place], classes)
            columns[f"top_{place + 1}_probability"] = posteriors.p[:, place]
    return pd.DataFrame(columns)
