"""What every dataset here is once it is read, and how its files are found and read, with one kind of message."""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError
from ...files import fingerprint
from .. import Inputs


@dataclass(frozen=True, eq=False)
class NoisyDataset:
    """A training set with noisy labels and privileged information, and a test set with clean labels.

    Parameters
    ----------
    name : str
        Key of DATASETS, with the variant behind a colon where there is one ("cifar10n:aggregate").
    frame : DataFrame
        One row per annotation: item (row of `x`), label and y (clean), both as numbers of `classes`; and the PI. Where
        clean labels are known for some items only, y is of the type Int64 and missing for the others.
    pi : mapping
        PI column to its kind: "category", "number" or "duration".
    x : array or Inputs
        Vectors (N, D), uint8 images (N, 3, H, W), or inputs that are read from disk when they are needed.
    x_test : array or Inputs
        The same of the test set.
    y_test : int array
        Clean labels of `x_test`.
    classes : list of str
        Names of the classes.
    about : mapping
        What is worth knowing beside it, such as how many files it came from.
    whole : bool
        Whether it is all that its authors published; only then may results be compared with those of others.

    See Also
    --------
    load_dataset : Loads one.

    Examples
    --------
    >>> from pidual import AnnotationTable, load_dataset
    >>> data = load_dataset("digits_pi:high")
    >>> round(data.noise_rate, 1)
    0.7
    >>> AnnotationTable.from_frame(data.frame, pi=list(data.pi), keep_ids=True).pi_columns
    ['annotator', 'confidence', 'annotator_accuracy', 'annotator_size']
    """

    name: str
    frame: pd.DataFrame
    pi: Mapping[str, str]
    x: NDArray[Any] | Inputs
    x_test: NDArray[Any] | Inputs
    y_test: NDArray[np.int64]
    classes: list[str]
    about: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, {len(self.frame):,} annotations of {self.frame['item'].nunique():,} "
            f"items, {len(self.classes)} classes, {self.noise_rate:.1%} wrong; PI: {', '.join(self.pi) or 'none'})"
        )

    @property
    def noise_rate(self) -> float:
        """Share of annotations whose label is wrong, among those whose clean label is known."""
        known = self.frame.dropna(subset="y")
        return float((known["label"] != known["y"]).mean())

    def fingerprint(self) -> str:
        """Hex digest of annotations, clean labels and inputs, of evenly spaced inputs where there are very many.

        Of inputs that are read from disk only the shape counts.
        """
        return fingerprint(self._bytes())

    def _bytes(self) -> Iterator[bytes]:
        yield pd.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes()
        yield self.y_test.tobytes()
        for x in (self.x, self.x_test):
            yield str((x.array if isinstance(x, Inputs) else x).shape).encode()
            if not isinstance(x, Inputs):
                yield np.ascontiguousarray(x[:: 1 + x.nbytes // 2**26]).tobytes()


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
