"""Return what a run keeps of its most suspicious items: a text, or the columns that are unusual."""

from dataclasses import dataclass, field
from typing import Any

from ..metrics import finite_or_none
from ..run.files import RunFiles

MAX_TEXT = 2_000  # characters of anything that is shown


@dataclass(frozen=True)
class _Unusual:
    """A column in which an item is far from others of its class, and where most of these lie."""

    column: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class _Preview:
    """What is known about the input of a label."""

    text: str | None = None
    unusual: list[_Unusual] = field(default_factory=list)


NOTHING = _Preview()


def previews(run: RunFiles) -> dict[int, _Preview]:
    """Return what is kept of items, by the row of a label."""
    found: dict[int, _Preview] = {}
    for row, of_row in run.previews.groupby("row", sort=False):
        records = of_row.to_dict("records")
        texts = [record["text"] for record in records if record["text"]]
        unusual = [
            _Unusual(str(cut(record["column"])), value, finite_or_none(record["low"]), finite_or_none(record["high"]))
            for record in records
            if not record["text"] and (value := finite_or_none(record["value"])) is not None
        ]
        found[int(str(row))] = _Preview(cut(texts[-1]) if texts else None, unusual)
    return found


def cut(text: Any) -> str | None:
    """Limit the length of a text."""
    text = None if text is None else str(text)
    return text if text is None or len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
