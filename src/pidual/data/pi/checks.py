"""Checks of PI before training: columns that cannot help, that do harm, or that give the label away.

    constant    one value in every row
    missing     nothing in most rows
    leaks       gives the label away, and so explains wrong labels as well as right ones
    unique      another value in every row: it can point to single rows, and have their labels memorised
    sentinel    a value that stands for none, such as -1, 999 or 1970-01-01, among real ones

A column that determines the label is refused, as a fit with it finds nothing wrong. The rule, for a column of
categories, and for one of numbers with few different values:

    values of too few rows do not count; the others must hold three quarters of the rows (missing ones count as a
    value, or do not count either),
    the most frequent label of its value is the label of 99.5% of these rows,
    so are 95% of the labels that the most frequent label of all is not (where 99% are "ok", "ok" alone is right often),
    and the chance that labels drawn at random match the values this well is below one in a million.

For any other column of numbers, the label of the row with the nearest other value takes the place of the most frequent
label; numbers that nearly determine the label, by a weaker form of this rule, are warned of. An annotator who gives one
label only does not make a column of this kind, for the others differ; nor do a few rows, or a column that matches the
label in 95% of the rows. A column of x that gives the label away is not refused: classes may truly follow from it. The
verdict names it (`find_label_columns`).
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from ...errors.messages import printable, quoted
from ...files import release
from .. import AnnotationTable, Inputs
from .encoder import ORDER, PIColumn, is_moment, is_number, numbers, value_text, words

_HELD = 0.75
_DETERMINED, _BEYOND_COMMONEST = (
    0.995,
    0.95,
)  # least shares: of the rows, and of those of other than the commonest label
_NEARLY, _NEARLY_BEYOND = 0.98, 0.9  # the same of numbers that are warned of
_CHANCE = 1e-6
_MANY = 20  # different numbers, from which on neighbours count, unless there are as many classes
_SAMPLE = 200_000  # rows, evenly spaced, of which neighbours are looked at
_X_FEWEST, _X_ROWS, _X_COLUMNS = 30, 2_000, 4_096  # of x that are looked at
_NAMED = 3  # columns
_MOSTLY = 0.5  # share of missing values
_FEWEST = 50  # rows that show an id, or a sentinel
_SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
_MOMENTS = tuple(pd.Timestamp(day).timestamp() for day in ("1970-01-01", "1900-01-01", "2099-12-31"))
_OFTEN = 5  # rows with a sentinel, at least
_FAR = 2.0  # times as far as nearly all other values
_DAY = 86400.0

Codes = NDArray[np.integer[Any]]


class Problem(NamedTuple):
    """What is wrong with a PI column: the kind, and a sentence."""

    column: str
    problem: str
    text: str


def check_pi(
    table: AnnotationTable, columns: Sequence[PIColumn], rows: NDArray[np.int64], items: Codes, *, used: bool = True
) -> tuple[list[Problem], list[str]]:
    """Find what is wrong with the PI columns of a table; raise for one that determines the label, if PI is used.

    If it determines who gave the label, there is a warning instead: an annotator for every class may be how the labels
    were made.

    `columns`: those that the encoder has not left out.
    `rows`: the rows to look at.
    `items` (N,): codes of the items: one for items with the same input.
    `used`: whether the fit uses PI.

    Returns
    -------
    list of Problem, list of str
        All problems, and the sentences of those that nobody has warned of yet.
    """
    encoded = {column.name: column for column in columns}
    labels = table.label_codes[rows]
    if used:
        for column in columns:
            _refuse_giveaway(table, column, table.frame[column.name].iloc[rows], labels, items[rows])
    found, warned = list[Problem](), set[Problem]()
    for name in table.pi_columns:
        values = table.frame[name].iloc[rows]

        def problem(kind: str, text: str, name: str = name) -> Problem:
            return Problem(name, kind, f"PI column '{printable(name)}' {text}")

        if name not in encoded:
            found.append(problem(*_why_left_out(values)))
            warned.add(found[-1])
            continue
        if (missing := float(values.isna().mean())) > _MOSTLY:
            text = f"is missing in {missing:.0%} of the rows; its effect is estimated from few rows."
            found.append(problem("missing", text))
        if name != "annotator" and name not in table.people:
            found += [problem(*each) for each in _problems(name, values, labels, items[rows])]
        elif determined_share(_value_codes(encoded[name], values, len(table.classes)), labels) is not None:
            found.append(problem("leaks", "determines the label: everybody gives one label only."))
            warned.add(found[-1])
    return found, [one.text for one in found if one not in warned]


def _refuse_giveaway(
    table: AnnotationTable, column: PIColumn, values: "pd.Series[Any]", labels: Codes, items: Codes
) -> None:
    """Raise for a PI column that determines the label; warn of one that says who gave it."""
    people = column.name == "annotator" or column.name in table.people
    codes = _value_codes(column, values, len(table.classes))
    shares = [determined_share(codes, labels), determined_share(np.where(values.isna(), -1, codes), labels)]
    share, how = next((share for share in shares if share is not None), None), "its value has one label"
    if share is None and not people and (is_number(values) or is_moment(values)) and values.notna().mean() >= _HELD:
        share, how = neighbour_share(numbers(values), labels, items), "the nearest value has the same label"
    if share is None:
        return
    what = f"PI column '{column.name}' of {table.source} determines the label ({how} in {share:.1%} of the rows)"
    if not people:
        raise DataError(
            f"{what}, so it would explain every label, wrong ones too; leave it out of the PI (pi=, --pi), which "
            "is what is known about how a label was made and not what the label is."
        )
    warnings.warn(
        f"{what}: everybody gives one label only, so who gave a label says nothing about whether it is wrong; leave it "
        "out of the PI (--pi) unless you want that.",
        DataWarning,
        stacklevel=4,
    )


def _why_left_out(values: "pd.Series[Any]") -> tuple[str, str]:
    """Return why the encoder has left a column out, which it has warned of."""
    if values.isna().all():
        return "missing", "is empty in every row and is left out."
    if (values == values.iloc[0]).all():
        return "constant", "has the same value in every row and is left out."
    if is_number(values):
        return "constant", "has numbers so large that their differences are lost and is left out."
    return "unique", "has no value that enough rows share and is left out."


def _problems(name: str, values: "pd.Series[Any]", labels: Codes, items: Codes) -> list[tuple[str, str]]:
    """Return what is wrong with a column of numbers or moments that is used."""
    if not is_number(values) and not is_moment(values):
        return []
    number, found = numbers(values), []
    share = neighbour_share(number, labels, items, ties=True, least=_NEARLY, beyond=_NEARLY_BEYOND)
    if share is not None:
        text = f"gives the label away: rows with the next value have the same label in {share:.1%}. "
        found.append(
            (
                "leaks",
                text + "It explains wrong labels as well as right ones; leave it out of the PI unless you want that.",
            )
        )
    if is_row_id(values, number) and not {*words(name)} & ORDER:
        found.append(
            ("unique", "has a different whole number in every row, like an id: it does not say how the label was made.")
        )
    if (sentinel := find_sentinel(number, moment=is_moment(values))) is not None:
        value, n = sentinel
        shown = value_text(pd.Timestamp(value, unit="s")) if is_moment(values) else f"{value:.0f}"
        text = (
            f"has the value {shown} in {n:,} rows, outside all others: if it stands for a missing one, leave it empty."
        )
        found.append(("sentinel", text))
    return found


def is_row_id(values: "pd.Series[Any]", number: NDArray[np.float64]) -> bool:
    """Return whether a column of whole numbers has another one in every row."""
    if is_moment(values) or len(number) < _FEWEST or not np.isfinite(number).all():
        return False
    some = number[:_SAMPLE]
    if len(np.unique(some)) < len(some) or not (number == np.rint(number)).all():
        return False
    return len(np.unique(number)) == len(number)


def find_sentinel(number: NDArray[np.float64], *, moment: bool) -> tuple[float, int] | None:
    """Find a value that stands for none, and in how many rows; None where there is none.

    It is one of the usual ones, the lowest or the highest, in some rows, and lies far outside the others; -1 need only
    be the one value below 0.
    """
    number = number[np.isfinite(number)]
    for value in _MOMENTS if moment else _SENTINELS:
        is_it = np.abs(number - value) < _DAY if moment else number == value
        n, rest = int(np.count_nonzero(is_it)), number[~is_it]
        if n < (1 if moment else _OFTEN) or len(rest) < _FEWEST:
            continue
        lowest, middle, highest = np.quantile(rest, [0.01, 0.5, 0.99])
        reach = _FAR * max(highest - middle if value > middle else middle - lowest, 1e-9)
        outside = value < rest.min() or value > rest.max()
        if outside and (abs(value - middle) > reach or (value == -1 and rest.min() >= 0)):
            return (float(np.median(number[is_it])), n)
    return None


def _value_codes(column: PIColumn, values: pd.Series, n_classes: int) -> NDArray[np.int64]:
    """Return the number of the value of every row, also a missing one; -1 where it is rare, or one of many numbers."""
    if column.kind == "category":
        codes = column.codes(values).astype(np.int64)
        return np.where(codes == len(column.categories), -1, codes) if column.other else codes
    numbers, found = pd.factorize(values, use_na_sentinel=False)
    few = len(found) <= max(_MANY, 2 * n_classes)
    return np.asarray(numbers, np.int64) if few else np.full(len(values), -1)


def determined_share(codes: NDArray[np.int64], labels: Codes) -> float | None:
    """Return the share of rows whose label is that of their value, where the value determines the label; else None."""
    held = codes >= 0
    if held.mean() < _HELD:
        return None
    codes, labels = codes[held], labels[held].astype(np.int64)
    n, per_label = len(codes), np.bincount(labels)
    together = pd.Series(codes * len(per_label) + labels).value_counts()  # a matrix of values and labels may be huge
    commonest = np.zeros(int(codes.max()) + 1, np.int64)  # rows of the most frequent label of each value
    np.maximum.at(commonest, together.index.to_numpy() // len(per_label), together.to_numpy())
    wrong = n - int(commonest.sum())
    if wrong > (1 - _DETERMINED) * n or wrong > (1 - _BEYOND_COMMONEST) * (n - int(per_label.max())):
        return None
    share = np.log(per_label[per_label > 0] / n)
    sizes, times = np.unique(commonest, return_counts=True)
    chance = sum(float(np.logaddexp.reduce(size * share)) * count for size, count in zip(sizes, times, strict=True))
    return 1 - wrong / n if chance < np.log(_CHANCE) else None


def neighbour_share(
    number: NDArray[np.floating[Any]],
    labels: Codes,
    item: Codes,
    *,
    ties: bool = False,
    least: float = _DETERMINED,
    beyond: float = _BEYOND_COMMONEST,
) -> float | None:
    """Return the share of rows that have the label of their neighbour, where it is that of so many; else None.

    `number`, `labels`, `item` (N,): values, given labels and codes of the items.
    `ties`: whether a row with the same value counts as a neighbour; copies of rows have the same value.
    `least`, `beyond`: share of the rows that must have it, and of those whose label is not the most frequent one.
    """
    known = np.flatnonzero(np.isfinite(number))
    row, other = neighbours(number, item, known[:: max(1, len(known) // _SAMPLE)], ties=ties)
    n, per_label = len(row), np.bincount(labels[row], minlength=1)
    differs, rare = labels[row] != labels[other], labels[row] != per_label.argmax()
    wrong = int(differs.sum())
    if not n or wrong > (1 - least) * n or differs[rare].sum() > (1 - beyond) * rare.sum():
        return None
    by_chance, same = float(np.square(per_label / n).sum()), 1 - wrong / n
    chance = same * np.log(by_chance / same) + (wrong / n * np.log((1 - by_chance) / (wrong / n)) if wrong else 0.0)
    return same if n / 2 * chance < np.log(_CHANCE) else None  # two rows may be each other's neighbour


def neighbours(
    number: NDArray[np.floating[Any]], item: Codes, rows: NDArray[np.int64], *, ties: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return those of the rows that have a neighbour, and it: the row of another item whose value is nearest."""
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


