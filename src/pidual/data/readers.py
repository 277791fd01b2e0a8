"""Tabular files and frames, all read one way.

    open_source(path or frame) -> Source      what columns there are
    source.read(names)         -> Arrow columns
    keys(...), values(...)     -> categories or numbers, cleaned

A Source also knows where a row stands (`source.place(7)` is "labels.csv, line 9"), so that an error can name the place.
Only when something is wrong is a text file read a second time, slowly, to find the line.
"""

import contextlib
import csv
import difflib
import functools
import gzip
import itertools
import json
import re
import uuid
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..messages import FORMULA_MARK, first_line, quoted
from .people import has_address, listed, shown

MISSING = ["", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
FORMATS = ".csv, .tsv, .txt, .parquet or .jsonl (text formats also with .gz)"
_BLOCK = 16 << 20  # bytes; no record of a text file may be longer
csv.field_size_limit(max(csv.field_size_limit(), _BLOCK))  # of Python's reader, which has 131,072 for all programs
MAX_DEPTH = 500  # of lists and objects within each other in JSON; Python's reader takes 990, Arrow's crashes at 10,000
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_INTEGER = r"^(0|-?[1-9]\d{0,17})(\.0+)?$"  # '007' is a name, not a number
_LEADING_ZERO = r"^[+-]?0[\dxX]"
_DECIMAL_COMMA = r"^([+-]?\d*),(\d+)$"
_FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"


class Source:
    """A table that can be read by column; the base of the four kinds below."""

    name: str
    columns: list[str]
    decimal: str = "."  # or a comma: what stands before the decimals of a number
    marks_formulas: bool = False  # whether text may have the apostrophe that `messages.plain_cells` writes

    def read(self, columns: Sequence[str], numeric: Collection[str] = ()) -> dict[str, Any]:
        """Arrow columns by name; those in `numeric` are parsed as numbers where the file holds text."""
        raise NotImplementedError

    def numeric_columns(self) -> list[str]:
        """Names of the columns that hold numbers."""
        raise NotImplementedError

    def mixed_columns(self) -> list[str]:
        """Names of the columns that hold mostly numbers, yet also something else."""
        return []

    def place(self, row: int) -> str:
        """Where the user finds row `row` (counted from 0)."""
        return f"{self.name}, row {row} (counted from 0)"

    def require(self, column: str, purpose: str) -> str:
        """`column` itself when there is exactly one such column, else an error that lists the columns there are."""
        count = self._counts.get(column, 0)
        if count == 0:
            named = [name for name in self.columns if not has_address(name)]  # people are not suggested
            close = [name for name in named if column in re.split(r"\s*[,:]\s*", name)[:-1]]
            close = close or difflib.get_close_matches(column, named, n=1, cutoff=0.6)
            hint = f", did you mean {quoted(close[0])}?" if close else "."
            if close and re.search("[,:]", close[0]):
                hint += " On the command line, a name with a comma or a colon needs double quotes of its own around it."
            raise UsageError(
                f"{self.name} has no column {quoted(column)} ({purpose}){hint} Its columns: {listed(self.columns)}."
            )
        if count > 1:
            raise DataError(f"{self.name} has more than one column named {quoted(column)}; rename all but one of them.")
        return column

    def find(self, *names: str) -> str | None:
        """The first of `names` that is a column, in this spelling or in other letter case."""
        for name in names:
            if name in self._counts:
                return name
            if name in self._spellings:
                return self._spellings[name]
        return None

    def __contains__(self, column: object) -> bool:
        return column in self._counts

    @functools.cached_property
    def _counts(self) -> dict[str, int]:
        """How many columns have each name."""
        counts: dict[str, int] = {}
        for column in self.columns:
            counts[column] = counts.get(column, 0) + 1
        return counts

    @functools.cached_property
    def _spellings(self) -> dict[str, str]:
        """The first column of each name without regard to letter case."""
        return {column.casefold(): column for column in reversed(self.columns)}


def open_source(source: str | Path | pd.DataFrame) -> Source:
    """Open a CSV, TSV, Parquet or JSON Lines file, or a pandas frame."""
    if isinstance(source, pd.DataFrame):
        return Frame(source)
    path = Path(source)
    if is_folder(path):
        raise UsageError(f"{source} is a folder; give a file: {FORMATS}.")
    check_file(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    kind = _KINDS.get(ending)
    if kind is None:
        raise UsageError(
            f"{source} has the ending {path.suffix!r}, which pidual does not read; convert it to {FORMATS}."
        )
    try:
        return kind(source)
    except (OSError, EOFError, zlib.error) as error:  # pa.ArrowException for a broken file is handled inside
        raise DataError(
            f"{source} cannot be read ({first_line(error)}); check its permissions, or write it again."
        ) from None


def is_folder(path: str | Path) -> bool:
    """Whether there is a folder of this name."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # no path at all: `check_file` says so
        return False


def check_file(path: Path) -> None:
    """Raise where there is no file to read; a pipe or a device would keep a reader waiting."""
    try:
        found = path.is_file()
    except (OSError, ValueError) as error:  # a name too long, or with a zero byte
        raise UsageError(f"{quoted(str(path))} is not a path ({first_line(error)}); check it.") from None
    if not found:
        what = "is not a regular file; copy what it holds to one" if path.exists() else "does not exist; check the path"
        raise UsageError(f"{path} {what}.")


class Frame(Source):
    """A pandas frame in memory."""

    def __init__(self, frame: pd.DataFrame):
        self.name = "table"
        self.columns = [str(column) for column in frame.columns]
        self._frame = frame

    def read(self, columns: Sequence[str], numeric: Collection[str] = ()) -> dict[str, Any]:
        """Arrow columns by name."""
        positions = {column: position for position, column in enumerate(self.columns)}
        return {
            column: _plain_type(self, column, _from_pandas(self, column, self._frame.iloc[:, positions[column]]))
            for column in columns
        }

    def numeric_columns(self) -> list[str]:
        """Names of the columns that hold numbers."""
        return [column for column, dtype in zip(self.columns, self._frame.dtypes, strict=True) if _is_number(dtype)]


class ParquetFile(Source):
    """A Parquet file."""

    def __init__(self, path: str | Path):
        self.name, self._path = str(path), Path(path)
        with self._errors():
            self._schema = pyarrow.parquet.read_schema(self._path)
            self.columns = list(self._schema.names)

    def read(self, columns: Sequence[str], numeric: Collection[str] = ()) -> dict[str, Any]:
        """Arrow columns by name."""
        with self._errors():
            table = pyarrow.parquet.ParquetFile(self._path).read(columns=list(columns))
        return {column: _plain_type(self, column, table.column(column)) for column in columns}

    def numeric_columns(self) -> list[str]:
        """Names of the columns that hold numbers."""
        return [field.name for field in self._schema if _is_numeric(field.type)]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.name} cannot be read as Parquet ({_first_line(error)}); write it again.") from None


class _TextFile(Source):
    """What CSV and JSON Lines share: lines, and the search for the one that is wrong."""

    def __init__(self, path: str | Path):
        self.name, self._path = str(path), Path(path)

    def _open(self, errors: str = "strict") -> IO[str]:
        if self._path.suffix.lower() == ".gz":
            return gzip.open(self._path, "rt", encoding="utf-8-sig", errors=errors, newline="")
        return self._path.open(encoding="utf-8-sig", errors=errors, newline="")

    def _binary(self) -> Any:
        return pa.input_stream(str(self._path), compression="detect")

    def _check_utf8(self) -> None:
        """Raise for the first byte that is not UTF-8."""
        opener: Any = gzip.open if self._path.suffix.lower() == ".gz" else open
        with opener(self._path, "rb") as lines:
            # a lone \r also ends a line; splitting keeps the count equal to an editor's
            parts = itertools.chain.from_iterable(line.splitlines() or [b""] for line in lines)
            for number, line in enumerate(parts, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{self.name}, line {number} holds the byte 0x{line[error.start]:02x} at position "
                        f"{error.start + 1}, which is not UTF-8; save the file as UTF-8 (in Excel: 'CSV UTF-8')."
                    ) from None


class CsvFile(_TextFile):
    """A file of separated values with a header line."""

    marks_formulas = True

    def __init__(self, path: str | Path):
        super().__init__(path)
        self._delimiter = self._find_delimiter()
        try:
            header = next(self._records(), None)
        except csv.Error as error:
            raise DataError(f"{path} cannot be read as CSV ({error}, in its header); write it again.") from None
        if header is None:
            raise DataError(f"{path} is empty; it needs a header line with the names of its columns.")
        self._header_line, names = header
        self.columns = [re.sub(FORMULA_MARK, r"\1", name.strip()) for name in names]
        self._check_quotes()
        self.decimal = self._find_decimal()

    def read(self, columns: Sequence[str], numeric: Collection[str] = ()) -> dict[str, Any]:
        """Text columns by name, those in `numeric` as float64."""
        types = {column: pa.float64() if column in numeric else pa.string() for column in columns}
        several = len(self.columns) > 1
        try:
            table = pyarrow.csv.read_csv(
                self._binary(),
                pyarrow.csv.ReadOptions(
                    column_names=self.columns, skip_rows_after_names=self._header_line, block_size=_BLOCK
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=self._delimiter,
                    newlines_in_values=self._quoted,  # allowing for them costs a third of the time
                    invalid_row_handler=lambda row: "error" if row.text.strip() or not several else "skip",
                ),
                pyarrow.csv.ConvertOptions(
                    include_columns=list(columns), column_types=types, null_values=MISSING, decimal_point=self.decimal
                ),
            )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            self._explain(error, numeric)
        return {column: table.column(column) for column in columns}

    def numeric_columns(self) -> list[str]:
        """Names of the columns whose first thousand cells are numbers or missing, at least one a number."""
        return [column for column, share in self._number_shares() if share == 1]

    def mixed_columns(self) -> list[str]:
        """Names of the columns whose first thousand cells are numbers by half or more, but not all."""
        return [column for column, share in self._number_shares() if 0.5 <= share < 1]

    def _number_shares(self) -> Iterator[tuple[str, float]]:
        """Share of numbers among the first thousand cells of every column, not counting missing ones."""
        for column, cells in zip(self.columns, zip(*self._sample(), strict=True), strict=False):
            numbers = [_is_float(cell, self.decimal) for cell in cells if cell.strip() not in MISSING]
            yield column, sum(numbers) / max(1, len(numbers))

    def _sample(self) -> list[list[str]]:
        """The first thousand whole records, or those before one that Python's reader refuses."""
        found = []
        with contextlib.suppress(csv.Error):
            for _, cells in itertools.islice(self._records(), 1, 1001):
                found.append(cells)
        return [cells for cells in found if len(cells) == len(self.columns)]

    def _find_decimal(self) -> str:
        """A comma if cells are separated by semicolons and hold 1,5, as spreadsheets write in much of Europe.

        More of them must do so than hold 1.5, and not all of them be like 1,036, which may be a thousand and more.
        """
        if self._delimiter != ";":
            return "."
        cells = [cell.strip() for cell in itertools.chain.from_iterable(self._sample())]
        points = sum("." in cell and _is_float(cell) for cell in cells)
        commas = [cell for cell in cells if re.match(_DECIMAL_COMMA, cell)]
        sure = any(not re.match(_THOUSANDS, cell) for cell in commas)
        return "," if sure and len(commas) > points else "."

    def place(self, row: int) -> str:
        """File and line of row `row`; a quoted cell may span several lines."""
        with contextlib.suppress(csv.Error):
            for line, _ in itertools.islice(self._records(), row + 1, None):
                return f"{self.name}, line {line}"
        return super().place(row)

    def _find_delimiter(self) -> str:
        try:
            with self._open() as lines:
                header = next((line for line in lines if line.strip()), "")
        except UnicodeDecodeError:
            self._check_utf8()
            raise
        name = self._path.name.lower().removesuffix(".gz")
        candidates = "\t" if name.endswith((".tsv", ".tab")) else "\t,;" if name.endswith(".txt") else ",;\t"
        return next((delimiter for delimiter in candidates if delimiter in header), candidates[0])

    def _records(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """First line and cells of every record, the header first; blank lines are left out."""
        with self._open("replace") as lines:
            reader = csv.reader(lines, delimiter=self._delimiter, strict=strict)
            line, width = 1, 0
            for cells in reader:
                blank = not cells or (len(cells) == 1 != width and not cells[0].strip())
                if not blank:
                    width = width or len(cells)
                    yield line, cells
                line = reader.line_num + 1

    def _check_quotes(self) -> None:
        """Raise when a quote is opened and never closed, which would swallow every row after it."""
        with self._binary() as stream:
            quotes = sum(block.count(b'"') for block in iter(lambda: stream.read(_BLOCK), b""))
        self._quoted = quotes > 0
        if quotes % 2 == 0:
            return
        line = 0
        try:
            for line, _ in self._records(strict=True):  # noqa: B007 - the last line that could be read is wanted
                pass
        except csv.Error as error:
            if "end of data" in str(error):
                where = f"after line {line}" if line else "in the header"
                raise DataError(
                    f'{self.name}: a quote (") opened {where} is never closed; close or remove it.'
                ) from None

    def _explain(self, error: Exception, numeric: Collection[str]) -> NoReturn:
        """Find what Arrow stumbled over, and say it with its line."""
        self._check_utf8()
        with contextlib.suppress(csv.Error):
            for line, cells in itertools.islice(self._records(), 1, None):
                if len(cells) != len(self.columns):
                    raise DataError(
                        f"{self.name}, line {line} has {len(cells)} cells where the header has {len(self.columns)}; "
                        f"correct the line (a cell that holds {self._delimiter!r} needs double quotes around it)."
                    )
                for column, cell in zip(self.columns, cells, strict=True):
                    if column in numeric and cell not in MISSING and not _is_float(cell, self.decimal):
                        raise DataError(
                            f"{self.name}, line {line}, column {quoted(column)}: {shown(column, cell)} is not a "
                            "number; correct it, or list the columns to use without this one."
                        )
        raise DataError(f"{self.name} cannot be read as CSV ({_first_line(error)}); write it again.")


class JsonLines(_TextFile):
    """A file with one JSON object per line."""

    def __init__(self, path: str | Path):
        super().__init__(path)
        self._check_depth()
        try:
            table = self._load({})
            # Arrow turns text that looks like a date into a time; an item called 2020-01-01 is to keep its name
            dates = {field.name: pa.string() for field in table.schema if pa.types.is_timestamp(field.type)}
            self._table = self._load(dates) if dates else table
        except (pa.ArrowException, UnicodeDecodeError) as error:
            self._explain(error)
        self.columns = self._table.column_names

    def read(self, columns: Sequence[str], numeric: Collection[str] = ()) -> dict[str, Any]:
        """Arrow columns by name."""
        return {column: self._table.column(column) for column in columns}

    def numeric_columns(self) -> list[str]:
        """Names of the columns that hold numbers."""
        return [field.name for field in self._table.schema if _is_numeric(field.type)]

    def place(self, row: int) -> str:
        """File and line of row `row`."""
        for line, _ in itertools.islice(self._records(), row, None):
            return f"{self.name}, line {line}"
        return super().place(row)

    def _check_depth(self) -> None:
        """Raise for lists and objects within each other more deeply than the readers take.

        Brackets within text are counted too at first, which is fast; where these are too many, lines are looked at.
        """
        depth = deepest = 0
        with self._binary() as stream:
            for block in iter(lambda: stream.read(_BLOCK), b""):
                brackets = np.frombuffer(block.translate(None, _NO_BRACKET), np.uint8)
                if len(brackets):  # [ and { are 91 and 123, ] and } two more
                    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1).cumsum() + depth
                    depth, deepest = int(steps[-1]), max(deepest, int(steps.max()))
        if deepest <= MAX_DEPTH:
            return
        depth = 0
        for line, text in self._records():
            for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text)):
                depth += 1 if bracket in "[{" else -1
                if depth > MAX_DEPTH:
                    raise DataError(
                        f"{self.name}, line {line} has lists and objects within each other more than {MAX_DEPTH} deep; "
                        "write a number or text for each column."
                    )

    def _load(self, types: dict[str, Any]) -> Any:
        table = pyarrow.json.read_json(
            self._binary(),
            pyarrow.json.ReadOptions(block_size=_BLOCK),
            pyarrow.json.ParseOptions(explicit_schema=pa.schema(types) if types else None),
        )
        table.validate(full=True)  # the reader lets bytes pass that are not UTF-8
        return table

    def _records(self) -> Iterator[tuple[int, str]]:
        with self._open("replace") as lines:
            yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())

    def _explain(self, error: Exception) -> NoReturn:
        self._check_utf8()
        kinds: dict[str, str] = {}
        line = 0
        for line, text in self._records():
            try:
                record = json.loads(text)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise DataError(
                    f"{self.name}, line {line} is not a JSON object (it starts with {text.strip()[:1]!r}); write one "
                    'object per line, such as {"item": 1, "label": "cat"}.'
                )
            for column, value in record.items():
                kind = _json_kind(value)
                if kind and kinds.setdefault(column, kind) != kind:
                    raise DataError(
                        f"{self.name}, line {line}, column {quoted(column)}: {shown(column, value)} is {kind}, but the "
                        f"lines before hold {kinds[column]}; write one kind of value."
                    )
        if line == 0:
            raise DataError(f"{self.name} is empty; it needs one JSON object per line.")
        raise DataError(f"{self.name} cannot be read as JSON Lines ({_first_line(error)}); write it again.")


