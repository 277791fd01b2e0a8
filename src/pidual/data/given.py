"""Labels and a classifier's probabilities of their classes, in any form: arrays, lists, frames, files.

given = read_given(labels, pred_probs)          # one label per row, or a column for every annotator
given.codes, given.row                          # one entry per label: its class, and its row of given.probs
read_values("labels.csv:answer", "labels")      # labels, annotators or names of items from a file
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from ..errors.messages import listed, quoted
from .build import complete
from .columns import as_text
from .load import load_numpy
from .opening import open_source
from .probabilities import as_floats, check_columns, check_probabilities
from .sources.in_arrow import in_pandas

MISSING = -1
_NUMPY = (".npy", ".npz")
USUAL = {
    "labels": ("label", "labels", "given_label"),
    "annotator": ("annotator", "worker", "annotator_id"),
    "items": ("item", "task", "id"),
}


@dataclass(frozen=True)
class Given:
    """Labels of the rows of an array of probabilities; `source` is what messages call these."""

    codes: NDArray[np.int64]  # (M,) the class of every label that is there
    places: tuple[NDArray[np.int64], ...]  # its row and, where labels have a column for every annotator, its column
    shape: tuple[int, ...]  # of the labels
    classes: list[Any]  # in the order of the columns of `probs`
    probs: NDArray[Any]  # (N, K)
    annotators: NDArray[Any] | None = None  # (M,) who gave each label
    items: NDArray[Any] | None = None  # (N,) names of the rows
    source: str = "pred_probs"
    item: NDArray[np.int64] | None = None  # (M,) the row of `probs` of every label, where items have several labels

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of `probs` of every label."""
        return self.places[0] if self.item is None else self.item

    @property
    def names(self) -> pd.Index:
        """What the rows are called: their numbers where nothing else is known."""
        return pd.RangeIndex(len(self.probs)) if self.items is None else pd.Index(self.items)


def read_given(
    labels: Any,
    pred_probs: Any,
    *,
    classes: Sequence[Any] | None = None,
    annotators: Any = None,
    items: Any = None,
    source: str = "labels",
) -> Given:
    """Check labels and probabilities, except for the values of the latter, which the reader checks.

    `labels` (N,) (N, A): numbers of columns of `pred_probs`, or names of classes; with a column for every annotator,
        -1, NaN or None where one gave none.
    `pred_probs` (N, K).
    `classes`: names of the columns of `pred_probs`.
    `annotators` (N,): who gave each label, where there is one per row.
    `items` (N,): names of the rows; labels of one name are answers to one item, whose probabilities are then the mean
        of its rows, or a row for each item: by its name in the index of a frame, else by its number.
    `source`: what messages call the labels.
    """
    labels, pred_probs, annotators, items = map(in_pandas, (labels, pred_probs, annotators, items))
    probs, columns, name = _probabilities(pred_probs)
    array = _array(labels, source)
    if array.ndim not in (1, 2) or not array.size:
        what = f"{source} has the shape {array.shape}"
        raise DataError(f"{what}; give one label per row, or a column for every annotator.")
    named = _names(items, len(array), "items")
    several = named is not None and pd.unique(named).size < len(named)
    if len(probs) != len(array) and not several:
        raise DataError(f"{source} has {len(array):,} rows and {name} has {len(probs):,}; give as many in both.")
    known = list(classes) if classes is not None else columns if array.dtype.kind in "OU" else None
    check_columns(probs, probs.shape[-1] if known is None else known, name)
    if probs.shape[1] < 2:
        raise DataError(f"{name} has one column, and at least two classes are needed.")
    codes, known = _label_codes(array, known, probs.shape[1], source, name)
    places = tuple(np.nonzero(codes != MISSING)) if array.ndim == 2 else (np.arange(len(codes)),)
    if not len(places[0]):
        raise DataError(f"{source} holds no label: all of it is missing.")
    if np.ptp(codes[places]) == 0:
        raise DataError(
            f"{source} holds the class {quoted(known[codes[places][0]])} alone; give labels of all classes together."
        )
    who = _names(annotators, len(array), "annotators")
    if array.ndim == 2:
        if who is not None:
            raise UsageError("labels have a column for every annotator, so leave out `annotators`.")
        people = labels.columns if isinstance(labels, pd.DataFrame) else [f"{j}" for j in range(array.shape[1])]
        who = np.asarray([str(one) for one in people], dtype=object)[places[1]]
    if named is None or not several:
        return Given(codes[places], places, array.shape, known, probs, who, named, name)
    if array.ndim == 2:
        raise UsageError("labels have a column for every annotator, so each row is an item; leave out `items`.")
    item, unique = pd.factorize(named)
    index = pred_probs.index if isinstance(pred_probs, pd.DataFrame) else None
    probs = _of_items(probs, index, item, np.asarray(unique), name)
    return Given(codes[places], places, array.shape, known, probs, who, np.asarray(unique), name, item.astype(np.int64))


