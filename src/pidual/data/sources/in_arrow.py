"""Tables in memory: types and columns of Arrow, long tables, pandas frames, and all that speaks Arrow's C stream."""

import json
import uuid
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from ...errors.messages import first_line, quoted
from .base import Source

_HUGGING_FACE = b"huggingface"  # of the metadata
_ID_LENGTH = 8  # bytes, from which on hexadecimal digits hardly ever are decimal ones alone
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def plain_type(source: Source, name: str, column: Any) -> Any:
    """Return the column with text in a plain text type, checked to be UTF-8; bytes that are not text in hexadecimal."""
    if isinstance(column.type, pa.BaseExtensionType):
        is_uuid = column.type.extension_name == "arrow.uuid"
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        if is_uuid:
            return _texts(column, lambda value: str(uuid.UUID(bytes=value)))
    is_dictionary = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if is_dictionary else column.type
    is_bytes = any(test(kind) for test in _BYTES)
    if not is_bytes and not any(test(kind) for test in _TEXTS):
        return column
    if is_bytes or pa.types.is_string_view(kind):
        column, is_dictionary = column.cast(kind), False
    try:
        if is_bytes or pa.types.is_string_view(kind):
            return column.cast(pa.large_string())
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        if not is_bytes:
            values = column.cast(kind).cast(pa.large_binary()).to_pylist()
            row = next(row for row, value in enumerate(values) if value is not None and not _is_utf8(value))
            where = f"{source.place(row)}, column {quoted(name)}"
            raise DataError(f"{where}: the text is not UTF-8; write the file again with UTF-8.") from None
    lengths = pc.unique(pc.binary_length(column).drop_null()).to_pylist()
    if len(lengths) > 1:  # bytes of one length are ids or digests
        text = "holds bytes that are not UTF-8 text and is read as hexadecimal digits; write text if it should be text"
        warnings.warn(f"{source.name}, column {quoted(name)} {text}.", DataWarning, stacklevel=5)
    mark = "" if min(lengths) >= _ID_LENGTH else "0x"  # short ones would look like numbers
    return _texts(column, lambda value: mark + value.hex())


def _texts(column: Any, convert: Callable[[bytes], str]) -> Any:
    """Return a column of bytes as text, each value converted once."""
    encoded = column.cast(pa.large_binary()).dictionary_encode().combine_chunks()
    names = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.large_string())
    return pa.chunked_array([names.take(encoded.indices)])


def _is_utf8(value: bytes) -> bool:
    return value == value.decode("utf-8", "ignore").encode()


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type as this machine and Arrow have it: in its own order of bytes, and float64 for longer floats."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    return dtype if dtype.isnative or dtype.kind == "V" else dtype.newbyteorder("=")


def is_numeric(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers, booleans among them."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)


# --- names of classes in files of Hugging Face datasets, which hold them as numbers ---


def is_list(kind: Any) -> bool:
    """Return whether a type is one of lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return the names of the classes of every column that has some, from the metadata of an Arrow schema."""
    try:
        features = json.loads((metadata or {})[_HUGGING_FACE])["info"]["features"]
        named = {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):  # another program's metadata
        return {}
    return {name: list(map(str, names)) for name, names in named.items() if isinstance(names, list)}


def with_names(column: Any, names: list[str]) -> Any:
    """Return a column of numbers of classes as their names; -1, which means that there is none, is missing."""
    if not pa.types.is_integer(column.type):
        return column
    known = pc.and_(pc.greater_equal(column, 0), pc.less(column, len(names)))
    if not pc.all(pc.or_(known, pc.equal(column, -1))).as_py():
        return column  # numbers without a name: better no names than some
    numbers = pc.if_else(known, column, pa.scalar(None, column.type)).cast(pa.int64())
    return pc.take(pa.array(names, pa.string()), numbers)


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


class Frame(Source):
    """A pandas frame in memory."""

    def __init__(self, frame: pd.DataFrame, name: str = "table"):
        self.name = name
        self.columns = [str(column) for column in frame.columns]
        self._frame = frame

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        positions = {column: position for position, column in enumerate(self.columns)}
        return {
            column: plain_type(self, column, _from_pandas(self, column, self._frame.iloc[:, positions[column]]))
            for column in columns
        }

    def holds_lists(self, column: str | None) -> bool:
        place = self.columns.index(column) if column is not None and column in self else None
        if place is None or self._frame.dtypes.iloc[place].kind != "O":
            return False
        some = self._frame.iloc[:1000, [place]].to_numpy().ravel()
        first: Any = next((value for value in some if value is not None), None)
        return isinstance(first, list | tuple | np.ndarray)

    def numeric_columns(self) -> list[str]:
        return [
            column
            for column, dtype in zip(self.columns, self._frame.dtypes, strict=True)
            if pd.api.types.is_numeric_dtype(dtype)
        ]  # booleans too


def _from_pandas(source: Source, name: str, series: "pd.Series[Any]") -> Any:
    """Return an Arrow column; a column of mixed objects becomes text."""
    if isinstance(series.dtype, np.dtype):
        series = series.astype(native(series.dtype))
    try:
        try:
            array = pa.array(series, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            array = pa.array([None if _is_missing(value) else str(value) for value in series], pa.string())
    except UnicodeEncodeError:
        where = f"{source.name}, column {quoted(name)}"
        raise DataError(f"{where} holds text with half of a surrogate pair; correct it.") from None
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


# --- polars, DuckDB, Arrow, Ray, Spark, datasets of Hugging Face ---


def as_stream(given: Any) -> Any:
    """Return the Arrow stream of an object that has one, or whose result has; None for anything else."""
    if isinstance(given, pd.DataFrame | pd.Series):  # whose mixed columns Arrow refuses
        return None
    if hasattr(given, "__arrow_c_stream__"):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.table(given)
    if hasattr(given, "toArrow"):  # Spark
        return given.toArrow()
    if hasattr(given, "with_format") and hasattr(given, "features"):  # a dataset of Hugging Face
        return given.with_format("arrow")[:]
    if hasattr(given, "iter_batches") and hasattr(given, "schema"):  # Ray
        batches = [*given.iter_batches(batch_format="pyarrow", batch_size=None)]
        return pa.concat_tables(batches, promote_options="permissive") if batches else None
    found = given.collect() if hasattr(given, "collect") and hasattr(given, "lazy") else None  # polars, lazy
    return found if hasattr(found, "__arrow_c_stream__") else None


def from_stream(stream: Any, name: str = "table") -> InArrow:
    """Read a stream of a table's columns, once."""
    try:
        table = pa.RecordBatchReader.from_stream(stream).read_all()
    except (pa.ArrowException, TypeError) as error:
        what = f"{name} of the type {type(stream).__name__} gives no columns of Arrow ({first_line(error)})"
        raise DataError(f"{what}; give a table.") from None
    scratch, classes = InArrow(name, {}), class_names(table.schema.metadata)
    if len(set(table.column_names)) < len(table.column_names):
        raise DataError(f"{name} has two columns of one name; rename one of them.")
    data = {column: plain_type(scratch, column, table[column]) for column in table.column_names}
    return InArrow(name, data | {column: with_names(data[column], classes[column]) for column in classes})


def in_pandas(given: Any) -> Any:
    """Return a table or column of Arrow as pandas has it, and anything else as it is."""
    stream = None if isinstance(given, np.ndarray | list) else as_stream(given)
    if stream is None:
        return given
    try:
        return pa.table(stream).to_pandas()
    except (TypeError, pa.ArrowException):  # of one column
        return pa.chunked_array(stream).to_pandas()
