"""PI that cannot help, or does harm, found before training: a record and a sentence for each column.

    constant    one value in every row
    missing     nothing in most rows
    leaks       gives the label away, and so explains wrong labels as well as right ones
    unique      another value in every row: it can point to single rows, and have their labels memorised
    sentinel    a value that stands for none, such as -1, 999 or 1970-01-01, among real ones

A column that gives the label away is refused by `giveaway`. Here are numbers that nearly do, by a weaker form of its
rule.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors.messages import printable
from .. import AnnotationTable
from . import PIColumn
from .giveaway import SAMPLE, determined_share, neighbour_share, value_codes
from .kinds import ORDER, is_moment, is_number, numbers, value_text, words

MOSTLY = 0.5  # share of missing values
NEIGHBOURS = 0.98  # share of neighbours with the same label
BEYOND_COMMONEST = 0.9  # of rows whose label is not the most frequent one
FEWEST = 50  # rows that show an id, or a sentinel
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
MOMENTS = tuple(pd.Timestamp(day).timestamp() for day in ("1970-01-01", "1900-01-01", "2099-12-31"))
OFTEN = 5  # rows with a sentinel, at least
FAR = 2.0  # times as far as nearly all other values
DAY = 86400.0

Problem = dict[str, str]


def find_pi_problems(
    table: AnnotationTable, columns: Sequence[PIColumn], rows: NDArray[np.int64], items: NDArray[np.integer[Any]]
) -> tuple[list[Problem], list[str]]:
    """What is wrong with the PI columns of a table, and the sentences of it that nobody has said yet.

    Parameters
    ----------
    table : AnnotationTable
    columns : sequence of PIColumn
        Those that the encoder has not left out.
    rows : int array
        The rows to look at.
    items : int array (N,)
        Codes of the items: one for items with the same input.

    Returns
    -------
    list of dict, list of str
        column, problem (as above) and text; and the texts of which the encoder, or `giveaway`, gives no warning.
    """
    used = {column.name: column for column in columns}
    found, new = [], []
    for name in table.pi_columns:
        values = table.frame[name].iloc[rows]
        column = used.get(name)
        problems = _left_out(values) if column is None else _in_use(column, values, table, rows, items)
        for problem, text, warned in problems:
            sentence = f"PI column '{printable(name)}' {text}"
            found.append({"column": name, "problem": problem, "text": sentence})
            new += [] if warned else [sentence]
    return found, new


def _left_out(values: "pd.Series[Any]") -> list[tuple[str, str, bool]]:
    """Why the encoder has left a column out."""
    if values.isna().all():
        return [("missing", "is empty in every row and is left out.", True)]
    if (values == values.iloc[0]).all():
        return [("constant", "has the same value in every row and is left out.", True)]
    if is_number(values):
        return [("constant", "has numbers so large that their differences are lost and is left out.", True)]
    return [("unique", "has no value that enough rows share and is left out.", True)]


def _in_use(
    column: PIColumn,
    values: "pd.Series[Any]",
    table: AnnotationTable,
    rows: NDArray[np.int64],
    items: NDArray[np.integer[Any]],
) -> list[tuple[str, str, bool]]:
    """What is wrong with a column that is used: problem, text, and whether a warning was given before."""
    found = []
    missing = float(values.isna().mean())
    if missing > MOSTLY:
        text = f"is missing in {missing:.0%} of the rows; its effect is estimated from few rows."
        found.append(("missing", text, False))
    labels = table.label_codes[rows]
    if column.name == "annotator" or column.name in table.people:
        codes = value_codes(column, values, len(table.classes))
        if determined_share(codes, labels) is not None:
            found.append(("leaks", "determines the label: everybody gives one label only.", True))
        return found
    if not is_number(values) and not is_moment(values):
        return found
    number = numbers(values)
    share = neighbour_share(number, labels, items[rows], ties=True, least=NEIGHBOURS, beyond=BEYOND_COMMONEST)
    if share is not None:
        text = f"gives the label away: rows with the next value have the same label in {share:.1%}. "
        text += "It explains wrong labels as well as right ones; leave it out of the PI unless you want that."
        found.append(("leaks", text, False))
    if is_row_id(values, number) and not {*words(column.name)} & ORDER:
        text = "has a different whole number in every row, like an id: it does not say how the label was made."
        found.append(("unique", text, False))
    if (sentinel := find_sentinel(number, moment=is_moment(values))) is not None:
        value, n = sentinel
        shown = value_text(pd.Timestamp(value, unit="s")) if is_moment(values) else f"{value:.0f}"
        text = (
            f"has the value {shown} in {n:,} rows, outside all others: if it stands for a missing one, leave it empty."
        )
        found.append(("sentinel", text, False))
    return found


def is_row_id(values: "pd.Series[Any]", number: NDArray[np.float64]) -> bool:
    """Whether a column of whole numbers has another one in every row."""
    if is_moment(values) or len(number) < FEWEST or not np.isfinite(number).all():
        return False
    some = number[:SAMPLE]
    if len(np.unique(some)) < len(some) or not (number == np.rint(number)).all():
        return False
    return len(np.unique(number)) == len(number)


def find_sentinel(number: NDArray[np.float64], *, moment: bool) -> tuple[float, int] | None:
    """A value that stands for none, and in how many rows; None where there is none.

    It is one of the usual ones, the lowest or the highest, in some rows, and lies far outside the others; -1 need only
    be the one value below 0.
    """
    number = number[np.isfinite(number)]
    for value in MOMENTS if moment else SENTINELS:
        is_it = np.abs(number - value) < DAY if moment else number == value
        n, rest = int(np.count_nonzero(is_it)), number[~is_it]
        if n < (1 if moment else OFTEN) or len(rest) < FEWEST:
            continue
        lowest, middle, highest = np.quantile(rest, [0.01, 0.5, 0.99])
        reach = FAR * max(highest - middle if value > middle else middle - lowest, 1e-9)
        outside = value < rest.min() or value > rest.max()
        if outside and (abs(value - middle) > reach or (value == -1 and rest.min() >= 0)):
            return (float(np.median(number[is_it])), n)
    return None
