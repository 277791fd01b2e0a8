"""PI that indicates wrong answers: values among which they are more frequent than chance explains.

A column of numbers or moments is looked at in its tails (the lowest and highest 5%, and the next 15%) and where it is
missing; any other, and one of few different numbers, by its categories. Wrong answers among rows with such a value are
compared with what the same annotators' other rows predict: who answered has a part of its own in the reasons, and a
column that says no more than that is not informative. Answers to one item that are wrong together count as fewer. A
value is informative where

    wrong > expected + Bernstein's bound at `VALUE_CHANCE`, shared by all values of all columns,

and the odds of a wrong answer are at least `LIFT` times the expected ones, so that it is worth saying.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi.encoder import is_moment, is_number, numbers
from .counts import chance_excess, sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

VALUE_CHANCE = 0.02  # that any value of any column is named by chance
LIFT = 1.25
TAILS = (0.05, 0.2)
LOWEST, LOW, HIGH, HIGHEST, MISSING = range(5)  # codes of a column with tails
FEW_VALUES = 10  # a column of so many different numbers has categories
MIN_SUPPORT = 20  # rows that a value needs
MIN_STRATUM = 5  # annotators of fewer labels are taken together
MAX_SORTED = 500_000  # rows from which percentiles are taken


@dataclass
class InformativeColumn:
    """A PI column, and which of its values are informative."""

    name: str
    code: Ints  # (N,), which of the B values, or tails, each row has; -1 where it is in none
    categories: list[Any] | None  # the values, of a column that has them
    ordered: Floats  # its numbers in order, or evenly spaced ones of them
    # n, wrong, expected, variance, cluster: (B,), rows, wrong answers, expected wrong answers, the variance of their
    # number by chance, and how many answers are wrong together
    n: Ints
    wrong: Floats
    expected: Floats
    variance: Floats
    cluster: Floats
    is_informative: npt.NDArray[np.bool_]  # (B,)

    @property
    def share(self) -> Floats:
        """Share of wrong answers at each value."""
        return np.asarray(self.wrong / np.maximum(self.n, 1))

    @property
    def usual(self) -> Floats:
        """Share that the annotators' other answers predict."""
        return np.asarray(self.expected / np.maximum(self.n, 1))

    @property
    def lift(self) -> Floats:
        """Odds of a wrong answer over the expected odds."""
        share, usual = (np.clip(part, 1e-3, 1 - 1e-3) for part in (self.share, self.usual))
        return np.asarray(share / (1 - share) * (1 - usual) / usual)


@dataclass(frozen=True)
class WrongAnswers:
    """Which answers are wrong, who gave them and to what: what PI is compared with."""

    wrong: npt.NDArray[np.bool_]
    who: Ints  # stratum
    item: Ints
    n: Floats  # answers of the stratum of each row
    rate: Floats  # its share of wrong ones

    @classmethod
    def of(
        cls, wrong: npt.ArrayLike, annotator: npt.ArrayLike | None = None, item: npt.ArrayLike | None = None
    ) -> "WrongAnswers":
        """Build from arrays (N,): whether wrong, and codes where they are known."""
        is_wrong = np.asarray(wrong, bool)
        rows = len(is_wrong)
        who = np.zeros(rows, np.int64) if annotator is None else np.asarray(annotator).astype(np.int64) + 1
        who = np.where(np.bincount(who, minlength=1)[who] < MIN_STRATUM, 0, who)
        of_item = np.arange(rows) if item is None else np.asarray(item).astype(np.int64)
        n = np.bincount(who, minlength=1)
        rate = sums(who, is_wrong, len(n)) / np.maximum(n, 1)
        return cls(is_wrong, who, of_item, n[who].astype(np.float64), rate[who])

    def test(self, name: str, column: "pd.Series[Any]") -> InformativeColumn:
        """Count wrong answers by the values of a column; which are informative is not yet known."""
        code, n_values, categories, ordered = column_values(column)
        kept = np.flatnonzero(code >= 0)
        c, who, rate = code[kept], self.who[kept], self.rate[kept]
        keys, first, together = np.unique(who * n_values + c, return_index=True, return_counts=True)
        n, p = self.n[kept][first], rate[first]
        drawn = together * (n - together) / np.maximum(n - 1, 1) * p * (1 - p)
        off = self.wrong[kept] - rate
        pairs, index = np.unique(self.item[kept] * n_values + c, return_inverse=True)
        joint = sums(pairs % n_values, sums(index, off, len(pairs)) ** 2, n_values)
        alone = sums(c, off**2, n_values)
        cluster = np.maximum(joint / np.maximum(alone, 1e-12), 1.0)
        return InformativeColumn(
            name,
            code,
            categories,
            ordered,
            np.bincount(c, minlength=n_values),
            sums(c, self.wrong[kept], n_values),
            sums(c, rate, n_values),
            sums(keys % n_values, drawn, n_values) * cluster,
            cluster,
            np.zeros(n_values, bool),
        )


