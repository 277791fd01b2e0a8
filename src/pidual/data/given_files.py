"""Labels, annotators and names of items from files: a NumPy file, or a column of a table."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .arrays import load_numpy
from .build import complete
from .columns import as_text
from .sources import open_source

NUMPY = (".npy", ".npz")
USUAL = {
    "labels": ("label", "labels", "given_label"),
    "annotator": ("annotator", "worker", "annotator_id"),
    "items": ("item", "task", "id"),
}


def read_values(place: str, role: str, table: str | None = None) -> NDArray[Any]:
    """One value for every row, or several columns of them from a NumPy file.

    Parameters
    ----------
    place : str
        FILE, or FILE:COLUMN; a column of `table` where there is no such file.
    role : "labels", "annotator" or "items"
        What the values are: an array of this name is read from a .npz file, a column of a usual name from a table.
    table : str, optional
        The table that labels come from.
    """
    path, column = _split(place)
    if path is None:
        if table is None or (own := _split(table)[0]) is None or own.suffix.lower() in NUMPY:
            raise UsageError(f"{place} does not exist; give --{role} as a file, or as FILE:COLUMN of a table.")
        path, column = own, place
    if path.suffix.lower() in NUMPY:
        if column is not None:
            raise UsageError(f"{path} has no columns; give --{role} without ':{column}'.")
        array = load_numpy(path, (role, *USUAL[role]))[0]
        return np.asarray(array)
    source = open_source(path)
    column = column or source.find(*USUAL[role]) or (source.columns[0] if len(source.columns) == 1 else None)
    if column is None:
        raise UsageError(f"{path} has several columns; say which one has the {role}, as --{role} {path}:COLUMN.")
    source.require(column, role)
    found = complete(source, column, source.read([column])[column], role.rstrip("s"))
    names = found.names if role == "labels" else as_text(found.names)
    values = names.to_pylist()
    return np.asarray(values, dtype=np.int64 if all(isinstance(one, int) for one in values) else object)[found.codes]


def _split(place: str) -> tuple[Path | None, str | None]:
    """The file, and the column after it; no file where there is none of this name."""
    whole, (front, colon, column) = Path(place), place.rpartition(":")
    if not _exists(whole) and colon and _exists(Path(front)):
        return Path(front), column
    looks_like_a_file = whole.suffix.lower() in (*NUMPY, ".csv", ".tsv", ".parquet", ".jsonl", ".gz")
    return (whole, None) if _exists(whole) or looks_like_a_file else (None, None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False
