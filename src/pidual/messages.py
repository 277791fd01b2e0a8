"""Text that comes from data, made fit for a message, a terminal or a spreadsheet.

quoted(value)       in an error or a warning: quoted, and not longer than a line
printable(text)     on a terminal: nothing in it can move the cursor or turn the direction of writing
plain_cells(frame)  in a CSV file for people: no cell is a formula
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # apostrophes that were there before count too, so that one can be taken off
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_MARK = r"^'('*[=+\-@\t\r])"  # what `plain_cells` makes of a formula; \1 is the formula


def quoted(value: object, limit: int = 60) -> str:
    """A value of the data in quotes (numbers without), cut where it is long."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    shown = repr(value[: limit + 1] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def listed(names: Sequence[object], limit: int = 30) -> str:
    """The first of several names, each cut where it is long, and how many there are beyond them."""
    shown = [name if len(name) <= 60 else name[:57] + "..." for name in (str(name)[:61] for name in names[:limit])]
    return ", ".join(shown) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def first_line(error: object) -> str:
    """The first line of another library's message, without its full stop."""
    return str(error).split("\n", 1)[0].rstrip(". ")


def printable(text: str, keep: str = "") -> str:
    r"""Text with control characters, and those that turn the direction of writing, spelled out, such as \x1b.

    Parameters
    ----------
    text : str
    keep : str
        Control characters to leave as they are, such as the ends of lines.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def write_csv(frame: "pd.DataFrame", path: Path | None = None) -> str:
    """Write a frame as CSV in which no spreadsheet takes a text for a formula, or return it as text."""
    plain = plain_cells(frame)
    # Only where it ends lines does Python's writer put a carriage return in quotes.
    texts = [text for position in range(plain.shape[1]) for text in _texts(plain.iloc[:, position])]
    has_return = any("\r" in text for text in [*map(str, plain.columns), *texts])
    written: str | None = plain.to_csv(path, index=False, lineterminator="\r\n" if has_return else "\n")
    return written or ""


def plain_cells(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A frame to be written as CSV in which no spreadsheet takes a text for a formula.

    Text, and names of columns, that begin with = + - @ tab or carriage return get an apostrophe before them; `data`
    takes it off again. Numbers stay as they are, also those held as text.
    """
    changed = {position: _plain_column(frame.iloc[:, position]) for position in range(frame.shape[1])}
    changed = {position: column for position, column in changed.items() if column is not None}
    if changed:
        frame = frame.copy(deep=False)
        for position, column in changed.items():
            frame.isetitem(position, column)
    return frame.set_axis([plain_cell(name) for name in frame.columns], axis=1)


def plain_cell(value: Any) -> Any:
    """A cell that is not a formula: text that a spreadsheet would calculate has an apostrophe before it."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value


def _plain_column(column: "pd.Series[Any]") -> Any:
    """The column with plain cells; None where nothing changes."""
    changed = {text: plain for text in _texts(column) if (plain := plain_cell(text)) != text}
    if not changed:
        return None
    if hasattr(column, "cat"):
        return column.cat.rename_categories([changed.get(name, name) for name in column.cat.categories])
    return column.map(lambda value: changed.get(value, value) if isinstance(value, str) else value)


def _texts(column: "pd.Series[Any]") -> list[str]:
    """The different texts of a column."""
    if column.dtype.kind in "biufcmM":
        return []
    values = column.cat.categories if hasattr(column, "cat") else column.dropna().unique()
    return [value for value in values if isinstance(value, str)]
