"""Columns that grow row by row, kept as Arrow arrays so that few Python objects are alive at a time."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ...errors.messages import quoted

ROWS = 20_000  # of Python objects before they become an Arrow array
LONGEST = 20_000  # numbers of a vector that become columns
_VECTOR = pa.list_(pa.float32())


class Store:
    """Rows of JSON values by column; values of several kinds in one column become text, lists and objects JSON text.

    Parameters
    ----------
    name : str
        Name of the table in messages.
    """

    def __init__(self, name: str):
        self.name, self._n = name, 0
        self.nested: set[str] = set()  # columns that hold lists or objects as JSON text
        self.vectors: list[list[str]] = []  # columns that were vectors, known after `columns`
        self._waiting: dict[str, list[Any]] = {}
        self._arrays: dict[str, list[Any]] = {}
        self._done = 0  # rows in arrays

    def __len__(self) -> int:
        return self._n

    def add(self, row: dict[str, Any]) -> None:
        """Add a row; a column that it does not have is missing there."""
        place = self._n - self._done
        for name, value in row.items():
            column = self._waiting.get(name)
            if column is None:
                column = self._waiting[name] = []
            if len(column) < place:
                column.extend([None] * (place - len(column)))
            column.append(value)
        self._n += 1
        if self._n - self._done >= ROWS:
            self._flush()

    def columns(self) -> dict[str, Any]:
        """All rows as Arrow columns; those that hold nothing are left out, vectors have a column for each number."""
        self._flush()
        found: dict[str, Any] = {}
        for name, arrays in self._arrays.items():
            column = _joined(arrays)
            if column is None:
                continue
            if column.type != _VECTOR:
                found[name] = column
            elif (numbers := vector_columns(name, column)) is not None:
                found |= numbers
                self.vectors.append(list(numbers))
            else:
                self.nested.add(name)
        return found

    def _flush(self) -> None:
        n = self._n - self._done
        for name in dict.fromkeys([*self._arrays, *self._waiting]):
            values = self._waiting.get(name, [])
            values.extend([None] * (n - len(values)))
            arrays = self._arrays.setdefault(name, [pa.nulls(self._done)] if self._done else [])
            arrays.append(self._array(name, values))
        self._waiting, self._done = {}, self._n

    def _array(self, name: str, values: list[Any]) -> Any:
        kinds = {type(value) for value in values} - {type(None)}
        try:
            if kinds == {list} and all(value is None or _is_vector(value) for value in values):
                return pa.array(values, _VECTOR)
            if kinds & {list, dict}:
                self.nested.add(name)
                return pa.array([_json_text(value) for value in values], pa.large_string())
            if kinds == {str}:
                return pa.array(values, pa.large_string())
            if kinds in ({int}, {bool}, {float}, {int, float}):
                return pa.array(values)  # whole numbers beyond 2**63 are an error
            return pa.array([None if value is None else str(value) for value in values], pa.large_string())
        except (OverflowError, pa.ArrowInvalid):
            self.nested |= {name} if list in kinds else set()
            return pa.array([None if value is None else str(value) for value in values], pa.large_string())
        except UnicodeEncodeError:
            raise DataError(
                f"{self.name}, {quoted(name)} holds text with half of a surrogate pair, which UTF-8 cannot hold; "
                "correct it."
            ) from None


def _is_vector(value: list[Any]) -> bool:
    return bool(value) and all(type(number) in (int, float) for number in value)


def _json_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _joined(arrays: list[Any]) -> Any:
    """One column of several arrays in a type that holds them all; None where all is missing."""
    types = {array.type for array in arrays if not pa.types.is_null(array.type) and array.null_count < len(array)}
    if not types:
        return None
    if len(types) == 1:
        (kind,) = types
    elif types == {pa.int64(), pa.float64()}:
        kind = pa.float64()
    else:
        kind = pa.large_string()
    return pa.chunked_array([_cast(array, kind) for array in arrays], kind)


def _cast(array: Any, kind: Any) -> Any:
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if kind == pa.float64():
        return array.cast(kind, safe=False)
    return pa.array([_json_text(value) if isinstance(value, list) else value for value in array.to_pylist()]).cast(kind)


def vector_columns(name: str, column: Any) -> dict[str, Any] | None:
    """A column for each number of vectors that all have the same length; None if these are not such vectors."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        return None
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    if len(lengths) != 1 or not 0 < lengths[0] <= LONGEST:
        return None
    values = np.full((len(column), lengths[0]), np.nan, np.float32)
    flat = column.combine_chunks()
    present = flat.is_valid().to_numpy(zero_copy_only=False)
    numbers = flat.drop_null().flatten().cast(pa.float32(), safe=False)
    values[present] = numbers.to_numpy(zero_copy_only=False).reshape(-1, lengths[0])
    return {f"{name}_{place}": pa.chunked_array([pa.array(values[:, place])]) for place in range(lengths[0])}
