"""Show one item at a time out of inputs that may be large: a picture, a text, numbers, what the table says."""

import base64
import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data.images import IMAGE_ENDINGS, as_image, as_pixels, encoded, is_picture, small_image
from ...data.people import hide_addresses
from ...detect.unusual import MOST, Usual, members_of
from ...errors import DataError
from ...metrics import finite_or_none
from .on_disk import OnDisk, array_on_disk

SIDE = 640  # pixels of a picture
SMALL = 128  # pixels up to which a picture is sent without loss
MAX_TEXT = 20_000  # characters of a text
MAX_VALUE = 500  # of a value in a table
MAX_COLUMNS = 60  # of a row

Record = dict[str, Any]
Rows = npt.NDArray[np.int64]


class Pictures:
    """Shows images of a folder, and nothing outside of it, whatever an item is called or a link leads to.

    Parameters
    ----------
    folder : Path
        Where the images are.
    since : datetime
        When the run was made.
    search : callable
        From an item to a path within the folder, or None; for items that are no such paths themselves.
    """

    def __init__(self, folder: Path, since: datetime, search: Any):
        self._folder, self._since, self._search = folder.resolve(), since, search

    def show(self, position: int, item: str) -> Record:
        path = self._inside(item) or self._inside(self._search(item) or "")
        if path is None:
            return {"note": f"The picture of this item is no longer in the folder {self._folder.name}."}
        try:
            image: Any = small_image(path, SIDE)
            newer = path.stat().st_mtime > self._since.timestamp() + 1
        except (DataError, OSError):
            return {"note": "The picture of this item can no longer be read."}
        note = "The file of this picture is newer than the run, and may show something else now." if newer else None
        return {**_sent(image), "note": note}

    def _inside(self, name: str) -> Path | None:
        """Find the file of this name in the folder, if it is one and lies there."""
        if not name or "\0" in name or Path(name).suffix.lower() not in IMAGE_ENDINGS:
            return None
        try:
            path = (self._folder / name).resolve(strict=True)
        except (OSError, RuntimeError):  # not there, no name of a file, or links in a circle
            return None
        return path if path.is_relative_to(self._folder) and path.is_file() else None


class Texts:
    """Shows a text for each item.

    Parameters
    ----------
    texts : pyarrow array of text
        One for each input.
    x_row : array of int
        The input of each label.
    hide : bool
        Write words instead of e-mail addresses.
    """

    def __init__(self, texts: Any, x_row: Rows, hide: bool):
        self._texts, self._x_row, self._hide = OnDisk.column(getattr(texts, "chunks", [texts])), x_row, hide

    def show(self, position: int, item: str) -> Record:
        text = str(self._texts[int(self._x_row[position])]["value"] or "")
        shown = text[: MAX_TEXT + 1]
        shown = hide_addresses(shown) if self._hide else shown
        return {"text": shown if len(text) <= MAX_TEXT else f"{shown[:MAX_TEXT]}…"}


class Numbers:
    """Shows a row of numbers, or an array that is a picture, for each item.

    Parameters
    ----------
    x : array (n, ...)
        The inputs.
    names : sequence of str, optional
        Of the columns.
    x_row : array of int
        The input of each label.
    given, suggested : arrays of int
        The given label, and the likely class, of each label.
    """

    def __init__(self, x: npt.NDArray[Any], names: Sequence[str] | None, x_row: Rows, given: Any, suggested: Any):
        self._x, self._names, self._x_row, self._given = array_on_disk(x), names, x_row, given
        self._likely = np.full(len(x), -1, np.int32)
        self._likely[x_row] = suggested
        self._usual = functools.lru_cache(maxsize=64)(self._find_usual)

    def show(self, position: int, item: str) -> Record:
        value: Any = self._x[int(self._x_row[position])]
        if is_picture(value.shape):
            return _sent(as_image(as_pixels(value)))
        if value.ndim != 1:
            return {}
        value = np.asarray(value, np.float64)
        usual = self._usual(int(self._given[position]))
        unusual = [
            {"column": self._name(at), "value": finite_or_none(value[at])} | _between(usual, at)
            for at, _ in usual.most_unusual(value)
        ]
        return {"unusual": unusual} | _columns({self._name(at): f"{v:.6g}" for at, v in enumerate(value.tolist())})

    def _name(self, column: int) -> str:
        return str(self._names[column]) if self._names else f"column {column}"

    def _find_usual(self, code: int) -> Usual:
        most = int(np.clip(2**22 // self._x.shape[1], 10, MOST))
        return Usual.of(np.asarray(self._x[members_of(code, self._likely, most)], np.float64))


class Fields:
    """Shows what the table says about each item beside its labels.

    Parameters
    ----------
    columns : iterable of str and iterable of pyarrow arrays
        With a value for each row of the table.
    hide : bool
        Write words instead of e-mail addresses.
    """

    def __init__(self, columns: Iterable[tuple[str, Iterable[Any]]], hide: bool):
        self._columns, self._hide = {name: OnDisk.column(arrays) for name, arrays in columns}, hide

    def show(self, position: int, item: str) -> Record:
        found = {name: column[position]["value"] for name, column in self._columns.items()}
        values = {name: "" if value is None else str(value)[:MAX_TEXT] for name, value in found.items()}
        if self._hide:
            values = {name: hide_addresses(value) for name, value in values.items()}
        return _columns(values)


def _columns(values: Mapping[str, str]) -> Record:
    """Describe a row of a table, cut where it is too long to be looked at."""
    shown = list(values.items())[:MAX_COLUMNS]
    cut = [(name, value if len(value) <= MAX_VALUE else f"{value[:MAX_VALUE]}…") for name, value in shown]
    return {
        "columns": [{"column": name[:MAX_VALUE], "value": value} for name, value in cut],
        "more_columns": len(values) - len(shown),
    }


def _between(usual: Usual, column: int) -> Record:
    return {"low": finite_or_none(usual.low[column]), "high": finite_or_none(usual.high[column])}


def _sent(image: Any) -> Record:
    """Encode a picture as the page shows it: a small one as it is, pixel by pixel."""
    small = max(image.size) <= SMALL
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    kind = "PNG" if small else "JPEG"
    data = base64.b64encode(encoded(image, kind)).decode()
    return {"picture": data, "picture_type": f"image/{kind.lower()}", "pixelated": small}