def find_informative(
    pi: pd.DataFrame, wrong: npt.ArrayLike, annotator: npt.ArrayLike | None = None, item: npt.ArrayLike | None = None
) -> list[InformativeColumn]:
    """Find which values of which PI columns indicate wrong answers.

    `pi` (N rows): the columns, with their raw values.
    `wrong` (N,): which answers are wrong.
    `annotator`, `item` (N,): codes.
    """
    answers = WrongAnswers.of(wrong, annotator, item)
    found = [answers.test(str(name), pi[name]) for name in pi]
    tests = max(sum(int(np.count_nonzero(one.n >= MIN_SUPPORT)) for one in found), 1)
    for one in found:
        bound = chance_excess(one.variance, VALUE_CHANCE / tests, one.cluster)
        one.is_informative = (one.n >= MIN_SUPPORT) & (one.wrong - one.expected > bound) & (one.lift >= LIFT)
    return found


def column_values(column: "pd.Series[Any]") -> tuple[Ints, int, list[Any] | None, Floats]:
    """Return the value or tail of each row (-1: none), how many there are, the values, and numbers in order."""
    if is_number(column) or is_moment(column):
        values = numbers(column)
        known = np.isfinite(values)
        ordered = np.sort(values[known][:: max(1, int(known.sum()) // MAX_SORTED)])
        if len(different := np.unique(ordered)) > FEW_VALUES:
            return _tails(values, known, ordered), MISSING + 1, None, ordered
        code = np.where(known, np.searchsorted(different, np.where(known, values, 0.0)), len(different))
        return code, len(different) + 1, [*_as_values(column, different), "missing"], ordered
    categories = column.astype("category")
    code = categories.cat.codes.to_numpy().astype(np.int64)
    return code, max(len(categories.cat.categories), 1), categories.cat.categories.tolist(), np.zeros(0)


def _tails(values: Floats, known: npt.NDArray[np.bool_], ordered: Floats) -> Ints:
    """Return the tail of each value: it has one if the values up to it, or from it on, are few enough."""
    up_to = np.searchsorted(ordered, values, side="right") / len(ordered)
    from_on = 1 - np.searchsorted(ordered, values, side="left") / len(ordered)
    narrow, wide = TAILS
    which = [up_to <= narrow, from_on <= narrow, up_to <= wide, from_on <= wide]
    return np.where(known, np.select(which, [LOWEST, HIGHEST, LOW, HIGH], -1), MISSING)


def _as_values(column: "pd.Series[Any]", different: Floats) -> Sequence[Any]:
    if not is_moment(column):
        return list(different.tolist())
    try:
        return pd.to_datetime(different, unit="s").tolist()
    except pd.errors.OutOfBoundsDatetime:  # before the year 1678 or after 2261
        return [str(moment) for moment in different.astype("datetime64[s]")]