_KINDS: dict[str, type[CsvFile] | type[ParquetFile] | type[JsonLines]] = {
    **dict.fromkeys([".csv", ".tsv", ".tab", ".txt"], CsvFile),
    **dict.fromkeys([".parquet", ".pq"], ParquetFile),
    **dict.fromkeys([".jsonl", ".ndjson", ".json"], JsonLines),
}


# --- from Arrow columns to what the library works with ---


class Keys(NamedTuple):
    """A column as categories: `names[codes[i]]` is row i, and code -1 means missing."""

    codes: NDArray[np.int32]
    names: Any  # pa.Array of int64 or string, in order of first appearance

    def categorical(self) -> pd.Categorical:
        """The same as pandas has it."""
        return pd.Categorical.from_codes(self.codes, pd.Index(self.names.to_pandas()))


def keys(source: Source, name: str, column: Any) -> Keys:
    """Encode names: text is stripped, and whole numbers become integers if every value is one.

    Values written alike but for spaces are one value; `MISSING` texts and NaN have code -1. Booleans become
    'False' and 'True', as a CSV would hold them.
    """
    if len(column) == 0:
        return Keys(np.empty(0, np.int32), pa.array([], pa.string()))
    with _conversion_errors(source, name, column):
        encoded = _plain(source, name, column).dictionary_encode().combine_chunks()
        cleaned = _clean(source, encoded.dictionary)
    if cleaned.null_count == 0 and cleaned.equals(encoded.dictionary):
        return Keys(_codes(encoded.indices), cleaned)
    again = cleaned.dictionary_encode()
    merged = np.append(_codes(again.indices), np.int32(-1))  # a missing code is -1, the last place
    return Keys(merged[_codes(encoded.indices)], again.dictionary)


