"""Several files as one table: a folder of parts, a pattern, or an address of them."""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ...errors.messages import quoted
from .base import Source
from .file import OneFile
from .json_lines import JsonLines

_NOTHING = "__HIVE_DEFAULT_PARTITION__"


class Parts(Source):
    """Files with the same columns, one after the other.

    Columns that stand in the names of folders, as in `split=train/part-0.parquet`, are columns of text. Those that a
    part of JSON Lines does not have are missing there.
    """

    def __init__(self, name: str, parts: Sequence[OneFile]):
        self.name, self.marks_formulas, self.decimal = name, parts[0].marks_formulas, parts[0].decimal
        self._parts = parts
        within = [part.name.removeprefix(re.split(r"[*?\[]", name)[0]) for part in parts]
        self._keys = [dict(re.findall(r"(?:^|/)([^/=]+)=([^/]*)(?=/)", each)) for each in within]
        self.columns = list(dict.fromkeys(itertools.chain(*(part.columns for part in parts), *self._keys)))
        for part, known in zip(parts, self._keys, strict=True):
            lost = [column for column in self.columns if column not in part and column not in known]
            if lost and not isinstance(part, JsonLines):
                other = next(each for each in parts if lost[0] in each or lost[0] in self._keys[0]).name
                raise DataError(
                    f"{part.name} has no column {quoted(lost[0])}, which {other} has; give parts of one table."
                )
            if part.decimal != self.decimal:
                raise DataError(
                    f"{part.name} has decimal commas where {parts[0].name} has points, or the other way round."
                )

    def scan(self, columns: Sequence[str], numeric: Collection[str] = ()) -> Iterator[Any]:
        for number, part in enumerate(self._parts):
            here = [column for column in columns if column in part]
            for batch in part.scan(here or part.columns[:1], numeric):
                absent = {name: self._absent(number, name, len(batch)) for name in columns if name not in here}
                yield pa.record_batch({name: absent[name] if name in absent else batch[name] for name in columns})

    def batches(self, column: str) -> Iterator[Any]:
        for number, part in enumerate(self._parts):
            yield from part.batches(column) if column in part else [self._absent(number, column, self._lengths[number])]

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        tables, lengths = [], []
        for number, part in enumerate(self._parts):
            here = [column for column in columns if column in part]
            read = part.read(here or part.columns[:1], numeric)
            lengths.append(len(next(iter(read.values()))))
            absent = {name: self._absent(number, name, lengths[-1]) for name in columns if name not in here}
            tables.append(pa.table({name: absent[name] if name in absent else read[name] for name in columns}))
        vars(self)["_lengths"] = lengths
        return {name: self._joined(name, [table.select([name]) for table in tables]) for name in columns}

    def _absent(self, number: int, column: str, n: int) -> Any:
        """Return a column that stands in the name of a file, or is missing there."""
        if not any(column in known for known in self._keys):
            return pa.nulls(n)
        value = self._keys[number].get(column)
        return pa.repeat(pa.scalar(None if value in (None, _NOTHING) else unquote(value), pa.string()), n)

    def _joined(self, name: str, tables: list[Any]) -> Any:
        """Return the parts of a column as one, in a type that holds all."""
        try:
            return pa.concat_tables(tables, promote_options="permissive").column(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            kinds = [str(table.column(0).type) for table in tables]
            other = next(at for at, kind in enumerate(kinds) if kind != kinds[0])
            what = f"column {quoted(name)} is {kinds[0]} in {self._parts[0].name} and {kinds[other]} in"
            raise DataError(f"{self.name}: {what} {self._parts[other].name}; write one type.") from None

    @cached_property
    def _lengths(self) -> list[int]:
        """How many rows each part has."""
        return [sum(map(len, part.scan(part.columns[:1]))) for part in self._parts]

    def numeric_columns(self) -> list[str]:
        found = [part.numeric_columns() for part in self._parts]
        return [name for name in self.columns if all(name in each for each in found)]

    def holds_lists(self, column: str | None) -> bool:
        return any(part.holds_lists(column) for part in self._parts)

    def mixed_columns(self) -> list[str]:
        numeric, found = (
            self.numeric_columns(),
            [(*part.numeric_columns(), *part.mixed_columns()) for part in self._parts],
        )
        return [name for name in self.columns if name not in numeric and any(name in each for each in found)]

    def place(self, row: int) -> str:
        """Return the file and the row or line in it."""
        ends = np.cumsum(self._lengths)
        number = int(np.searchsorted(ends, row, side="right"))
        return self._parts[number].place(row - int(ends[number]) + self._lengths[number])