def find_label_columns(inputs: Inputs, x_row: NDArray[np.int64], labels: Codes) -> list[str]:
    """Name columns of x that give the label away: one that does alone, or one of two values for every class.

    `x_row`, `labels` (N,): row of x and given label of every item.
    """
    x = inputs.array
    if inputs.kind not in ("array", "columns") or len(x_row) < _X_FEWEST:
        return []
    if not isinstance(x, np.ndarray) or x.ndim != 2:
        return []
    names = inputs.schema.get("columns", ())
    some = np.arange(0, len(x_row), max(1, len(x_row) // _X_ROWS))
    labels, x = labels[some], np.asarray(x[x_row[some], :_X_COLUMNS], np.float64)
    release(inputs.array)
    found = [at for at in range(x.shape[1]) if neighbour_share(x[:, at], labels, some, ties=True) is not None][:_NAMED]
    if not found:
        high = x == x.max(0)
        two = np.flatnonzero((high | (x == x.min(0))).all(0))
        of_class = {}
        for code in np.unique(labels):
            differs = (high[:, two] != (labels == code)[:, None]).sum(0)
            off, n = np.minimum(differs, len(some) - differs), int((labels == code).sum())
            most = min((1 - _DETERMINED) * len(some), (1 - _BEYOND_COMMONEST) * min(n, len(some) - n))
            if len(two) and off.min() <= most:
                of_class[code] = int(two[off.argmin()])
        found = [*of_class.values()] if len(of_class) >= len(np.unique(labels)) - 1 > 1 else []
    return [quoted(names[at]) if len(names) == inputs.array.shape[1] else str(at) for at in found]
