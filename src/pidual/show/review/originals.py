"""Show the items of a run as its inputs have them: whole texts, larger pictures, rows of the table.

A run keeps a little of its most suspicious items; the rest is in the files that it was made of. They are opened when an
item is first asked for. Where they have gone or changed, the page says so and shows what the run keeps.
"""

import functools
import logging
import threading
import warnings
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from ...data import load_inputs, open_source, rows_by_name, table_inputs
from ...data.images import IMAGE_ENDINGS
from ...data.inputs import feature_names
from ...data.reopen import item_columns, reopen_table
from ...data.text import read_texts, text_digest
from ...errors import PidualError
from ...run.files import RunFiles
from ...run.records.model import InputSchema
from .readers import MAX_COLUMNS, Fields, Numbers, Pictures, Record, Rows, Texts

EMPTY: Record = {"picture": None, "text": None, "unusual": [], "columns": [], "more_columns": 0, "note": None}


class Reader(Protocol):
    """Shows one item: some of `EMPTY`."""

    def show(self, position: int, item: str) -> Record:
        """Show the item of the label at this position in the predictions."""


class GoneError(Exception):
    """Says why the inputs cannot be shown."""


class Originals:
    """Shows every item of a run.

    Parameters
    ----------
    run : RunFiles
        A finished run.
    x : Path, optional
        Where the inputs are, or the table where these are columns of it; by default where the run read them.
    """

    def __init__(self, run: RunFiles, x: Path | None = None):
        self._run, self._lock = run, threading.Lock()
        source = run.config.source
        self._table, self._read = source.table or "", source.read
        self._x = str(x or source.x or "")
        self._moved = x is not None

    def show(self, position: int, item: str) -> Record:
        """Show the item of the label at this position in the predictions.

        Several threads may ask; one at a time is answered.
        """
        with self._lock:
            reader = self._reader
            return EMPTY | ({"note": reader} if isinstance(reader, str) else reader.show(position, item))

    @functools.cached_property
    def _reader(self) -> Reader | str:
        """Return what reads the items, or say why nothing does."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit has warned
                opened = self._open()
                pa.default_memory_pool().release_unused()
                return opened
        except GoneError as gone:
            return str(gone)
        except Exception as error:  # files that have changed since then raise all kinds
            logging.getLogger("uvicorn.error").error(error)
            return (
                f"The items cannot be shown: {_name(self._x)} cannot be read as it was; the server's terminal says why."
            )

    def _open(self) -> Reader:
        kind = self._schema.kind
        if self._in_table and not self._moved:
            self._x = self._table
        if not self._x or (self._in_table and self._read is None):
            raise GoneError("The run was fitted on data in memory; only the copies it keeps can be shown.")
        if not Path(self._x).exists():
            raise GoneError(
                f"{_name(self._x)}, which the run was made of, is not where it was; start the review in the folder in "
                "which the run was fitted, or say where it is with --x."
            )
        if kind == "images":
            since = datetime.fromisoformat(self._run.config.created)
            return Pictures(Path(self._x), since, self._search)
        if kind in ("none", "probabilities"):
            return self._open_fields()
        return self._open_texts() if kind == "text" else self._open_numbers()

    @property
    def _schema(self) -> InputSchema:
        return self._run.model.inputs

    @functools.cached_property
    def _in_table(self) -> bool:
        """Say whether what is shown of items is in the table of labels itself."""
        x = self._run.config.source.x or ""
        return self._schema.kind in ("none", "probabilities") or x.startswith(f"{self._table} (")

    def _open_texts(self) -> Reader:
        column, item = str(self._schema.text), self._schema.item
        if self._in_table:
            source, roles = self._opened_table()
            texts, names = read_texts(source, column, roles.item, repeats=True)
        else:
            source = open_source(self._x, items=True)
            item = item if item is not None and item in source else source.find("item", "task")
            texts, names = read_texts(source, column, item, repeats=False)
        self._check(text_digest(texts))
        return Texts(texts, self._x_row(names, len(texts)), self._hides)

    def _open_numbers(self) -> Reader:
        if self._in_table:
            source, roles = self._opened_table()
            inputs = table_inputs(source, item=roles.item, schema=self._schema.to_json())
        else:
            inputs = load_inputs(self._x, schema=self._schema.to_json())
        self._check(inputs.digest())
        assert isinstance(inputs.array, np.ndarray)
        labels = self._run.read_predictions(["row", "given_label", "consensus_label", "predicted_label"])
        x_row = self._x_row(inputs.names, len(inputs))
        return Numbers(inputs.array, feature_names(self._schema.to_json()), x_row, labels.given, labels.suggested)

    def _open_fields(self) -> Reader:
        source, roles = self._opened_table()
        named = islice(item_columns(source, roles), MAX_COLUMNS)
        return Fields(((called, source.batches(name)) for called, name in named), self._hides)

    def _opened_table(self) -> tuple[Any, Any]:
        labels = self._run.read_predictions(["row", "given_label"]).frame
        given = labels.set_index("row")["given_label"]
        found = reopen_table(
            self._x, {} if self._read is None else self._read.to_json(), given, self._run.config.data.n_rows
        )
        if found is None:
            raise GoneError(f"{_name(self._x)} no longer has the labels of the run; its items are not shown.")
        return found

    def _check(self, digest: str) -> None:
        if digest != self._run.config.data.x_fingerprint:
            raise GoneError(f"{_name(self._x)} has changed since the run was made; its items are not shown.")

    @property
    def _hides(self) -> bool:
        return not self._run.config.data.keep_ids

    def _items(self) -> Any:
        return self._run.read_predictions(["row", "item", "given_label"]).frame["item"].cat

    def _x_row(self, names: Any, n: int) -> Rows:
        """Find the input of each label, as `data.x_rows` does."""
        if names is None and n == self._run.config.data.n_rows:
            return np.arange(n)
        items = self._items()
        known = pd.Index(items.categories.astype(str))
        rows = rows_by_name(names, known) if names is not None else known.to_numpy().astype(np.int64)
        if ((rows < 0) | (rows >= n)).any():
            raise GoneError(f"{_name(self._x)} no longer has all items of the run; they are not shown.")
        joined: Rows = np.asarray(rows, np.int64)[items.codes.to_numpy()]
        return joined

    @functools.cached_property
    def _found(self) -> dict[str, str]:
        """Find the file of every item whose name is not the path of one."""
        folder = Path(self._x)
        paths = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS and not path.is_dir())
        names = np.array(sorted(path.relative_to(folder).as_posix() for path in paths), dtype=np.str_)
        if not len(names):
            return {}
        items = pd.Index(self._items().categories.astype(str))
        rows = rows_by_name(names, items, paths=True, source=_name(self._x))
        return {item: str(names[row]) for item, row in zip(items, rows.tolist(), strict=True) if row >= 0}

    def _search(self, item: str) -> str | None:
        try:
            return self._found.get(item)
        except (PidualError, OSError):  # the folder has other files now, by which names mean two
            return None


def _name(path: str | None) -> str:
    return Path(path or "").name
