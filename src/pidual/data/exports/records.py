"""The records of a JSON file, and what records say about each column.

A file is an array of objects, or JSON Lines; its first character says which.
"""

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ...errors.messages import first_line, quoted
from ..sources.base import BLOCK
from ..sources.file import TextFile
from ..sources.in_arrow import is_list
from ..sources.json_lines import JSON_KINDS

_LONGEST = 20_000  # numbers of a vector that become columns
_VECTOR = pa.list_(pa.float32())
Json = dict[str, Any]  # an object as the file has it: what is in it must be looked at


class JsonRecords(TextFile):
    """Objects in a JSON file, which may be gzipped."""

    def is_list(self) -> bool:
        """Return whether the file is an array."""
        with self._open("replace") as stream:
            return stream.read(BLOCK).lstrip().startswith("[")

    def __iter__(self) -> Iterator[Json]:
        """Yield every record; anything else than an object is an error."""
        is_list = self.is_list()
        try:
            with self._open() as stream:
                texts = [(1, stream.read())] if is_list else enumerate(stream, 1)
                values = (self._decoded(text, line) for line, text in texts if text.strip())
                for number, value in enumerate(itertools.chain.from_iterable(values) if is_list else values, 1):
                    if not isinstance(value, dict):
                        raise DataError(
                            f"{self.name}, record {number} is {kind(value)}, not an object; write a list of objects, "
                            'such as [{"item": 1, "label": "cat"}].'
                        )
                    yield value
        except UnicodeDecodeError:
            self._check_utf8()
            raise

    def _decoded(self, text: str, line: int) -> Any:
        """Return the value of a text that begins in this line."""
        try:
            return json.loads(text)
        except RecursionError:
            what = "has lists and objects within each other too deep to read; write it again without them"
        except ValueError as error:  # or a number of thousands of digits
            line += error.lineno - 1 if isinstance(error, json.JSONDecodeError) else 0
            reason = error.msg if isinstance(error, json.JSONDecodeError) else first_line(error)
            what = f"is not JSON ({reason}); export it again, or check that it is whole"
        raise DataError(f"{self.name}, line {line} {what}.")


def kind(value: object) -> str:
    """Return what a value of JSON is, in words."""
    return JSON_KINDS.get(type(value), "null")


class Columns(NamedTuple):
    """What records say, by column."""

    data: dict[str, Any]  # Arrow columns
    nested: set[str]  # those that hold lists or objects, as JSON text
    vectors: list[list[str]]  # columns that were one column of vectors

    def flat(self) -> dict[str, pa.ChunkedArray]:
        """Return the columns that hold one number or text per row."""
        return {name: column for name, column in self.data.items() if name not in self.nested}


def as_columns(source: str, records: Sequence[Json]) -> Columns:
    """Turn records into Arrow columns; those that hold nothing are left out, vectors have a column for each number.

    Values of several kinds in one column become text, lists and objects JSON text.
    """
    found = Columns({}, set(), [])
    for name in dict.fromkeys(name for record in records for name in record):
        values = [record.get(name) for record in records]
        if all(value is None for value in values):
            continue
        try:
            column, nested = _column(values)
        except UnicodeEncodeError:
            raise DataError(f"{source}, {quoted(name)} holds half of a surrogate pair; write it as UTF-8.") from None
        numbers = vector_columns(name, column)
        if numbers:
            found.data.update(numbers)
            found.vectors.append(list(numbers))
            continue
        if nested:
            found.nested.add(name)
        if column.type != _VECTOR:
            found.data[name] = pa.chunked_array([column])
    return found


def _column(values: list[Any]) -> tuple[Any, bool]:
    """Return an Arrow array, and whether it holds lists or objects."""
    kinds = {type(value) for value in values} - {type(None)}
    with contextlib.suppress(OverflowError, pa.ArrowInvalid):
        if kinds == {list} and all(value is None or _is_vector(value) for value in values):
            return pa.array(values, _VECTOR), True
        if kinds in ({int}, {bool}, {float}, {int, float}):
            return pa.array(values), False  # whole numbers beyond 2**63 are an error
    nested = bool(kinds & {list, dict})
    as_text = _json_text if nested else lambda value: None if value is None else str(value)
    return pa.array(map(as_text, values), pa.large_string()), nested


def _is_vector(value: list[Any]) -> bool:
    return bool(value) and all(type(number) in (int, float) for number in value)


def _json_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def vector_columns(name: str, column: Any) -> dict[str, pa.ChunkedArray] | None:
    """Return a column for each number of vectors that all have one length; None if these are not such vectors."""
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        return None
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    if len(lengths) != 1 or not 0 < lengths[0] <= _LONGEST:
        return None
    values = np.full((len(column), lengths[0]), np.nan, np.float32)
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    present = flat.is_valid().to_numpy(zero_copy_only=False)
    numbers = flat.drop_null().flatten().cast(pa.float32(), safe=False)
    values[present] = numbers.to_numpy(zero_copy_only=False).reshape(-1, lengths[0])
    return {f"{name}_{place}": pa.chunked_array([pa.array(values[:, place])]) for place in range(lengths[0])}