def _of_items(
    probs: NDArray[Any], index: pd.Index | None, item: NDArray[Any], names: NDArray[Any], source: str
) -> NDArray[Any]:
    """Return the probabilities of every item: the mean of those of its labels, or its own row."""
    check_probabilities(probs, probs.shape[1], source)
    if len(probs) == len(item):
        total = np.zeros((len(names), probs.shape[1]))
        np.add.at(total, item, as_floats(np.asarray(probs)))
        return total / np.bincount(item)[:, None]
    rows = pd.RangeIndex(len(probs)) if index is None else index
    found = rows.get_indexer(pd.Index(names)) if rows.is_unique else np.full(len(names), -1)
    if (found < 0).any():
        raise DataError(
            f"{source} has {len(probs):,} rows for {len(item):,} labels of {len(names):,} items, and none for item "
            f"{quoted(names[np.argmin(found)])}; give a row for each label, or a frame with the items as its index."
        )
    return np.asarray(probs[found])


def read_given_sets(
    labels: Any, pred_probs: Any, classes: Sequence[Any] | None = None
) -> tuple[NDArray[np.bool_], NDArray[Any], list[Any]]:
    """Return which classes each row has (N, K), their probabilities and their names, from a list of lists."""
    probs, columns, name = _probabilities(in_pandas(pred_probs))
    names = list(classes or columns or range(probs.shape[1]))
    check_columns(probs, names, name)
    if len(labels) != len(probs):
        raise DataError(f"labels has {len(labels):,} rows and {name} has {len(probs):,}; give as many in both.")
    place = {one: at for at, one in enumerate(names)}
    said = np.zeros(probs.shape, bool)
    for row, several in enumerate(labels):
        if isinstance(several, str) or not np.iterable(several):
            raise DataError(
                f"labels, row {row} (counted from 0), is not a list; with multi_label give one for each row."
            )
        for one in several:
            if one not in place:
                known = f"the classes are {listed(names, 10)}"
                raise DataError(f"labels, row {row} (counted from 0): {quoted(one)} is not a class; {known}.")
            said[row, place[one]] = True
    return said, probs, names


def _probabilities(given: Any) -> tuple[NDArray[Any], list[Any] | None, str]:
    """Return the array, names of its columns where it has any, and what to call it."""
    if isinstance(given, str | Path):
        if Path(given).suffix.lower() not in _NUMPY:
            raise UsageError(f"{given} is not a .npy or .npz file; save the probabilities with numpy.save.")
        array, columns, name = load_numpy(given, ("pred_probs", "x"), mode="r")[0], None, str(given)
    elif isinstance(given, pd.DataFrame):
        array, columns, name = given.to_numpy(), list(given.columns), "pred_probs"
    else:
        array, columns, name = _array(given, "pred_probs"), None, "pred_probs"
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name} holds {array.dtype} values; probabilities must be numbers.")
    if array.ndim != 2 or not len(array):
        raise DataError(f"{name} has the shape {array.shape}; it must have one row per label and one column per class.")
    return array, columns, name


def _array(given: Any, source: str) -> NDArray[Any]:
    if isinstance(given, np.ndarray):
        return given
    try:
        return given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given)
    except ValueError:
        raise DataError(f"{source} has rows of different lengths; give as many values in each.") from None


def _names(given: Any, n: int, source: str) -> NDArray[Any] | None:
    """Check that there is one name for every row, none of them missing."""
    if given is None:
        return None
    array = _array(given, source)
    if array.ndim != 1 or len(array) != n:
        raise DataError(f"{source} has the shape {array.shape} and there are {n:,} rows of labels; give one for each.")
    missing = np.flatnonzero(pd.isna(array))
    if len(missing):
        raise DataError(f"{source}, row {missing[0]} (counted from 0): the value is missing; give one for each row.")
    return array


# --- labels as columns of the probabilities ---


