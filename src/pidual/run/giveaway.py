"""PI that gives the label away: a copy of the label, or something made from it.

Such a column explains every label, wrong ones too, so that a fit with it finds nothing wrong. The rule, for a column of
categories, and for one of numbers with few different values:

    values of too few rows do not count; the others must hold three quarters of the rows (missing ones count as a
    value, or do not count either),
    the most frequent label of its value is the label of 99.5% of these rows,
    so are 95% of the labels that the most frequent label of all is not (where 99% are "ok", "ok" alone is right often),
    and the chance that labels drawn at random match the values this well is below one in a million.

An annotator who gives one label only does not make a column of this kind, for the others differ; nor do a few rows, a
column that matches the label in 95% of the rows, or a score with a value of its own in every row.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data import AnnotationTable
from ..encode import PIColumn
from ..errors import DataError, DataWarning

HELD = 0.75
DETERMINED = 0.995
BEYOND_COMMONEST = 0.95
CHANCE = 1e-6
MANY = 20  # different numbers, from which on a column of numbers is looked at only if there are as many classes


def check_giveaway(table: AnnotationTable, columns: Sequence[PIColumn], rows: NDArray[np.int64]) -> None:
    """Raise a DataError for a PI column that determines the label in `rows`; warn if it says who gave the label.

    An annotator for every class may be how the labels were made, and not a slip.
    """
    labels = table.label_codes[rows]
    for column in columns:
        values = table.frame[column.name].iloc[rows]
        codes = value_codes(column, values, len(table.classes))
        shares = [determined_share(codes, labels), determined_share(np.where(values.isna(), -1, codes), labels)]
        share = next((share for share in shares if share is not None), None)
        if share is None:
            continue
        what = f"PI column '{column.name}' of {table.source} determines the label (its value has one label in "
        what += f"{share:.1%} of the rows)"
        if column.name == "annotator" or column.name in table.people:
            warnings.warn(
                f"{what}: everybody gives one label only, so who gave a label says nothing about "
                "whether it is wrong; leave it out of the PI (--pi) unless you want that.",
                DataWarning,
                stacklevel=3,
            )
        else:
            raise DataError(
                f"{what}, so it would explain every label, wrong ones too; leave it out of the PI (pi=, --pi), which "
                "is what is known about how a label was made and not what the label is."
            )


def value_codes(column: PIColumn, values: pd.Series, n_classes: int) -> NDArray[np.int64]:
    """The number of the value of every row, a missing one included; -1 where it is rare, or one of many numbers."""
    if column.kind == "category":
        codes = column.codes(values).astype(np.int64)
        return np.where(codes == len(column.categories), -1, codes) if column.other else codes
    numbers, found = pd.factorize(values, use_na_sentinel=False)
    few = len(found) <= max(MANY, 2 * n_classes)
    return np.asarray(numbers, np.int64) if few else np.full(len(values), -1)


def determined_share(codes: NDArray[np.int64], labels: NDArray[np.integer[Any]]) -> float | None:
    """Share of rows whose label is that of their value, where the value determines the label; else None."""
    held = codes >= 0
    if held.mean() < HELD:
        return None
    codes, labels = codes[held], labels[held].astype(np.int64)
    n, per_label = len(codes), np.bincount(labels)
    together = pd.Series(codes * len(per_label) + labels).value_counts()  # a matrix of values and labels may be huge
    commonest = np.zeros(int(codes.max()) + 1, np.int64)  # rows of the most frequent label of each value
    np.maximum.at(commonest, together.index.to_numpy() // len(per_label), together.to_numpy())
    wrong = n - int(commonest.sum())
    if wrong > (1 - DETERMINED) * n or wrong > (1 - BEYOND_COMMONEST) * (n - int(per_label.max())):
        return None
    share = np.log(per_label[per_label > 0] / n)
    sizes, times = np.unique(commonest, return_counts=True)
    chance = sum(float(np.logaddexp.reduce(size * share)) * count for size, count in zip(sizes, times, strict=True))
    return 1 - wrong / n if chance < np.log(CHANCE) else None
