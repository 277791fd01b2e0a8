"""Wide tables, with a column for each annotator, made long."""

import fnmatch
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from ..columns import keys
from ..people import listed
from ..sources.base import Source
from ..sources.in_arrow import Long

_NAMED = ("item", "task", "label", "y", "gold", "split", "truth")  # columns that say themselves what they are
_LOOKED_AT, _MOST = 200, 50  # columns that are looked at, and different values of one


def melt(source: Source, annotators: Sequence[str]) -> Source:
    """Make a row of every cell that is not empty in the columns of annotators; a column's name says who gave it.

    `annotators` are names of columns, or patterns such as `rater_*`.
    """
    columns = _columns(source, annotators)
    n = n_names = 0
    coded: list[NDArray[np.int32]] = []
    names: list[Any] = []
    for column, values in source.read(columns).items():
        found = keys(source, column, values)
        coded.append(np.where(found.codes < 0, -1, found.codes + n_names).astype(np.int32))
        names.append(found.names.cast(pa.large_string()))
        n, n_names = len(found.codes), n_names + len(found.names)
    cells = np.stack(coded, axis=1)
    rows, who = np.nonzero(cells >= 0)
    if not len(rows):
        raise DataError(f"{source.name} has no answers in the columns {listed(columns, 5)}; name others.")
    labels = pa.concat_arrays(names).take(pa.array(cells[rows, who]))
    own: dict[str, Any] = {"label": pa.chunked_array([labels])}
    own["annotator"] = pa.chunked_array([pa.array(columns, pa.large_string()).take(pa.array(who))])
    if source.find("item", "task") is None:
        own = {"item": pa.chunked_array([pa.array(np.arange(n)[rows])])} | own
    return _Melted(source, rows, own, columns, who)


class _Melted(Long):
    """A long table without the columns that were melted."""

    def __init__(
        self, of: Source, rows: Any, own: dict[str, pa.ChunkedArray], melted: list[str], who: NDArray[np.int64]
    ):
        super().__init__(of, rows, own)
        gone = set(melted)
        self.columns = [name for name in self.columns if name in own or self._names[name] not in gone]
        self.made = {"item"} & own.keys()
        self.positions = [of.columns.index(name) for name in melted]
        self._melted, self._who = melted, who

    def cell(self, row: int, label: str) -> tuple[int, str] | None:
        return int(self._rows[row]), self._melted[self._who[row]]

    @property
    def file(self) -> Source:
        return self._of.file


def _columns(source: Source, annotators: Sequence[str]) -> list[str]:
    """Return the columns that are meant, in the order of the table for each pattern."""
    found: list[str] = []
    for wanted in annotators:
        if wanted in source:
            found.append(source.require(wanted, "asked for as an annotator"))
            continue
        matching = [name for name in source.columns if fnmatch.fnmatchcase(name, wanted)]
        if not matching:
            if not any(sign in wanted for sign in "*?["):
                source.require(wanted, "asked for as an annotator")
            raise UsageError(
                f"{source.name} has no column like {wanted!r} (asked for as annotators). Its columns: "
                f"{listed(source.columns)}."
            )
        found += [source.require(name, "an annotator") for name in matching]
    return list(dict.fromkeys(found))


def hint(source: Source, label: str | None) -> str:
    """Return what an error says to a user whose table may be a wide one, without names of columns, which may be people.

    It looks like one if columns share most of their few values: with `label`, the one used as the labels, or without
    it with each other. Nothing if it does not look like that.
    """
    values: dict[str, set[str]] = {}
    known = [name for name in source.columns if name.casefold() not in _NAMED]
    names = [name for name in dict.fromkeys(known) if source.columns.count(name) == 1][:_LOOKED_AT]
    try:
        for name, column in source.read(names).items():
            if not pa.types.is_nested(column.type) and not pa.types.is_floating(column.type):
                found = keys(source, name, column[:10_000]).names
                if 1 < len(found) <= _MOST:
                    values[name] = set(pc.cast(found, pa.large_string()).to_pylist())
    except DataError:  # of a column that nobody asked for
        return ""
    compared = [values[label]] if label in values else [] if label else list(values.values())
    n = max((sum(_same(one, other) for other in values.values()) for one in compared), default=0)
    if n < 2:
        return ""
    return (
        f". {n} columns of {source.name} have similar values; if each holds the answers of one annotator, "
        "list them with annotators= (--annotators A,B,... or a pattern such as 'rater_*')."
    )


def _same(one: set[str], other: set[str]) -> bool:
    return 2 * len(one & other) >= max(len(one), len(other))
