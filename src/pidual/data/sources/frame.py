"""Tables in memory: a pandas frame, and all that speaks Arrow's C stream."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...errors import DataError
from ...errors.messages import first_line, quoted
from .arrow_types import class_names, native, plain_type, with_names
from .base import Source
from .in_arrow import InArrow


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
        return [column for column, dtype in zip(self.columns, self._frame.dtypes, strict=True) if _is_number(dtype)]


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


def _is_number(dtype: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(dtype))  # booleans count as numbers


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
