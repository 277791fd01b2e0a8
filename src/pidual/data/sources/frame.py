"""A pandas frame in memory."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...errors import DataError
from ...errors.messages import quoted
from .arrow_types import native, plain_type
from .base import Source


class Frame(Source):
    """A pandas frame in memory."""

    def __init__(self, frame: pd.DataFrame, name: str = "table"):
        self.name = name
        self.columns = [str(column) for column in frame.columns]
        self._frame = frame

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, Any]:
        positions = {column: position for position, column in enumerate(self.columns)}
        return {
            column: plain_type(self, column, _from_pandas(self, column, self._frame.iloc[:, positions[column]]))
            for column in columns
        }

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
