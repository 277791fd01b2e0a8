"""CSV files for people, who may open them in a spreadsheet: no cell is a formula."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # apostrophes that were there before count too, so that one can be taken off
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_MARK = r"^'('*[=+\-@\t\r])"  # what `plain_cells` makes of a formula; \1 is the formula


def write_csv(frame: "pd.DataFrame", path: Path | None = None) -> str:
    """Write a frame as CSV in which no spreadsheet takes a text for a formula, or return it as text."""
    plain = plain_cells(frame)
    # Only where it ends lines does Python's writer put a carriage return in quotes.
    texts = [text for position in range(plain.shape[1]) for text in _texts(plain.iloc[:, position])]
    has_return = any("\r" in text for text in [*map(str, plain.columns), *texts])
    written: str | None = plain.to_csv(path, index=False, lineterminator="\r\n" if has_return else "\n")
    return written or ""


def plain_cells(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a frame to be written as CSV in which no spreadsheet takes a text for a formula.

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
    """Return a cell that is not a formula: text that a spreadsheet would calculate has an apostrophe before it."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value


def _plain_column(column: "pd.Series[Any]") -> Any:
    """Return the column with plain cells; None where nothing changes."""
    changed = {text: plain for text in _texts(column) if (plain := plain_cell(text)) != text}
    if not changed:
        return None
    if hasattr(column, "cat"):
        return column.cat.rename_categories([changed.get(name, name) for name in column.cat.categories])
    return column.map(lambda value: changed.get(value, value) if isinstance(value, str) else value)


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Return the different texts of a column."""
    if column.dtype.kind in "biufcmM":
        return []
    values = column.cat.categories if hasattr(column, "cat") else column.dropna().unique()
    return [value for value in values if isinstance(value, str)]
