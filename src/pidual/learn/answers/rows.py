"""Encoded annotations as answers to items."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..batch import Rows, Spec
from .design import Design
from .model import Answers

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AnswerRows:
    """Annotations, and how their PI becomes columns."""

    rows: Rows  # items are numbered as in `rows.groups`
    design: Design
    n_classes: int

    @classmethod
    def fit(cls, rows: Rows, spec: Spec, learned: NDArray[np.bool_]) -> "AnswerRows":
        """Learn the scale of PI from some of the annotations."""
        numbers = rows.numbers.numpy()
        return cls(rows, Design.fit(spec.cardinalities, spec.annotator_column, numbers[learned]), spec.n_classes)

    def of(self, items: Ints, kept: NDArray[np.bool_] | None = None) -> tuple[Answers, Ints]:
        """Return the answers to these items, numbered in this order, and their positions among the rows.

        `kept` (N,) leaves out all other rows.
        """
        index_of, item_of = self.rows.groups.members(torch.from_numpy(np.asarray(items, np.int64)))
        index, item = index_of.numpy(), item_of.numpy()
        if kept is not None:
            index, item = index[kept[index]], item[kept[index]]
        vote, weight = np.arange(len(index)), self.rows.weight.numpy()[index].astype(np.float64)
        if self.rows.vote is not None:
            vote = np.unique(self.rows.vote.numpy()[index], return_inverse=True)[1]
            weight = weight / np.bincount(vote)[vote]
        answers = Answers.build(
            item,
            self.rows.y_noisy.numpy()[index],
            self.design,
            self.rows.codes.numpy()[index],
            self.rows.numbers.numpy()[index],
            n_items=len(items),
            n_classes=self.n_classes,
            weight=weight,
            vote=vote,
        )
        return answers, index

    def truth(self, items: Ints) -> Ints | None:
        """Return the class of these items where it is known, else -1; None where no class of any item is."""
        if self.rows.truth is None:
            return None
        return np.asarray(self.rows.truth.numpy()[self.first(items)])

    def first(self, items: Ints) -> Ints:
        """Return the position of the first row of each of these items."""
        return np.asarray(self.rows.groups.first(torch.from_numpy(np.asarray(items, np.int64))).numpy())
