"""Open a table, whatever it is in: files, one or several, memory, or an export of a labelling tool."""

import itertools
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, UsageError
from ..errors.messages import first_line, listed, quoted
from ..files import without_passwords
from . import exports
from .paths import File, find_files, is_folder
from .sources import Source
from .sources.csv_file import CsvFile
from .sources.file import OneFile, ParquetFile
from .sources.in_arrow import Frame, as_stream, from_stream
from .sources.json_lines import JsonLines

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


FORMATS = ".csv, .tsv, .txt, .parquet, .jsonl or .json (text formats also with .gz)"
KINDS: dict[str, type[CsvFile] | type[ParquetFile] | type[JsonLines]] = {
    **dict.fromkeys([".csv", ".tsv", ".tab", ".txt"], CsvFile),
    **dict.fromkeys([".parquet", ".pq"], ParquetFile),
    **dict.fromkeys([".jsonl", ".ndjson", ".json"], JsonLines),
}


def open_source(
    source: Any,
    *,
    format: str | None = None,
    label: str | None = None,
    annotators: Sequence[str] | None = None,
    items: bool = False,
) -> Source:
    """Open a table: a file or several, a table in memory, or an export of a labelling tool.

    `source`: CSV, TSV, Parquet, JSON Lines or JSON: a file, a folder or a pattern of parts (`parts/*.parquet`), or
        their address (s3, gs, abfs, hf, https); a folder with a dataset of Hugging Face. In memory a pandas frame, or
        an object with `__arrow_c_stream__`, as polars, DuckDB and Arrow have them.
    `format`: one of `exports.FORMATS`; by default it is recognised by what is in the file.
    `label`: in an export, the control or question whose answers are the labels.
    `annotators`: of a wide table, the columns that hold the answers of one annotator each, or patterns of them
        (`rater_*`).
    `items`: open the items of an export, a row for each, for inputs; of other tables, the rows they have.
    """
    exports.check_format(format)
    if isinstance(source, str | Path):
        opened = _open(source, format, label, items)
    elif isinstance(source, pd.DataFrame):
        opened = Frame(source)
    elif (stream := as_stream(source)) is not None:
        opened = from_stream(stream)
    elif isinstance(source, Mapping) and (parts := [name for name, part in source.items() if _is_table(part)]):
        raise UsageError(f"these are several tables ({listed(parts, 5)}); choose one, such as ds[{parts[0]!r}].")
    else:
        raise UsageError(f"a table is a path, a DataFrame or a stream of Arrow, not {type(source).__name__}.")
    opened = opened if items or opened.guess is not None else exports.recognised_table(opened, format, label)
    if not annotators:
        return opened
    if label is not None:
        raise UsageError("annotators= (--annotators) names the columns with the labels; leave label= (--label) out.")
    return exports.melt(opened, annotators)


def _is_table(part: Any) -> bool:
    """Return whether this is a table in memory, such as a split of a dataset of Hugging Face."""
    return isinstance(part, pd.DataFrame) or hasattr(part, "__arrow_c_stream__") or hasattr(part, "with_format")


def _open(source: str | Path, form: str | None, label: str | None, items: bool) -> Source:
    if is_folder(source) and (found := exports.open_folder(Path(source), form, label)) is not None:
        return found
    files = find_files(source)
    if is_folder(source):
        files = [file for file in files if file.kind in KINDS]
        if not files:
            raise UsageError(f"{source} holds no table; a folder of parts has files of one kind: {FORMATS}.")
    name = without_passwords(str(source))
    try:
        if len(files) == 1:
            return _open_file(files[0], form, label, items)
        kinds = {file.kind: file for file in files}
        if len({KINDS.get(kind) for kind in kinds}) > 1:
            what = f"{name} has files of several kinds ({', '.join(file.name for file in kinds.values())})"
            raise UsageError(f"{what}; give a pattern, such as '*{min(kinds)}'.")
        return Parts(name, [_kind_of(file)(file) for file in files])
    except (OSError, EOFError, zlib.error) as error:  # pa.ArrowException for a broken file is handled inside
        reason = without_passwords(first_line(error))
        raise DataError(f"{name} cannot be read ({reason}); check its permissions, or write it again.") from None


def _kind_of(file: File) -> type[CsvFile] | type[ParquetFile] | type[JsonLines]:
    kind = KINDS.get(file.kind)
    if kind is None:
        ending = (file.endings or [""])[-1]
        raise UsageError(f"{file.name} has the ending {ending!r}, which pidual does not read; convert it to {FORMATS}.")
    return kind


def _open_file(file: File, form: str | None, label: str | None, items: bool) -> Source:
    kind = None if file.is_here and file.kind in (".zip", ".arrow", ".eval") else _kind_of(file)
    flat = form in (None, "table", "label-studio-min")
    flat = flat or (form == "argilla" and file.kind in (".parquet", ".pq", ".arrow"))
    if not flat and kind is not JsonLines and file.kind not in (".zip", ".eval"):
        raise UsageError(f"{file.name} cannot be of the format {form}, which is JSON; leave --format out.")
    if file.kind == ".zip":
        return exports.open_zip(Path(file.path), form, label)
    if file.kind == ".eval":
        return exports.open_log(file.path, "inspect", label)
    if kind is None:
        return exports.hugging_face.read_arrow_file(Path(file.path), label)
    return (exports.open_json(file, form, label, items) if kind is JsonLines else None) or kind(file)
