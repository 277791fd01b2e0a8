"""Labels as columns of an array of probabilities: class names or numbers in any of the usual types."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from ..errors.messages import listed, quoted

MISSING = -1


def label_codes(
    array: NDArray[Any], classes: list[Any] | None, k: int, source: str, probs: str
) -> tuple[NDArray[np.int64], list[Any]]:
    """Labels as columns of the probabilities, MISSING where there is none, and the names of these."""
    _refuse_one_hot(array, k, source)
    missing = _missing(array)
    if array.ndim == 1 and missing.any():
        raise DataError(f"{source}, {_row(missing)}: the label is missing; leave the row out.")
    values = array[~missing]
    _refuse_parts(array, missing, source)
    names = _names_of_columns(values, classes, k, source, probs)
    if values.dtype.kind == "O" and all(isinstance(one, int | np.integer) for one in values):
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


def _missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Where there is no label; among several annotators -1 stands for none too."""
    missing = np.asarray(pd.isna(array), dtype=bool)
    if array.ndim == 2 and array.dtype.kind in "ifO":
        missing |= np.asarray(array == MISSING, dtype=bool)
    return missing


def _refuse_one_hot(array: NDArray[Any], k: int, source: str) -> None:
    """Raise for labels with a column for each class instead of each annotator."""
    wide = array.ndim == 2 and array.shape[1] == k and array.dtype.kind in "iubf"
    if wide and ((array == 0) | (array == 1)).all() and (array.sum(1) == 1).all():
        raise DataError(
            f"{source} has a 1 in one of {k} columns of each row, which looks like one-hot labels; a column is for an "
            "annotator, so give labels.argmax(1)."
        )


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
        way_out = "; give labels.astype(int)" if isinstance(value, float) and value.is_integer() else ""
        raise DataError(
            f"{source}, {_row(strange)}: {quoted(value)} is of the type {type(value).__name__}; labels are whole "
            f"numbers or names of classes{way_out}."
        )


def _row(where: NDArray[np.bool_]) -> str:
    """The first place, in words."""
    place = np.argwhere(where)[0]
    return f"row {place[0]}" + (f", column {place[1]}" if len(place) == 2 else "") + " (counted from 0)"


def _names_of_columns(values: NDArray[Any], classes: list[Any] | None, k: int, source: str, probs: str) -> list[Any]:
    """Names of the classes: those given, else numbers, or the labels sorted if there is one for every column."""
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
