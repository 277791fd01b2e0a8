"""Missing numbers among inputs: the median of their column stands for them, and a column more says where they were.

Which columns have such numbers is learned from the inputs to train on, and kept in their schema, so that inputs for
prediction get the same columns: {"columns": [2, 5], "medians": [0.5, 12.0]}.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, DataWarning
from .arrays import check_finite
from .people import listed

Place = Callable[[int, tuple[int, ...]], str]


def fill_missing(
    x: NDArray[Any], schema: Mapping[str, Any] | None, place: Place, source: str, names: Sequence[str] | None = None
) -> tuple[NDArray[Any], dict[str, Any]]:
    """The inputs without missing numbers, and what their schema has to say about it: nothing where none was missing.

    Parameters
    ----------
    x : array (n, ...)
        Infinite numbers are an error, and so are missing ones unless x has two dimensions.
    schema : mapping, optional
        That of the inputs a model was trained with.
    place : callable
        What messages call a number, by its row and the rest of its index.
    source : str
        What messages call x.
    names : sequence of str, optional
        Of the columns.
    """
    found = check_finite(x, place, missing=x.ndim == 2)
    if schema is None:
        if not len(found):
            return x, {}
        medians = []
        for at in found.tolist():
            there = x[:, at][~np.isnan(x[:, at])]
            if not len(there):
                raise DataError(
                    f"{place(0, (at,))}: the value is missing here and in all other rows; leave the column out."
                )
            medians.append(float(np.median(there)))
        known: Mapping[str, Any] = {"columns": found.tolist(), "medians": medians}
        _tell(x, found, source, names)
    else:
        known = schema.get("missing") or {"columns": [], "medians": []}
        if x.shape[1:] != (schema["shape"][0] - len(known["columns"]), *schema["shape"][1:]):
            return x, {}  # the shape is complained of elsewhere
        new = np.setdiff1d(found, known["columns"])
        if len(new):
            row = int(np.flatnonzero(np.isnan(x[:, new[0]]))[0])
            raise DataError(
                f"{place(row, (int(new[0]),))}: the value is missing, and none was in this column when the model was "
                "trained; fill it in, or remove the input."
            )
    if not known["columns"]:
        return x, {}
    columns = np.array(known["columns"])
    x = np.asarray(x, np.float32 if x.dtype.itemsize < 8 else np.float64)
    gaps = np.isnan(x[:, columns])
    filled = np.concatenate([x, gaps.astype(x.dtype)], axis=1)
    filled[:, columns] = np.where(gaps, np.asarray(known["medians"], x.dtype), x[:, columns])
    return filled, {"missing": {"columns": list(known["columns"]), "medians": list(known["medians"])}}


def _tell(x: NDArray[Any], columns: NDArray[np.int64], source: str, names: Sequence[str] | None) -> None:
    """Say how many numbers are missing."""
    n = int(np.isnan(x[:, columns]).sum())
    which = [str(names[at]) if names else str(at) for at in columns]
    of = f"column{'s' if len(which) > 1 else ''} {listed(which, 5)}"
    warnings.warn(
        f"{source}: {n:,} of {len(x) * len(columns):,} values of the input {of} {'is' if n == 1 else 'are'} missing; "
        f"the median of the column stands for {'it' if n == 1 else 'them'}, and the network is told where.",
        DataWarning,
        stacklevel=4,
    )
