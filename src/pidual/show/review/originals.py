"""Show the items of a run as its inputs have them: whole texts, larger pictures, rows of the table.

A run keeps a little of its most suspicious items; the rest is in the files that it was made of. They are opened when an
item is first asked for. Where they have gone or changed, the page says so and shows what the run keeps.
"""

import base64
import functools
import logging
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ...data import load_inputs, open_source, rows_by_name, table_inputs
from ...data.features import read_texts, text_digest
from ...data.images import IMAGE_ENDINGS, as_image, as_pixels, encoded, is_picture, small_image
from ...data.inputs import feature_names
from ...data.paths import is_there
from ...data.people import hide_addresses
from ...data.reopen import item_columns
from ...data.roles import Roles
from ...data.sources import Source
from ...detect.unusual import MOST, Usual, members_of
from ...errors import DataError, PidualError
from ...metrics import finite_or_none
from ...run.files import RunFiles
from ..table import reopen

SIDE = 640  # pixels of a picture
SMALL = 128  # pixels up to which a picture is sent without loss
MAX_TEXT = 20_000  # characters of a text
MAX_VALUE = 500  # of a value in a table
MAX_COLUMNS = 60  # of a row

Record = dict[str, Any]
Rows = npt.NDArray[np.int64]
Show = Callable[[int, str], Record]  # from the position of a label in the predictions and its item to some of EMPTY
EMPTY: Record = {"picture": None, "text": None, "unusual": [], "columns": [], "more_columns": 0, "note": None}


class _GoneError(Exception):
    """Says why the inputs cannot be shown."""


