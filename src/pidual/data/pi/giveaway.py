"""PI that gives the label away, or a column of x that does: a copy of the label, or something made from it.

Such PI explains every label, wrong ones too, so that a fit with it finds nothing wrong. The rule, for a column of
categories, and for one of numbers with few different values:

    values of too few rows do not count; the others must hold three quarters of the rows (missing ones count as a
    value, or do not count either),
    the most frequent label of its value is the label of 99.5% of these rows,
    so are 95% of the labels that the most frequent label of all is not (where 99% are "ok", "ok" alone is right often),
    and the chance that labels drawn at random match the values this well is below one in a million.

For any other column of numbers, the label of the row with the nearest other value takes the place of the most frequent
label. An annotator who gives one label only does not make a column of this kind, for the others differ; nor do a few
rows, or a column that matches the label in 95% of the rows.

A column of x that gives the label away is not refused: classes may truly follow from it. The verdict names it.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from ...errors.messages import quoted
from .. import AnnotationTable, Inputs
from . import PIColumn
from .kinds import is_moment, is_number, numbers

HELD = 0.75
DETERMINED = 0.995
BEYOND_COMMONEST = 0.95
CHANCE = 1e-6
MANY = 20  # different numbers, from which on neighbours count, unless there are as many classes
SAMPLE = 200_000  # rows, evenly spaced, of which neighbours are looked at
X_FEWEST, X_ROWS, X_COLUMNS = 30, 2_000, 4_096  # of x that are looked at
NAMED = 3  # columns


def check_giveaway(
    table: AnnotationTable, columns: Sequence[PIColumn], rows: NDArray[np.int64], items: NDArray[np.integer[Any]]
) -> None:
    """Raise a DataError for a PI column that determines the label in `rows`; warn if it says who gave the label.

    `items` are the codes of the items of all rows, one code for the same input. An annotator for every class may be how
    the labels were made, and not a slip.
    """
    labels = table.label_codes[rows]
    for column in columns:
        values = table.frame[column.name].iloc[rows]
        people = column.name == "annotator" or column.name in table.people
        codes = value_codes(column, values, len(table.classes))
        shares = [determined_share(codes, labels), determined_share(np.where(values.isna(), -1, codes), labels)]
        share, how = next((share for share in shares if share is not None), None), "its value has one label"
        if share is None and not people and (is_number(values) or is_moment(values)) and values.notna().mean() >= HELD:
            share, how = neighbour_share(numbers(values), labels, items[rows]), "the nearest value has the same label"
        if share is None:
            continue
        what = f"PI column '{column.name}' of {table.source} determines the label ({how} in {share:.1%} of the rows)"
        if people:
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


def neighbour_share(
    number: NDArray[np.floating[Any]],
    labels: NDArray[np.integer[Any]],
    item: NDArray[np.integer[Any]],
    *,
    ties: bool = False,
    least: float = DETERMINED,
    beyond: float = BEYOND_COMMONEST,
) -> float | None:
    """Share of rows that have the label of their neighbour, where it is that of so many; else None.

    Parameters
    ----------
    number, labels, item : arrays (N,)
        Values, given labels and codes of the items.
    ties : bool
        Whether a row with the same value counts as a neighbour; copies of rows have the same value.
    least, beyond : float
        Share of the rows that must have it, and of those whose label is not the most frequent one.
    """
    known = np.flatnonzero(np.isfinite(number))
    row, other = neighbours(number, item, known[:: max(1, len(known) // SAMPLE)], ties=ties)
    n, per_label = len(row), np.bincount(labels[row], minlength=1)
    differs, rare = labels[row] != labels[other], labels[row] != per_label.argmax()
    wrong = int(differs.sum())
    if not n or wrong > (1 - least) * n or differs[rare].sum() > (1 - beyond) * rare.sum():
        return None
    by_chance, same = float(np.square(per_label / n).sum()), 1 - wrong / n
    chance = same * np.log(by_chance / same) + (wrong / n * np.log((1 - by_chance) / (wrong / n)) if wrong else 0.0)
    return same if n / 2 * chance < np.log(CHANCE) else None  # two rows may be each other's neighbour


def neighbours(
    number: NDArray[np.floating[Any]], item: NDArray[np.integer[Any]], rows: NDArray[np.int64], *, ties: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those of the rows that have a neighbour, and it: the row of another item whose value is nearest."""
    order = rows[np.lexsort((np.random.default_rng(0).permutation(len(rows)), number[rows]))]
    value = number[order].astype(np.float64)
    first = ties | (np.diff(value, prepend=-np.inf) > 0)
    starts, block = np.flatnonzero(first), np.cumsum(first) - 1
    left, right = starts[block] - 1, np.r_[starts, len(order)][block + 1]
    gaps = np.full((2, len(order)), np.inf)
    for gap, beside in zip(gaps, (left, right), strict=True):
        there = np.flatnonzero((beside >= 0) & (beside < len(order)))
        there = there[item[order[there]] != item[order[beside[there]]]]
        gap[there] = np.abs(value[there] - value[beside[there]])
    near = np.where(gaps[1] < gaps[0], right, left)
    kept = np.flatnonzero(np.isfinite(gaps.min(0)))
    return order[kept], order[near[kept]]


def find_label_columns(inputs: Inputs, x_row: NDArray[np.int64], labels: NDArray[np.integer[Any]]) -> list[str]:
    """What to call columns of x that give the label away: one that does alone, or one of two values for every class.

    Parameters
    ----------
    inputs : Inputs
    x_row, labels : int arrays (N,)
        Row of x and given label of every item.
    """
    x = inputs.array
    if inputs.kind not in ("array", "columns") or len(x_row) < X_FEWEST:
        return []
    if not isinstance(x, np.ndarray) or x.ndim != 2:
        return []
    names = inputs.schema.get("columns", ())
    some = np.arange(0, len(x_row), max(1, len(x_row) // X_ROWS))
    labels, x = labels[some], np.asarray(x[x_row[some], :X_COLUMNS], np.float64)
    found = [at for at in range(x.shape[1]) if neighbour_share(x[:, at], labels, some, ties=True) is not None][:NAMED]
    if not found:
        high = x == x.max(0)
        two = np.flatnonzero((high | (x == x.min(0))).all(0))
        of_class = {}
        for code in np.unique(labels):
            differs = (high[:, two] != (labels == code)[:, None]).sum(0)
            off, n = np.minimum(differs, len(some) - differs), int((labels == code).sum())
            most = min((1 - DETERMINED) * len(some), (1 - BEYOND_COMMONEST) * min(n, len(some) - n))
            if len(two) and off.min() <= most:
                of_class[code] = int(two[off.argmin()])
        found = [*of_class.values()] if len(of_class) >= len(np.unique(labels)) - 1 > 1 else []
    return [quoted(names[at]) if len(names) == inputs.array.shape[1] else str(at) for at in found]