def _label_codes(
    array: NDArray[Any], classes: list[Any] | None, k: int, source: str, probs: str
) -> tuple[NDArray[np.int64], list[Any]]:
    """Return labels as columns of the probabilities, MISSING where there is none, and the names of these."""
    kind, missing = array.dtype.kind, np.asarray(pd.isna(array), dtype=bool)
    one_per_class = array.ndim == 2 and kind in "iubf" and array.shape[1] == k
    if one_per_class and ((array == 0) | (array == 1)).all() and (array.sum(1) == 1).all():
        raise DataError(f"{source} looks like one-hot labels; its columns are annotators, so give labels.argmax(1).")
    if array.ndim == 2 and kind in "ifO":  # among several annotators -1 stands for no label too
        missing |= np.asarray(array == MISSING, dtype=bool)
    if array.ndim == 1 and missing.any():
        raise DataError(f"{source}, {_row(missing)}: the label is missing; leave the row out.")
    _refuse_parts(array, missing, source)
    values = array[~missing]
    names = _names_of_columns(values, classes, k, source, probs)
    if kind == "O" and all(isinstance(one, int | np.integer) for one in values):
        values = values.astype(np.int64)
    by_number = values.dtype.kind in "iubf" and not all(isinstance(one, int | np.integer) for one in names)
    index = pd.RangeIndex(k) if by_number else pd.Index(names)
    codes = np.full(array.shape, MISSING, np.int64)
    codes[~missing] = index.get_indexer(pd.Index(values).astype(index.dtype) if by_number else pd.Index(values))
    wrong = ~missing & (codes < 0)
    if wrong.any():
        value = quoted(array[tuple(np.argwhere(wrong)[0])])
        known = f"{probs} has {k} columns, so that labels go from 0 to {k - 1}"
        if classes is not None or not isinstance(names[0], int):
            known = f"the classes are {listed(names, 10)}"
        raise DataError(f"{source}, {_row(wrong)}: {value} is not a class; {known}.")
    return codes, names


def _refuse_parts(array: NDArray[Any], missing: NDArray[np.bool_], source: str) -> None:
    """Raise for the first label that is a float; whole ones are taken where floats are there for NaN alone."""
    if array.dtype.kind == "O":
        strange = np.frompyfunc(lambda one: not isinstance(one, str | int | np.integer), 1, 1)(array).astype(bool)
    elif array.dtype.kind == "f":
        strange = np.ones(array.shape, dtype=bool) if array.ndim == 1 else array != np.floor(array)
    else:
        strange = np.full(array.shape, array.dtype.kind not in "iubU")
    strange &= ~missing
    if strange.any():
        value = array[tuple(np.argwhere(strange)[0])]
        what = f"{quoted(value)} is of the type {type(value).__name__}; labels are whole numbers or names of classes"
        way_out = "; give labels.astype(int)" if isinstance(value, float) and value.is_integer() else ""
        raise DataError(f"{source}, {_row(strange)}: {what}{way_out}.")


def _row(where: NDArray[np.bool_]) -> str:
    place = np.argwhere(where)[0]
    return f"row {place[0]}" + (f", column {place[1]}" if len(place) == 2 else "") + " (counted from 0)"


def _names_of_columns(values: NDArray[Any], classes: list[Any] | None, k: int, source: str, probs: str) -> list[Any]:
    """Return names of the classes: those given, else numbers, or the labels sorted if there is one for every column."""
    if classes is not None:
        again = pd.Series(classes, dtype=object).duplicated()
        if again.any():
            raise UsageError(f"classes has {quoted(classes[int(np.argmax(again))])} twice; name every column once.")
        return classes
    if values.dtype.kind in "iubf" or not any(isinstance(one, str) for one in values):
        return list(range(k))
    names = sorted({str(one) for one in values})
    if len(names) != k:
        raise DataError(
            f"{source} has {len(names)} names ({listed(names, 5)}) and {probs} {k} columns; say with classes= "
            "(--classes) which column is which class."
        )
    return names


# --- files ---


def read_values(place: str, role: str, table: str | None = None) -> NDArray[Any]:
    """Read one value for every row, or several columns of them from a NumPy file.

    `place`: FILE, or FILE:COLUMN; a column of `table` where there is no such file.
    `role` ("labels", "annotator" or "items"): what the values are: an array of this name is read from a .npz file, a
        column of a usual name from a table.
    `table`: the table that labels come from.
    """
    path, column = _split(place)
    if path is None:
        if table is None or (own := _split(table)[0]) is None or own.suffix.lower() in _NUMPY:
            raise UsageError(f"{place} does not exist; give --{role} as a file, or as FILE:COLUMN of a table.")
        path, column = own, place
    if path.suffix.lower() in _NUMPY:
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
    """Return the file, and the column after it; no file where there is none of this name."""
    whole, (front, colon, column) = Path(place), place.rpartition(":")
    if not _exists(whole) and colon and _exists(Path(front)):
        return Path(front), column
    looks_like_a_file = whole.suffix.lower() in (*_NUMPY, ".csv", ".tsv", ".parquet", ".jsonl", ".gz")
    return (whole, None) if _exists(whole) or looks_like_a_file else (None, None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False