class Originals:
    """Shows every item of a run.

    `run`: a finished run.
    `x`: where the inputs are, or the table where these are columns of it; by default where the run read them.
    """

    def __init__(self, run: RunFiles, x: Path | None = None):
        source, self._run, self._schema = run.config.source, run, run.model.inputs
        self._only_table = self._schema.kind in ("none", "probabilities")  # which says what there is to see
        self._in_table = self._only_table or (source.x or "").startswith(f"{source.table} (")
        self._x = str(x or (source.table if self._in_table else source.x) or "")
        self._name = Path(self._x).name

    def show(self, position: int, item: str) -> Record:
        """Show the item of the label at this position in the predictions."""
        shows = self._shows
        return EMPTY | ({"note": shows} if isinstance(shows, str) else shows(position, item))

    @functools.cached_property
    def _shows(self) -> Show | str:
        """Return what shows the items, or say why nothing does."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit has warned
                opened = self._open()
                pa.default_memory_pool().release_unused()
                return opened
        except _GoneError as gone:
            return str(gone)
        except Exception as error:  # files that have changed since then raise all kinds
            logging.getLogger("uvicorn.error").error(error)
            return f"The items cannot be shown: {self._name} cannot be read as it was; the server's terminal says why."

    def _open(self) -> Show:
        if not self._x or (self._in_table and self._run.config.source.read is None):
            raise _GoneError("The run was fitted on data in memory; only the copies it keeps can be shown.")
        if not is_there(self._x):
            raise _GoneError(
                f"{self._name}, which the run was made of, is not where it was; start the review in the folder in "
                "which the run was fitted, or say where it is with --x."
            )
        if self._only_table:
            return self._open_rows()
        kinds = {"images": self._open_pictures, "text": self._open_texts}
        return kinds.get(self._schema.kind, self._open_numbers)()

    def _open_pictures(self) -> Show:
        """Show images of the folder, and nothing outside of it, whatever an item is called or a link leads to."""
        folder, since = Path(self._x).resolve(), datetime.fromisoformat(self._run.config.created).timestamp()

        def inside(name: str) -> Path | None:
            if not name or "\0" in name or Path(name).suffix.lower() not in IMAGE_ENDINGS:
                return None
            try:
                path = (folder / name).resolve(strict=True)
            except (OSError, RuntimeError):  # not there, no name of a file, or links in a circle
                return None
            return path if path.is_relative_to(folder) and path.is_file() else None

        def show(position: int, item: str) -> Record:
            path = inside(item) or inside(self._file_of(item))
            if path is None:
                return {"note": f"The picture of this item is no longer in the folder {folder.name}."}
            try:
                image: Any = small_image(path, SIDE)
                newer = path.stat().st_mtime > since + 1
            except (DataError, OSError):
                return {"note": "The picture of this item can no longer be read."}
            note = "The file of this picture is newer than the run, and may show something else now." if newer else None
            return {**_sent(image), "note": note}

        return show

    def _open_texts(self) -> Show:
        column, item = str(self._schema.text), self._schema.item
        if self._in_table:
            source, roles = self._table()
            texts, names = read_texts(source, column, roles.item, repeats=True)
        else:
            source = open_source(self._x, items=True)
            item = item if item is not None and item in source else source.find("item", "task")
            texts, names = read_texts(source, column, item, repeats=False)
        self._check(text_digest(texts))
        x_row = self._x_row(names, len(texts))

        def show(position: int, item: str) -> Record:
            text = str(texts[int(x_row[position])].as_py() or "")
            shown = self._shown(text[: MAX_TEXT + 1])
            return {"text": shown if len(text) <= MAX_TEXT else f"{shown[:MAX_TEXT]}…"}

        return show

    def _open_numbers(self) -> Show:
        """Show a row of numbers, or an array that is a picture."""
        schema = self._schema.to_json()
        if self._in_table:
            source, roles = self._table()
            inputs = table_inputs(source, item=roles.item, schema=schema)
        else:
            inputs = load_inputs(self._x, schema=None if self._schema.embed else schema)  # pictures, if embedded
        self._check(inputs.digest())
        x, names, x_row = inputs.array, feature_names(schema), self._x_row(inputs.names, len(inputs))
        assert isinstance(x, np.ndarray)
        labels = self._run.read_predictions(["row", "given_label", "consensus_label", "predicted_label"])
        likely = np.full(len(x), -1, np.int32)
        likely[x_row] = labels.suggested

        @functools.lru_cache(maxsize=64)
        def usual(code: int) -> Usual:
            most = int(np.clip(2**22 // x.shape[1], 10, MOST))
            return Usual.of(np.asarray(x[members_of(code, likely, most)], np.float64))

        def name(column: int) -> str:
            return str(names[column]) if names else f"column {column}"

        def show(position: int, item: str) -> Record:
            value: Any = x[int(x_row[position])]
            if is_picture(value.shape):
                return _sent(as_image(as_pixels(value)))
            if value.ndim != 1:
                return {}
            value, others = np.asarray(value, np.float64), usual(int(labels.given[position]))
            unusual = [
                {"column": name(at)}
                | {"value": finite_or_none(value[at]), "low": finite_or_none(others.low[at])}
                | {"high": finite_or_none(others.high[at])}
                for at, _ in others.most_unusual(value)
            ]
            return {"unusual": unusual} | _columns({name(at): f"{v:.6g}" for at, v in enumerate(value.tolist())})

        return show

    def _open_rows(self) -> Show:
        """Show what the table says about an item beside its labels."""
        source, roles = self._table()
        named = islice(item_columns(source, roles), MAX_COLUMNS)
        columns = {called: pa.chunked_array([*source.batches(name)]) for called, name in named}

        def show(position: int, item: str) -> Record:
            found = {name: column[position].as_py() for name, column in columns.items()}
            values = {name: "" if value is None else str(value)[:MAX_TEXT] for name, value in found.items()}
            return _columns({name: self._shown(value) for name, value in values.items()})

        return show

    def _shown(self, text: str) -> str:
        """Write words instead of e-mail addresses, unless the run keeps ids."""
        return text if self._run.config.data.keep_ids else hide_addresses(text)

    def _table(self) -> tuple[Source, Roles]:
        found = reopen(self._run, self._x)
        if found is None:
            raise _GoneError(f"{self._name} no longer has the labels of the run; its items are not shown.")
        return found

    def _check(self, digest: str) -> None:
        if digest != self._run.config.data.x_fingerprint:
            raise _GoneError(f"{self._name} has changed since the run was made; its items are not shown.")

    @functools.cached_property
    def _items(self) -> Any:
        return self._run.read_predictions(["row", "item", "given_label"]).frame["item"].cat

    def _x_row(self, names: Any, n: int) -> Rows:
        """Find the input of each label, as `data.x_rows` does."""
        if names is None and n == self._run.config.data.n_rows:
            return np.arange(n)
        known = pd.Index(self._items.categories.astype(str))
        rows = rows_by_name(names, known) if names is not None else known.to_numpy().astype(np.int64)
        if ((rows < 0) | (rows >= n)).any():
            raise _GoneError(f"{self._name} no longer has all items of the run; they are not shown.")
        joined: Rows = np.asarray(rows, np.int64)[self._items.codes.to_numpy()]
        return joined

    def _file_of(self, item: str) -> str:
        """Find the file of an item whose name is not the path of one; "" where there is none."""
        try:
            return self._files.get(item, "")
        except (PidualError, OSError):  # the folder has other files now, by which names mean two
            return ""

    @functools.cached_property
    def _files(self) -> dict[str, str]:
        folder = Path(self._x)
        paths = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS and not path.is_dir())
        names = np.array(sorted(path.relative_to(folder).as_posix() for path in paths), dtype=np.str_)
        if not len(names):
            return {}
        items = pd.Index(self._items.categories.astype(str))
        rows = rows_by_name(names, items, paths=True, source=self._name)
        return {item: str(names[row]) for item, row in zip(items, rows.tolist(), strict=True) if row >= 0}


def _columns(values: Mapping[str, str]) -> Record:
    """Describe a row of a table, cut where it is too long to be looked at."""
    shown = list(values.items())[:MAX_COLUMNS]
    cut = [(name, value if len(value) <= MAX_VALUE else f"{value[:MAX_VALUE]}…") for name, value in shown]
    return {
        "columns": [{"column": name[:MAX_VALUE], "value": value} for name, value in cut],
        "more_columns": len(values) - len(shown),
    }


def _sent(image: Any) -> Record:
    """Encode a picture as the page shows it: a small one as it is, pixel by pixel."""
    small = max(image.size) <= SMALL
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    kind = "PNG" if small else "JPEG"
    data = base64.b64encode(encoded(image, kind)).decode()
    return {"picture": data, "picture_type": f"image/{kind.lower()}", "pixelated": small}
