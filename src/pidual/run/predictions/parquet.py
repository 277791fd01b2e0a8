"""Frames of a run as Parquet files: written whole, with the classes of their label columns, and checked when read."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import RunError
from ...files import replacing
from ..records.config import TableNotes
from ..records.reading import DAMAGED, FORMAT, parse_record
from .columns import CATEGORY_COLUMNS, LABEL_COLUMNS, Column

ROWS_PER_GROUP = 1 << 20
MAX_DICTIONARY = 500_000  # a text column with more values is stored as plain text: Parquet reads that faster
PNG = b"\x89PNG\r\n\x1a\n"


def label_column(codes: npt.ArrayLike, classes: Sequence[Any]) -> Any:
    """Return codes as a pandas categorical over all classes; a code of -1 is a missing label."""
    return pd.Categorical.from_codes(np.asarray(codes, dtype=np.int64), categories=pd.Index(list(classes)))


def write_frame(
    path: str | Path, frame: pd.DataFrame, *, pi_columns: Iterable[str] = (), has_input: bool = True
) -> None:
    """Write predictions, items or annotators to Parquet, atomically, with the classes of their label columns."""
    labels = [name for name in LABEL_COLUMNS if name in frame and isinstance(frame[name].dtype, pd.CategoricalDtype)]
    categories = {name: frame[name].cat.categories.tolist() for name in labels}
    notes = TableNotes(FORMAT, categories, list(pi_columns), has_input)
    table = pa.table({str(name): _to_arrow(frame[name]) for name in frame})
    table = table.replace_schema_metadata({"pidual": json.dumps(notes.to_json())})
    with replacing(Path(path)) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROWS_PER_GROUP)


def read_frame(
    path: str | Path, columns: Sequence[str] | None = None, schema: Mapping[str, Column] | None = None
) -> pd.DataFrame:
    """Read what `write_frame` wrote, label columns again as categories with all their classes.

    `columns`: read these only.
    `schema`: what the columns must hold.
    """
    return read_with_notes(Path(path), columns, schema or {})[0]


def column_names(path: str | Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    with _readable(Path(path)):
        names: list[str] = pq.read_schema(path).names
        return names


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what is wrong where a Parquet file cannot be read."""
    if not path.is_file():
        raise RunError(f"There is no {path.name} in {path.parent.name or path.parent}; fit or detect writes it.")
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{path} is not a Parquet file that can be read ({reason[:200]}); fit again.") from error


def read_with_notes(
    path: Path, columns: Sequence[str] | None, expected: Mapping[str, Column]
) -> tuple[pd.DataFrame, TableNotes]:
    """Read columns of a Parquet file (None: all), which must hold what is `expected`, and what was noted of them."""
    with _readable(path):
        schema = pq.read_schema(path)
        text = (schema.metadata or {}).get(b"pidual", b"").decode()
    if not text:
        raise RunError(f"{path} was not written by pidual; fit again.")
    notes = parse_record(path, text, TableNotes, place="schema metadata 'pidual'")
    for name in columns or ():
        if name not in schema.names:
            raise RunError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}.")
    expected = {name: column for name, column in expected.items() if name not in notes.pi_columns}
    for name, column in expected.items():
        if name not in schema.names and column.required:
            raise RunError(f"{path} was not written by pidual or is damaged: it has no column {name!r}; fit again.")
        if name in schema.names and column.kind == "label" and not notes.categories.get(name):
            raise RunError(f"{path} was not written by pidual: it does not say what classes {name!r} has; fit again.")
    with _readable(path):
        table = pq.read_table(path, columns=list(columns) if columns is not None else None)
        read = {}
        for name in table.column_names:
            problem = _problem(table[name], expected.get(name))
            values = None if problem else _from_arrow(name, table[name], notes.categories.get(name))
            if problem or values is None:
                problem = problem or "holds a label that is none of its classes"
                raise RunError(f"{path} cannot be used: column {name!r} {problem}; {DAMAGED}.")
            read[name] = values
    return pd.DataFrame(read), notes


def _problem(column: pa.ChunkedArray, expected: Column | None) -> str | None:
    kind = column.type
    if pa.types.is_nested(kind):
        return f"holds {kind} values"
    if expected is None:
        return None
    if column.null_count and not expected.missing:
        return "has missing values"
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    empty = len(column) == 0 and pa.types.is_null(kind)
    is_name = _is_text(values) or pa.types.is_integer(values)
    right_type, words = {
        "share": (pa.types.is_floating(kind), "must hold numbers from 0 to 1"),
        "number": (pa.types.is_floating(kind), "must hold finite numbers"),
        "count": (pa.types.is_integer(kind), "must hold whole numbers of at least 0"),
        "flag": (pa.types.is_boolean(kind), "must hold true or false"),
        "text": (_is_text(values) or empty, "must hold text"),
        "png": (pa.types.is_binary(kind) or empty, "must hold PNG images"),
        "label": (is_name, "must hold class names"),
        "name": (is_name or empty, "must hold names"),
    }[expected.kind]
    return None if right_type and _in_range(column, expected.kind) else words


def _in_range(column: pa.ChunkedArray, kind: str) -> bool:
    """Return whether all values of a column of the right type are what its kind allows."""
    if kind == "png":
        return all(image.startswith(PNG) for image in column.to_pylist())
    if kind not in ("share", "number", "count"):
        return True
    numbers = column.drop_null().to_numpy()
    low, high = {"share": (0, 1 + 1e-6), "number": (-np.inf, np.inf), "count": (0, np.inf)}[kind]
    return bool((np.isfinite(numbers) & (numbers >= low) & (numbers <= high)).all())


def _to_arrow(column: "pd.Series[Any]") -> pa.Array:
    """Return an Arrow column; integer and very many categories as plain values, text categories as a dictionary."""
    try:
        array = pa.Array.from_pandas(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types
        array = pa.Array.from_pandas(column.astype("str").astype("category"))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if len(array) and pa.types.is_null(array.type):  # text of which none is known, in pandas 2
        array = array.cast(pa.string())
    if not pa.types.is_dictionary(array.type):
        return array
    plain = not _is_text(array.type.value_type) or len(array.dictionary) > MAX_DICTIONARY
    return array.dictionary_decode() if plain else array


def plain_arrow(column: "pd.Series[Any]") -> pa.Array:
    """Return an Arrow column without a dictionary, which may have another type of index where there are more values."""
    array = _to_arrow(column)
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) or pa.types.is_null(array.type) else array


def arrow_reader(path: Path) -> pa.RecordBatchReader:
    """Return a reader of a Parquet file of ours, some rows at a time."""
    with _readable(path):
        file = pq.ParquetFile(path)
        return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())


def _from_arrow(name: str, column: pa.ChunkedArray, categories: list[Any] | None) -> Any:
    """Return a pandas column; labels, items and annotators as categories, None where a label is none of its classes."""
    if categories is not None and not pa.types.is_dictionary(column.type):
        found = pc.index_in(column, pa.array(categories, column.type), skip_nulls=True)
        codes = pc.fill_null(found, -1)
        return label_column(codes.to_numpy(), categories) if found.null_count == column.null_count else None
    if name in CATEGORY_COLUMNS and not pa.types.is_dictionary(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return pd.Categorical.from_codes(codes, categories=pd.Index(encoded.dictionary.to_pandas()))
    values = column.to_pandas()
    if categories is None:
        return values
    return values.cat.set_categories(categories) if {*values.cat.categories} <= {*categories} else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
