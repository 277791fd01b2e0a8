"""Change single cells of a text file and leave every other byte as it is: encoding, separators, quotes, ends of lines.

A new label is written as the file itself writes it elsewhere, so that `1.0`, `"cat"` and `'=x` keep their spelling.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ..errors import DataError
from ..messages import quoted

Cell = tuple[int, str]  # record, counted from 0 without the header, and column


class Edit(NamedTuple):
    """A cell that is to be written like another one."""

    cell: Cell
    like: Cell


def edit_csv(path: Path, out: Path, columns: list[str], delimiter: str, edits: list[Edit]) -> None:
    """Write a file of separated values again with some cells changed.

    Parameters
    ----------
    path, out : Path
        The file, and where to write; the file may be gzipped.
    columns : list of str
        Its columns, in order.
    delimiter : str
        What separates cells.
    edits : list of Edit
    """
    place = {name: number for number, name in enumerate(columns)}
    cell = re.compile(rf'"(?:[^"]|"")*"[^{re.escape(delimiter)}\r\n]*|[^{re.escape(delimiter)}\r\n]*')

    def span(record: str, column: str) -> tuple[int, int]:
        position = 0
        for _ in range(place[column]):
            found = cell.match(record, position)
            position = (found.end() if found else position) + 1
        found = cell.match(record, position)
        if found is None or position > len(record):
            raise DataError(f"{path} has no cell {quoted(column)} in the line {quoted(record)}; check the file.")
        return found.span()

    _edit(path, out, lambda: _csv_records(path, len(columns)), span, edits)


def edit_json_lines(path: Path, out: Path, edits: list[Edit]) -> None:
    """Write a file of JSON Lines again with some values changed; the parameters are as for `edit_csv`."""

    def span(record: str, column: str) -> tuple[int, int]:
        found = dict(_json_spans(record)).get(column)
        if found is None:
            raise DataError(f"{path} has no value {quoted(column)} in the line {quoted(record)}; check the file.")
        return found

    _edit(path, out, lambda: _json_records(path), span, edits)


def _edit(
    path: Path,
    out: Path,
    records: Callable[[], Iterator[tuple[int | None, str]]],
    span: Callable[[str, str], tuple[int, int]],
    edits: list[Edit],
) -> None:
    """Two passes: the first finds how labels are written, the second writes."""
    wanted: dict[int, set[str]] = {}
    for edit in edits:
        wanted.setdefault(edit.like[0], set()).add(edit.like[1])
    spelled: dict[Cell, str] = {}
    for number, record in records():
        if number is None:
            continue
        for column in wanted.get(number, ()):
            start, end = span(record, column)
            spelled[number, column] = record[start:end]
    changes: dict[int, dict[str, Cell]] = {}
    for edit in edits:
        changes.setdefault(edit.cell[0], {})[edit.cell[1]] = edit.like
    with out.open("w", encoding="utf-8", newline="") as file:
        for number, record in records():
            if number is not None and number in changes:
                new = [(*span(record, column), spelled[like]) for column, like in changes[number].items()]
                for start, end, text in sorted(new, reverse=True):
                    record = record[:start] + text + record[end:]
            file.write(record)


def _open(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _csv_records(path: Path, width: int) -> Iterator[tuple[int | None, str]]:
    """Every record with its number, None for the header and for blank lines; a quoted cell may span lines."""
    number = -1
    with _open(path) as lines:
        record = ""
        for line in lines:
            record += line
            if record.count('"') % 2:
                continue
            blank = not record.strip("\r\n\ufeff") or (width > 1 and not record.strip("\ufeff \t\r\n"))
            yield (None if blank or number < 0 else number), record
            number += not blank
            record = ""
        if record:
            yield None, record


def _json_records(path: Path) -> Iterator[tuple[int | None, str]]:
    number = 0
    with _open(path) as lines:
        for line in lines:
            blank = not line.strip("\ufeff \t\r\n")
            yield (None if blank else number), line
            number += not blank


def _json_spans(record: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The names of an object, and where their values stand."""
    decode = json.JSONDecoder().raw_decode
    position = _next(record, 0, "\ufeff")
    if record[position : position + 1] != "{":
        return
    position = _next(record, position + 1)
    while record[position : position + 1] == '"':
        name, end = decode(record, position)
        start = _next(record, _next(record, end) + 1)  # after the colon
        _, end = decode(record, start)
        yield name, (start, end)
        position = _next(record, end)
        if record[position : position + 1] == ",":
            position = _next(record, position + 1)


def _next(record: str, position: int, more: str = "") -> int:
    while record[position : position + 1] and record[position] in f" \t\r\n{more}":
        position += 1
    return position
