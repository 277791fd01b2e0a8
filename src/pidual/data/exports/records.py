"""The records of a JSON file, and what records say about each column.

A file is an array of objects, or objects after each other (JSON Lines); its first character says which.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ...errors.messages import first_line, quoted
from ..sources.base import BLOCK, TextFile

LONGEST = 20_000  # numbers of a vector that become columns
_DECODE = json.JSONDecoder().raw_decode
_SPACES = re.compile(r"\s*")
_VECTOR = pa.list_(pa.float32())
_KINDS = {str: "text", bool: "true/false", int: "a number", float: "a number", list: "a list", dict: "an object"}


class JsonRecords(TextFile):
    """Objects in a JSON file, which may be gzipped."""

    def is_list(self) -> bool:
        """Return whether the file is an array."""
        with self._open("replace") as stream:
            return stream.read(BLOCK).lstrip().startswith("[")

    def first(self) -> dict[str, Any] | None:
        """Read the first record alone; None if there is none."""
        return next(self._objects(BLOCK), None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield every record; anything else than an object is an error."""
        return self._objects(-1)

    def _objects(self, most: int) -> Iterator[dict[str, Any]]:
        try:
            with self._open() as stream:
                text = stream.read(most)
        except UnicodeDecodeError:
            self._check_utf8()
            raise
        for number, value in enumerate(self._values(text), 1):
            if not isinstance(value, dict):
                raise DataError(
                    f"{self.name}, record {number} is {kind(value)}, not an object; write a list of objects, "
                    'such as [{"item": 1, "label": "cat"}].'
                )
            yield value

    def _values(self, text: str) -> Iterator[Any]:
        """Yield the values of an array, or those that stand one after the other."""
        place = _after_spaces(text, 0)
        if not text.startswith("[", place):
            while place < len(text):
                value, place = self._decoded(text, place)
                yield value
            return
        place = _after_spaces(text, place + 1)
        if not text.startswith("]", place):
            value, place = self._decoded(text, place)
            yield value
            while text.startswith(",", place):
                value, place = self._decoded(text, _after_spaces(text, place + 1))
                yield value
            if not text.startswith("]", place):
                raise self._error("expecting ',' or ']'" if place < len(text) else "the list has no end", text, place)
        place = _after_spaces(text, place + 1)
        if place < len(text):
            raise self._error("there is more after the end of the list", text, place)

    def _decoded(self, text: str, place: int) -> tuple[Any, int]:
        """Return the value that begins here, and where the next one begins."""
        try:
            value, end = _DECODE(text, place)
        except json.JSONDecodeError as error:
            raise self._error(error.msg, text, error.pos) from None
        except ValueError as error:  # a number of thousands of digits
            raise self._error(first_line(error), text, place) from None
        except RecursionError:
            raise DataError(
                f"{self.name}, line {_line_of(text, place)} has lists and objects within each other too "
                "deep to read; write it again without them."
            ) from None
        return value, _after_spaces(text, end)

    def _error(self, what: str, text: str, place: int) -> DataError:
        """Return what to raise where the text is not JSON."""
        return DataError(
            f"{self.name}, line {_line_of(text, place)} is not JSON ({what[:1].lower() + what[1:]}); export it again, "
            "or check that it is whole."
        )


def _after_spaces(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return found.end() if found else place


def _line_of(text: str, place: int) -> int:
    return 1 + text.count("\n", 0, place)


def kind(value: object) -> str:
    """Return what a value of JSON is, in words."""
    return _KINDS.get(type(value), "null")


class Columns(NamedTuple):
    """What records say, by column."""

    data: dict[str, Any]  # Arrow columns
    nested: set[str]  # those that hold lists or objects, as JSON text
    vectors: list[list[str]]  # columns that were one column of vectors

    def flat(self) -> dict[str, Any]:
        """Return the columns that hold one number or text per row."""
        return {name: column for name, column in self.data.items() if name not in self.nested}


def as_columns(source: str, records: Sequence[dict[str, Any]]) -> Columns:
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
            raise DataError(
                f"{source}, {quoted(name)} holds text with half of a surrogate pair, which UTF-8 cannot hold; "
                "correct it."
            ) from None
        if column.type != _VECTOR:
            found.data[name] = pa.chunked_array([column])
        elif numbers := vector_columns(name, column):
            found.data.update(numbers)
            found.vectors.append(list(numbers))
        else:
            nested = True
        if nested:
            found.nested.add(name)
    return found


def _column(values: list[Any]) -> tuple[Any, bool]:
    """Return an Arrow array, and whether it holds lists or objects."""
    kinds = {type(value) for value in values} - {type(None)}
    with contextlib.suppress(OverflowError, pa.ArrowInvalid):
        if kinds == {list} and all(value is None or _is_vector(value) for value in values):
            return pa.array(values, _VECTOR), False
        if kinds & {list, dict}:
            return pa.array([_json_text(value) for value in values], pa.large_string()), True
        if kinds in ({int}, {bool}, {float}, {int, float}):
            return pa.array(values), False  # whole numbers beyond 2**63 are an error
    texts = [None if value is None else str(value) for value in values]
    return pa.array(texts, pa.large_string()), list in kinds


def _is_vector(value: list[Any]) -> bool:
    return bool(value) and all(type(number) in (int, float) for number in value)


def _json_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def vector_columns(name: str, column: Any) -> dict[str, Any] | None:
    """Return a column for each number of vectors that all have one length; None if these are not such vectors."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        return None
    lengths = pc.unique(pc.list_value_length(column).drop_null()).to_pylist()
    if len(lengths) != 1 or not 0 < lengths[0] <= LONGEST:
        return None
    values = np.full((len(column), lengths[0]), np.nan, np.float32)
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    present = flat.is_valid().to_numpy(zero_copy_only=False)
    numbers = flat.drop_null().flatten().cast(pa.float32(), safe=False)
    values[present] = numbers.to_numpy(zero_copy_only=False).reshape(-1, lengths[0])
    return {f"{name}_{place}": pa.chunked_array([pa.array(values[:, place])]) for place in range(lengths[0])}
