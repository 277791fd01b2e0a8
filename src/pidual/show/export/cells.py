"""Change single cells of a text file and leave every other byte as it is: encoding, separators, quotes, ends of lines.

A new label is written as the file itself writes it elsewhere, so that `1.0`, `"cat"` and `'=x` keep their spelling.
"""

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...data import spelled_like
from ...data.people import shown
from ...errors import DataError
from ...errors.messages import quoted
from ...files import FORMULA_MARK

Cell = tuple[int, str]  # record, counted from 0 without the header, and column


class Edit(NamedTuple):
    """Names a cell that is to be written like another one, and the labels that are expected in both.

    Without another one, `new` is written: a text or a list. `old` is None where any cell is expected.
    """

    cell: Cell
    like: Cell | None
    old: str | None
    new: Any


def edit_csv(path: Path, out: Path, columns: list[str], delimiter: str, edits: list[Edit]) -> None:
    """Write a file of separated values again with some cells changed.

    `path`, `out`: the file, and where to write; the file may be gzipped.
    `columns`: its columns, in order.
    `delimiter`: what separates cells.
    """
    place = {name: number for number, name in enumerate(columns)}
    cell = _cell(delimiter)

    def span(record: str, column: str) -> tuple[int, int]:
        position = 0
        for _ in range(place[column]):
            found = cell.match(record, position)
            position = (found.end() if found else position) + 1
        found = cell.match(record, position)
        if found is None or position > len(record):
            raise DataError(f"{path} has no cell {quoted(column)} in the line {quoted(record)}; check the file.")
        return found.span()

    def literal(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if re.search(rf'["\r\n{re.escape(delimiter)}]', text) else text

    _edit(path, out, lambda: _csv_records(path, len(columns), delimiter), span, _csv_label, literal, edits)


def edit_json_lines(path: Path, out: Path, edits: list[Edit]) -> None:
    """Write a file of JSON Lines again with some values changed; the parameters are as for `edit_csv`."""

    def span(record: str, column: str) -> tuple[int, int]:
        found = dict(_json_spans(record)).get(column)
        if found is None:
            raise DataError(f"{path} has no value {quoted(column)} in the line {quoted(record)}; check the file.")
        return found

    literal = partial(json.dumps, ensure_ascii=False)
    _edit(path, out, lambda: _json_records(path), span, lambda raw: str(json.loads(raw)).strip(), literal, edits)


def _edit(
    path: Path,
    out: Path,
    records: Callable[[], Iterator[tuple[int | None, str]]],
    span: Callable[[str, str], tuple[int, int]],
    label: Callable[[str], str],
    literal: Callable[[Any], str],
    edits: list[Edit],
) -> None:
    """Find how labels are written, then write; a cell with another label is an error."""

    def found(record: str, cell: Cell, expected: str | None) -> tuple[int, int]:
        start, end = span(record, cell[1])
        held = label(record[start:end])
        if expected is not None and spelled_like([held], [expected])[held] != expected:
            raise DataError(
                f"{path}, record {cell[0] + 1}, column {quoted(cell[1])} holds {shown(cell[1], held)} where the run "
                f"has {quoted(expected)}; give the table as it was."
            )
        return start, end

    wanted: dict[int, dict[str, str]] = {}
    changes: dict[int, list[Edit]] = {}
    for edit in edits:
        if edit.like is not None:
            wanted.setdefault(edit.like[0], {})[edit.like[1]] = edit.new
        changes.setdefault(edit.cell[0], []).append(edit)
    spelled: dict[Cell, str] = {}
    for number, record in records():
        for column, expected in wanted.pop(number, {}).items() if number is not None else ():
            start, end = found(record, (number or 0, column), expected)
            spelled[number or 0, column] = record[start:end]
        if not wanted:
            break
    with out.open("w", encoding="utf-8", newline="") as file:
        for number, record in records():
            mine = changes.pop(number, []) if number is not None else []
            new = [
                (*found(record, edit.cell, edit.old), spelled[edit.like] if edit.like else literal(edit.new))
                for edit in mine
            ]
            for start, end, text in sorted(new, reverse=True):
                record = record[:start] + text + record[end:]
            file.write(record)
    if changes or wanted:
        raise DataError(f"{path} has fewer records than the run; give the table as it was.")


def _cell(delimiter: str) -> re.Pattern[str]:
    """Match a cell of a record: quoted, where the quote is its first character, or up to the next separator."""
    other = rf"[^{re.escape(delimiter)}\r\n]*"
    return re.compile(rf'"(?:[^"]|"")*+"{other}|{other}')


def _csv_label(raw: str) -> str:
    """Read the label in a cell, without quotes, spaces and the mark of a formula."""
    if quoted_part := re.fullmatch(r'"((?:[^"]|"")*+)"([^"]*)', raw):
        raw = quoted_part[1].replace('""', '"') + quoted_part[2]
    return re.sub(FORMULA_MARK, r"\1", raw.strip())


def _open(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _csv_records(path: Path, width: int, delimiter: str) -> Iterator[tuple[int | None, str]]:
    """Read every record with its number, None for the header and for blank lines; a quoted cell may span lines."""
    number, lines = -1, list[str]()
    with _open(path) as file:
        read = (lines.append(line) or line for line in file)  # type: ignore[func-returns-value]
        for _ in csv.reader(read, delimiter=delimiter):
            record = "".join(lines)
            lines.clear()
            blank = not record.strip("\r\n\ufeff") or (width > 1 and not record.strip("\ufeff \t\r\n"))
            yield (None if blank or number < 0 else number), record
            number += not blank


def _json_records(path: Path) -> Iterator[tuple[int | None, str]]:
    number = 0
    with _open(path) as lines:
        for line in lines:
            blank = not line.strip("\ufeff \t\r\n")
            yield (None if blank else number), line
            number += not blank


def _json_spans(record: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Find the names of an object, and where their values stand."""
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