def spelled_like(values: Iterable[Any], names: Iterable[Any]) -> dict[Any, Any]:
    """How `names` spell each value: itself if it is one of them, else the one that is the same number or truth value.

    Values that no name stands for, or several do, are spelled as they are.
    """
    names = list(names)
    meant: dict[Any, list[Any]] = {}
    for name in names:
        meant.setdefault(_meaning(name), []).append(name)
    exact = set(names)
    alike = {value: meant.get(_meaning(value), [value]) for value in values}
    return {value: same[0] if value not in exact and len(same) == 1 else value for value, same in alike.items()}


def _meaning(name: Any) -> Any:
    """What a name stands for: a number, true or false, or itself; '007' is a name."""
    text = str(name).strip()
    if text.casefold() in ("true", "false"):
        return text.casefold()
    return float(text) if _is_float(text) and not re.match(_LEADING_ZERO, text) else text


def as_text(values: Any) -> Any:
    """Arrow values as text."""
    return values.cast(pa.string())


def values(source: Source, name: str, column: Any) -> NDArray[Any] | pd.Categorical:
    """Numbers (int64, or float64 with NaN where missing) or moments if every value is one, else categories.

    A column of categories, as pandas and Arrow have them, stays one, whatever the categories are.
    """
    if pa.types.is_dictionary(column.type):
        return keys(source, name, column).categorical()
    with _conversion_errors(source, name, column):
        array = _plain(source, name, column)
        is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        if is_text and source.decimal == ",":
            array = _with_points(array)
        numbers = _text_numbers(array) if is_text else array
        if numbers is not None and pa.types.is_duration(numbers.type):
            numbers = pc.divide(as_floats(numbers.cast(pa.int64())), _PER_SECOND[numbers.type.unit])
        if numbers is None or not _is_numeric(numbers.type) or pa.types.is_boolean(numbers.type):
            moments = _moments(array)
            return moments if moments is not None else keys(source, name, array).categorical()
        if pa.types.is_integer(numbers.type) and numbers.null_count == 0:
            with contextlib.suppress(pa.ArrowInvalid):  # from 2**63 on
                return _own(numbers.cast(pa.int64()))
        return _own(as_floats(numbers))


