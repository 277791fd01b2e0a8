"""Columns that are in memory already, and long tables made of a source whose rows hold several answers each."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrow_types import is_list, is_numeric
from .base import Source


class InArrow(Source):
    """Arrow columns in memory.

    `name`: name of the table in messages.
    `places`: where the user finds a row, by its number.
    """

    def __init__(self, name: str, data: Mapping[str, Any], places: Callable[[int], str] | None = None):
        self.name, self.columns = name, list(data)
        self._data, self._places = data, places

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        return {column: self._data[column] for column in columns}

    def numeric_columns(self) -> list[str]:
        return [name for name, column in self._data.items() if is_numeric(column.type)]

    def holds_lists(self, column: str | None) -> bool:
        return super().holds_lists(column) or (
            column is not None and column in self._data and is_list(self._data[column].type)
        )

    def place(self, row: int) -> str:
        return self._places(row) if self._places else super().place(row)


class Long(Source):
    """A row for every answer: columns of its own, beside those of the source that the answers were found in.

    `of`: has one row for all answers to an item.
    `rows`: the row of `of` that every answer stands in.
    `own`: what is known about every answer. A column of `of` that has the name of one of these is called `data_NAME`.
    `taken`: more names that columns of `of` must not have.
    """

    def __init__(self, of: Source, rows: NDArray[np.int64], own: Mapping[str, Any], taken: Collection[str] = ()):
        self.name, self.decimal, self.marks_formulas = of.name, of.decimal, of.marks_formulas
        self._of, self._rows, self._own = of, rows, own
        self._names = {f"data_{name}" if name in own or name in taken else name: name for name in of.columns}
        self.columns = [*own, *self._names]
        self.sets: Any = None  # where rows are judgements of sets of labels: `label_sets.Judged`
        self.found_in: tuple[Source, str] | None = None  # the file of which `rows` are rows, and its column of labels

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        theirs = {column: self._names[column] for column in columns if column in self._names}
        found = self._of.read(list(theirs.values()), {self._names[name] for name in numeric if name in self._names})
        rows = pa.array(self._rows)
        taken = {column: found[name].take(rows) for column, name in theirs.items()}
        return {column: taken[column] if column in taken else self._own[column] for column in columns}

    def numeric_columns(self) -> list[str]:
        numeric = set(self._of.numeric_columns())
        own = [name for name, column in self._own.items() if is_numeric(column.type)]
        return own + [name for name, theirs in self._names.items() if theirs in numeric]

    def place(self, row: int) -> str:
        return self._of.place(int(self._rows[row]))

    def cell(self, row: int, label: str) -> tuple[int, str] | None:
        if self.found_in is None:
            return row, label
        record = int(self._rows[row])
        neighbours = self._rows[max(0, row - 1) : row + 2]  # rows of one record follow each other
        return (record, self.found_in[1]) if (neighbours == record).sum() == 1 else None

    @property
    def file(self) -> Source:
        return self.found_in[0].file if self.found_in else self

    @property
    def fields(self) -> dict[str, str]:
        """The columns that belong to items, with what the other source calls them."""
        return {name: theirs for name, theirs in self._names.items() if name in self}

    def name_of(self, theirs: str) -> str:
        """Return what a column of the other source is called here."""
        return theirs if self._names.get(theirs) == theirs else f"data_{theirs}"


class OnlyRows(Source):
    """Some rows of a source, in its order, such as those with a label."""

    def __init__(self, of: Source, rows: NDArray[np.int64]):
        self.name, self.columns, self.of, self._rows = of.name, of.columns, of, rows
        self.aliases, self.guess, self.tags, self.vectors = of.aliases, of.guess, of.tags, of.vectors
        self.positions, self.decimal, self.marks_formulas = of.positions, of.decimal, of.marks_formulas

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        return {name: column.take(pa.array(self._rows)) for name, column in self.of.read(columns, numeric).items()}

    def numeric_columns(self) -> list[str]:
        return self.of.numeric_columns()

    def mixed_columns(self) -> list[str]:
        return self.of.mixed_columns()

    def place(self, row: int) -> str:
        return self.of.place(int(self._rows[row]))

    def cell(self, row: int, label: str) -> tuple[int, str] | None:
        return self.of.cell(int(self._rows[row]), label)

    @property
    def file(self) -> Source:
        return self.of.file


class Relabelled(OnlyRows):
    """A source with another column of labels."""

    def __init__(self, of: Source, label: str, column: Any):
        super().__init__(of, np.arange(len(column)))
        self._label, self._column = label, column

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, Any]:
        found = self.of.read([name for name in columns if name != self._label], numeric)
        return {name: found.get(name, self._column) for name in columns}
