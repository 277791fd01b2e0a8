"""Files with one JSON object per line."""

import itertools
import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.json

from ...errors import DataError
from ...errors.messages import quoted
from ..paths import File
from ..people import shown
from .base import BLOCK, arrow_message
from .file import TextFile
from .in_arrow import is_list, is_numeric

MAX_DEPTH = 500  # of lists and objects within each other in JSON; Python's reader takes 990, Arrow's crashes at 10,000
_NULL = re.compile(rb"[\r\n][ \t]*null[ \t]*(?=[\r\n]|$)")
JSON_KINDS = {str: "text", bool: "true/false", int: "a number", float: "a number", list: "a list", dict: "an object"}
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


class JsonLines(TextFile):
    """A file with one JSON object per line."""

    def __init__(self, file: File | str | Path):
        super().__init__(file)
        self._check_depth()
        try:
            self._schema = self._find_types()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            self._explain(error)
        self.columns = self._schema.names

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        found = super()._read(columns, numeric)
        try:
            for column in found.values():
                column.validate(full=True)  # the reader lets bytes pass that are not UTF-8
        except pa.ArrowException as error:
            self._explain(error)
        return found

    def _format(self, columns: Sequence[str], numeric: Collection[str], block: int) -> tuple[Any, Any]:
        types = pa.schema([self._schema.field(name) for name in columns])
        options = pyarrow.dataset.JsonFragmentScanOptions(
            pyarrow.json.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
            pyarrow.json.ReadOptions(block_size=block),
        )
        return pyarrow.dataset.JsonFileFormat(default_fragment_scan_options=options), types

    def _find_types(self) -> Any:
        """Return the names and types of all columns, looking at the lines of a block at a time.

        Arrow turns text that looks like a date into a time; an item called 2020-01-01 is to keep its name.
        """
        found, rest = pa.schema([]), b""
        for block in itertools.chain(self._blocks(), [b"\n"]):
            whole, _, rest = (rest + block).rpartition(b"\n") if block != b"\n" else (rest, b"", b"")
            if whole.strip(b"\xef\xbb\xbf \t\r\n"):
                table = pyarrow.json.read_json(pa.BufferReader(whole), pyarrow.json.ReadOptions(block_size=2 * BLOCK))
                table.validate(full=True)
                types = pa.schema([(field.name, _without_times(field.type)) for field in table.schema])
                found = pa.unify_schemas([found, types], promote_options="permissive")
        if not len(found):
            self._explain(ValueError("no columns"))
        return found

    def numeric_columns(self) -> list[str]:
        return [field.name for field in self._schema if is_numeric(field.type)]

    def holds_lists(self, column: str | None) -> bool:
        return column in self and is_list(self._schema.field(column).type)

    def place(self, row: int) -> str:
        """Return the file and line of row `row`."""
        for line, _ in itertools.islice(self._records(), row, None):
            return f"{self.name}, line {line}"
        return super().place(row)

    def _check_depth(self) -> None:
        """Raise for lists and objects within each other more deeply than the readers take, and for null as a line.

        Arrow crashes where null is the first line of a block.

        Brackets within text are counted too at first, which is fast; where these are too many, lines are looked at.
        """
        depth = deepest = 0
        before = b"\n"
        for block in self._blocks():
            if _NULL.search(before + block):
                self._explain(ValueError("null"))
            before = block[-32:]
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
                    what = f"lists and objects within each other more than {MAX_DEPTH} deep"
                    raise DataError(f"{self.name}, line {line} has {what}; write a number or text for each column.")

    def _records(self) -> Iterator[tuple[int, str]]:
        with self._open("replace") as lines:
            yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())

    def _explain(self, error: Exception, numeric: Collection[str] = ()) -> NoReturn:
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
                kind = JSON_KINDS.get(type(value))
                if kind and kinds.setdefault(column, kind) != kind:
                    what = f"{shown(column, value)} is {kind}, and the lines before hold {kinds[column]}"
                    raise DataError(
                        f"{self.name}, line {line}, column {quoted(column)}: {what}; write one kind of value."
                    )
        if line == 0:
            raise DataError(f"{self.name} is empty; it needs one JSON object per line.")
        raise DataError(f"{self.name} cannot be read as JSON Lines ({arrow_message(error)}); write it again.")


def _without_times(kind: Any) -> Any:
    """Return a type of JSON with text for times, which Arrow finds in text that looks like a date."""
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_times(field.type)) for field in kind])
    return pa.string() if pa.types.is_timestamp(kind) else kind