def as_floats(numbers: Any) -> Any:
    """Arrow numbers as float64, whole numbers beyond 2**53 rounded."""
    return numbers.cast(pa.float64(), safe=False)


def _own(numbers: Any) -> NDArray[Any]:
    """An array that is not a frame's own memory, which Arrow may share."""
    result: NDArray[Any] = numbers.to_numpy()
    return result if result.flags.writeable else result.copy()


_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def _plain(source: Source, name: str, column: Any) -> Any:
    """The column without dictionaries."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        shown = str(kind) if len(str(kind)) <= 60 else f"{str(kind)[:57]}..."
        raise DataError(f"{source.name}, column {quoted(name)} holds {shown}; it must hold one number or text per row.")
    return column if column.type == kind else column.cast(kind)


@contextlib.contextmanager
def _conversion_errors(source: Source, name: str, column: Any) -> Iterator[None]:
    """Name the column whose values Arrow cannot convert."""
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(
            f"{source.name}, column {quoted(name)} holds {column.type} that cannot be used ({_first_line(error)}); "
            "convert it to text or numbers."
        ) from None


def _plain_type(source: Source, name: str, column: Any) -> Any:
    """The column with text in a plain text type, checked to be UTF-8; bytes that are no text in hexadecimal."""
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
            raise DataError(
                f"{source.place(row)}, column {quoted(name)}: the text is not UTF-8; write the file again with UTF-8."
            ) from None
    lengths = pc.unique(pc.binary_length(column).drop_null()).to_pylist()
    if len(lengths) > 1:  # bytes of one length are ids or digests
        warnings.warn(
            f"{source.name}, column {quoted(name)} holds bytes that are not UTF-8 text and is read as hexadecimal "
            "digits; write it as text if it is meant as that.",
            DataWarning,
            stacklevel=5,
        )
    mark = "" if min(lengths) >= _ID_LENGTH else "0x"  # short ones would look like numbers
    return _texts(column, lambda value: mark + value.hex())


_ID_LENGTH = 8  # bytes, from which on hexadecimal digits hardly ever are decimal ones alone
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def _texts(column: Any, convert: Callable[[bytes], str]) -> Any:
    """A column of bytes as text, each value converted once."""
    encoded = column.cast(pa.large_binary()).dictionary_encode().combine_chunks()
    names = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.large_string())
    return pa.chunked_array([names.take(encoded.indices)])


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _clean(source: Source, values: Any) -> Any:
    """Unique values as int64 if all are whole numbers, else as stripped text; null where missing."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "True", "False")
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        return values.cast(pa.int64())
    text = _present(as_text(values))
    if source.marks_formulas:
        text = pc.replace_substring_regex(text, FORMULA_MARK, r"\1")
    if text.null_count == len(text) or not pc.all(pc.match_substring_regex(text, _INTEGER)).as_py():
        return text
    return pc.replace_substring_regex(text, r"\.0+$", "").cast(pa.int64())


