"""Labels and probabilities in any form: arrays, lists, frames, NumPy files.

given = read_given(labels, pred_probs)          # one label per row, or a column for every annotator
given.codes, given.row                          # one entry per label: its class, and its row of given.probs
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from ..errors.messages import quoted
from .arrays import load_numpy
from .given_labels import MISSING, label_codes
from .probabilities import check_columns


@dataclass(frozen=True)
class Given:
    """Labels of the rows of an array of probabilities.

    Parameters
    ----------
    codes : int array (M,)
        The class of every label that is there.
    places : tuple of int arrays (M,)
        Its row and, where labels have a column for every annotator, its column.
    shape : tuple of int
        Of the labels.
    classes : list
        Names of the classes, in the order of the columns of `probs`.
    probs : array (N, K)
    annotators : array (M,), optional
        Who gave each label.
    items : array (N,), optional
        Names of the rows.
    source : str
        What messages call the probabilities.
    """

    codes: NDArray[np.int64]
    places: tuple[NDArray[np.int64], ...]
    shape: tuple[int, ...]
    classes: list[Any]
    probs: NDArray[Any]
    annotators: NDArray[Any] | None = None
    items: NDArray[Any] | None = None
    source: str = "pred_probs"

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of every label."""
        return self.places[0]

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

    Parameters
    ----------
    labels : array (N,) or (N, A), list, Series or DataFrame
        Numbers of columns of `pred_probs`, or names of classes; with a column for every annotator, -1, NaN or None
        where one gave none.
    pred_probs : array (N, K), list, DataFrame, or path of a .npy or .npz file
    classes : sequence, optional
        Names of the columns of `pred_probs`.
    annotators : array (N,), optional
        Who gave each label, where there is one per row.
    items : array (N,), optional
        Names of the rows.
    source : str
        What messages call the labels.
    """
    probs, columns, name = _probabilities(pred_probs)
    array = _array(labels, source)
    if array.ndim not in (1, 2) or not array.size:
        raise DataError(
            f"{source} has the shape {array.shape}; give one label per row, or a column for every annotator."
        )
    if probs.ndim == 2 and len(probs) != len(array):
        raise DataError(
            f"{source} has {len(array):,} rows and {name} has {len(probs):,}; give a row of probabilities for each."
        )
    known = list(classes) if classes is not None else columns if array.dtype.kind in "OU" else None
    check_columns(probs, probs.shape[-1] if known is None else known, name)
    if probs.shape[1] < 2:
        raise DataError(f"{name} has one column, and at least two classes are needed.")
    codes, known = label_codes(array, known, probs.shape[1], source, name)
    places = tuple(np.nonzero(codes != MISSING)) if array.ndim == 2 else (np.arange(len(codes)),)
    if not len(places[0]):
        raise DataError(f"{source} holds no label: all of it is missing.")
    if np.ptp(codes[places]) == 0:
        raise DataError(
            f"{source} holds the class {quoted(known[codes[places][0]])} alone, so that there is nothing to compare it "
            "with; give labels of all classes together."
        )
    who = _names(annotators, len(array), "annotators")
    if array.ndim == 2:
        if who is not None:
            raise UsageError("labels have a column for every annotator, so leave out `annotators`.")
        named = labels.columns if isinstance(labels, pd.DataFrame) else [f"{j}" for j in range(array.shape[1])]
        who = np.asarray([str(one) for one in named], dtype=object)[places[1]]
    names = _names(items, len(array), "items")
    if names is not None and len(pd.unique(names)) < len(names):
        twice = pd.Series(names)[pd.Series(names).duplicated()].iloc[0]
        raise DataError(
            f"items has {quoted(twice)} twice; give several labels of an item as columns, one per annotator, or "
            "use `pidual fit TABLE --probs`."
        )
    return Given(codes[places], places, array.shape, known, probs, who, names, name)


def _probabilities(given: Any) -> tuple[NDArray[Any], list[Any] | None, str]:
    """The array, names of its columns where it has any, and what to call it."""
    if isinstance(given, str | Path) and Path(given).suffix.lower() not in (".npy", ".npz"):
        raise UsageError(f"{given} is not a .npy or .npz file; save the probabilities with numpy.save.")
    if isinstance(given, str | Path):
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
    """Any of the usual forms as an array."""
    if isinstance(given, np.ndarray):
        return given
    try:
        return given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given)
    except ValueError:
        raise DataError(f"{source} has rows of different lengths; give as many values in each.") from None


def _names(given: Any, n: int, source: str) -> NDArray[Any] | None:
    """One name for every row, none of them missing."""
    if given is None:
        return None
    array = _array(given, source)
    if array.ndim != 1 or len(array) != n:
        raise DataError(f"{source} has the shape {array.shape} and there are {n:,} rows of labels; give one for each.")
    missing = np.flatnonzero(pd.isna(array))
    if len(missing):
        raise DataError(f"{source}, row {missing[0]} (counted from 0): the value is missing; give one for each row.")
    return array
