"""Arrays as input: NumPy files, and numbers that a network can calculate with."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import first_line
from .paths import check_file
from .people import listed
from .sources.arrow_types import native


def load_numpy(
    source: str | Path, keys: Sequence[str] = ("x",), mode: Literal["c", "r"] = "c"
) -> tuple[NDArray[Any], NDArray[np.str_] | None]:
    """An array and the names of its rows; of an archive the array under the first of these keys that it has."""
    path = Path(source)
    check_file(path)
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode=mode, allow_pickle=False), None
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            key = next((key for key in keys if key in archive), None)
            if key is None:
                raise UsageError(
                    f"{source} has no array '{keys[0]}' (it has: {listed(list(archive))}); save it under that name."
                )
            unused = [name for name in archive if name not in (key, "item")]
            if unused:
                what = "inputs" if key == "x" else "probabilities"
                warnings.warn(
                    f"{listed(unused, 5)} of {source} not used: {what} are '{key}' and their names 'item'; save what "
                    "is meant under these names.",
                    DataWarning,
                    stacklevel=3,
                )
            x, item = archive[key], archive.get("item")
            if not isinstance(x, np.ndarray) or not isinstance(item, np.ndarray | None):
                raise ValueError(f"its {'item' if isinstance(x, np.ndarray) else key} is not an array")
            return x, item
    except UsageError:
        raise
    except Exception as error:  # NumPy, zipfile and what decompresses raise all kinds for files that are damaged
        reason = "it holds Python objects or is damaged" if "pickle" in str(error) else first_line(error)
        raise DataError(
            f"{source} cannot be read as a plain NumPy file ({reason}); save numbers with numpy.save."
        ) from None


def check_array(array: NDArray[Any], source: str) -> NDArray[Any]:
    """The array in this machine's types, where it can be inputs by its shape and type."""
    if array.dtype.kind not in "fiub":
        raise DataError(f"{source} holds {listed([str(array.dtype)])} values; inputs must be numbers.")
    if array.ndim < 2 or 0 in array.shape:
        raise DataError(
            f"{source} has the shape {array.shape}; it must be (inputs, features) with at least one of each."
        )
    if array.dtype != native(array.dtype):
        with np.errstate(over="ignore"):
            array = array.astype(native(array.dtype))
    return array


def check_finite(
    array: NDArray[Any], place: Callable[[int, tuple[int, ...]], str], *, missing: bool = False
) -> NDArray[np.int64]:
    """Raise for the first infinite value, or one that float32 cannot hold, looking at 16 MB at a time.

    So is NaN unless values may be missing; the columns that hold it are returned.
    """
    if array.dtype.kind != "f":
        return np.empty(0, np.int64)
    step, holds = max(1, (16 << 20) // max(1, array[:1].nbytes)), np.zeros(array.shape[1], bool)
    for start in range(0, len(array), step):
        with np.errstate(over="ignore"):
            part = array[start : start + step].astype(np.float32, copy=False)
        usable = np.isfinite(part)
        if missing and not usable.all():
            holds |= np.isnan(part).any(axis=0)
            usable |= np.isnan(part)
        if usable.all():
            continue
        row, *rest = (int(index) for index in np.argwhere(~usable)[0])
        value = array[(start + row, *rest)]
        where = place(start + row, tuple(rest))
        if np.isfinite(value):
            raise DataError(f"{where}: {value:.3g} is too large for pidual (limit 3.4e38); scale the inputs.")
        raise DataError(f"{where}: the value is {value}; replace missing and infinite values, or remove the input.")
    return np.flatnonzero(holds)