def _present(text: Any) -> Any:
    """Stripped text, null where it says that the value is missing."""
    text = pc.utf8_trim_whitespace(text)
    missing = pc.is_in(text, value_set=pa.array(MISSING, text.type))
    return pc.if_else(missing, pa.scalar(None, text.type), text)


def _with_points(array: Any) -> Any:
    """Text with points for decimal commas if most of it is numbers then; a list such as 1,2,3 is none."""
    text = pc.utf8_trim_whitespace(array)
    pointed = pc.replace_substring_regex(text, _DECIMAL_COMMA, r"\1.\2")
    share = pc.mean(pc.match_substring_regex(_present(pointed), _FLOAT).cast(pa.float64())).as_py()
    return pointed if share is not None and share > 0.5 else array


def _text_numbers(array: Any) -> Any:
    """The numbers that text stands for, or None if any is not a number or has a leading zero."""
    text = _present(array)
    if text.null_count == len(text) or pc.any(pc.match_substring_regex(text, _LEADING_ZERO)).as_py():
        return None
    for kind in pa.int64(), pa.float64():
        with contextlib.suppress(pa.ArrowInvalid):
            return text.cast(kind)
    return None


def _moments(array: Any) -> NDArray[Any] | None:
    """The moments an array holds or its ISO 8601 text stands for, in UTC where a zone is named; None if any is none."""
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if not (is_text or pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        return None
    values = _present(array) if is_text else array
    if values.null_count == len(values):
        return None
    for unit, zone in itertools.product(("us", "ns"), (None, "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            found = values.cast(pa.timestamp(unit, zone), safe=is_text)
            moments: NDArray[Any] = found.cast(pa.timestamp("us", zone), safe=False).to_numpy()
            return moments
    return None


def _codes(indices: Any) -> NDArray[np.int32]:
    codes: NDArray[np.int32] = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False)
    return codes


def _from_pandas(source: Source, name: str, series: "pd.Series[Any]") -> Any:
    """An Arrow column; a column of mixed objects becomes text."""
    if isinstance(series.dtype, np.dtype):
        series = series.astype(native(series.dtype))
    try:
        try:
            array = pa.array(series, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            array = pa.array([None if _is_missing(value) else str(value) for value in series], pa.string())
    except UnicodeEncodeError:
        raise DataError(
            f"{source.name}, column {quoted(name)} holds text with half of a surrogate pair, which UTF-8 cannot hold; "
            "correct it."
        ) from None
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type as this machine and Arrow have it: in its own order of bytes, and float64 for longer floats."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    return dtype if dtype.isnative or dtype.kind == "V" else dtype.newbyteorder("=")


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _is_number(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype))  # booleans count as numbers


def _is_numeric(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def _is_float(cell: str, decimal: str = ".") -> bool:
    try:
        float(cell if decimal == "." else cell.translate(str.maketrans(",.", ".,")))
    except ValueError:
        return False
    return True


def _json_kind(value: object) -> str | None:
    names = {str: "text", bool: "true/false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value))


def _first_line(error: Exception) -> str:
    """The first line of what Arrow says, without the contents of cells, in which ids may be."""
    return re.sub(r"(: invalid value| got \d+:).*", "", first_line(error)).rstrip(". ")
