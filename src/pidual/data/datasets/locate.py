"""Find and read a dataset's files, with one kind of message where they are missing or incomplete."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError


class MissingError(DataError):
    """Files that the authors publish are missing."""


def _find_file(folder: Path, *names: str) -> Path | None:
    """Find the first of these files in `folder`, or in its folder `data` as in a clone of the authors' repository."""
    places = [place / name for name in names for place in (folder, folder / "data")]
    return next((path for path in places if path.is_file()), None)


def need_file(folder: Path, *names: str, source: str) -> Path:
    """As `_find_file`; an error that says where the authors publish the file if it is missing."""
    path = _find_file(folder, *names)
    if path is None:
        raise MissingError(f"{folder} has no {' or '.join(names)}; get it from {source}.")
    return path


def load_array(path: Path) -> NDArray[Any]:
    """Read the array in a plain NumPy file."""
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a plain NumPy file ({error}); get it again.") from None
    return array


def read_columns(file: Path | IO[bytes], columns: Sequence[str], source: str) -> pd.DataFrame:
    """Read these columns of a CSV file with a header, which may be compressed (.gz)."""
    name = file if isinstance(file, Path) else file.name
    try:
        frame = pd.read_csv(file, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"{name} cannot be read as CSV ({str(error).strip()}); get it again from {source}.") from None
    absent = [column for column in columns if column not in frame]
    if absent:
        raise DataError(
            f"{name} has no column {absent[0]!r} (it has: {', '.join(map(str, frame))}); get it again from {source}."
        )
    return frame[list(columns)]


def whole_numbers(frame: pd.DataFrame, column: str, place: str | Path) -> NDArray[np.int64]:
    """Return a column of whole numbers; an error names the first row that is none."""
    values = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
    fine = np.isfinite(values) & (values == np.round(values))
    if not fine.all():
        row = int(np.argmin(fine))
        value = frame[column].iloc[row]
        raise DataError(
            f"{place}, row {frame.index[row]} (counted from 0), column {column!r}: '{value}' is not a whole number."
        )
    return values.astype(np.int64)
