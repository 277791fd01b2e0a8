"""Rows of inputs, and their names: the items they belong to."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, DataWarning
from ..errors.messages import quoted
from .build import complete
from .columns import Keys, as_text
from .people import listed, shown
from .sources import Source
from .sources.in_arrow import Frame, native

_MAX_CODE = 0x10FFFF  # of a character


def row_names(item: NDArray[Any], n: int, source: str) -> NDArray[np.str_]:
    """Return names of the `n` rows of an array, each once."""
    if item.ndim != 1 or item.dtype.kind in "cV":
        what = f"{source} has an 'item' of shape {item.shape} and type {listed([str(item.dtype)])}"
        raise DataError(f"{what}; give one number or text for each row of 'x'.")
    frame = Frame(pd.DataFrame({"item": _decoded(item, source)}), source)
    found = complete(frame, "item", frame.read(["item"])["item"], "item")
    if len(found.codes) != n:
        raise DataError(f"{source} has {n} rows in 'x' and {len(item)} in 'item'; there must be as many.")
    _check_repeated(frame, "item", found)
    return _as_strings(found)


def read_rows(
    source: Source, columns: Sequence[str], item: str | None, *, repeats: bool, numbers: bool
) -> tuple[dict[str, pa.ChunkedArray], NDArray[np.str_] | None, dict[str, NDArray[np.int64]]]:
    """Read columns with a row for each item: the columns, the names of items, and by column the rows that were read.

    An item may have several rows if `repeats`. Without a column `item`, each row is an item of its own, without a name.
    """
    apart = [item] if item is not None and item not in columns else []
    data = source.read([*columns, *apart], numeric=columns if numbers else ())
    items = data.pop(apart[0]) if apart else None
    n = len(data[columns[0]])
    if n == 0:
        raise DataError(f"{source.name} has no rows; inputs need one row per item.")
    rows = dict.fromkeys(columns, np.arange(n))
    if item is None:
        return data, None, rows
    items = source.read([item])[item] if items is None else items
    if not repeats:
        return data, read_names(source, item, items), rows
    found = complete(source, item, items, "item")
    rows = _first_rows(source, found.codes, data, numbers=numbers)
    data = {column: values.take(pa.array(rows[column])) for column, values in data.items()}
    return data, _as_strings(found), rows


def read_names(source: Source, item: str, items: Any = None) -> NDArray[np.str_]:
    """Read the names of rows, each once."""
    found = complete(source, item, source.read([item])[item] if items is None else items, "item")
    _check_repeated(source, item, found)
    return _as_strings(found)


def _as_strings(found: Keys) -> NDArray[np.str_]:
    """Return the names as text, in order of first appearance."""
    return np.asarray(as_text(found.names).to_pylist(), dtype=np.str_)


def _check_repeated(source: Source, item: str, found: Keys) -> None:
    """Raise if two rows have the same name; else names are in row order, for that is the order of first appearance."""
    if len(found.names) < len(found.codes):
        second = int(np.flatnonzero(pd.Index(found.codes).duplicated())[0])
        first = int(np.flatnonzero(found.codes == found.codes[second])[0])
        name = shown(item, found.names[found.codes[second]].as_py())
        where = f"{source.place(second)}, column {quoted(item)}"
        raise DataError(f"{where}: {name} was named before ({source.place(first)}); remove one of them.")


def _first_rows(
    source: Source, codes: NDArray[np.int32], data: dict[str, pa.ChunkedArray], *, numbers: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Find by column the first row of each item that has a value.

    The item's other rows must hold the same. Of `numbers` that differ in the smaller part of the items with several
    rows the first is used, and a warning says so.
    """
    _, first, n_rows = np.unique(codes, return_index=True, return_counts=True)
    found, differs = {}, np.zeros(len(first), bool)
    example = ""
    for column, values in data.items():
        missing = values.is_null(nan_is_null=pa.types.is_floating(values.type)).to_numpy()
        known = np.flatnonzero(~missing)
        items, places = np.unique(codes[known], return_index=True)
        found[column] = rows = first.copy()
        rows[items] = known[places]
        same = pc.fill_null(pc.equal(values, values.take(pa.array(rows[codes]))), True).to_numpy() | missing
        if same.all():
            continue
        row = int(np.flatnonzero(~same)[0])
        where, value = f"{source.place(row)}, column {quoted(column)}", shown(column, str(values[row]))
        others = len(np.unique(codes[~same]))
        if not numbers or 2 * others > (n_rows > 1).sum():
            more = f" (so it is in {others:,} items)" if numbers else ""
            way_out = "what differs between answers may be PI (--pi), but not input"
            raise DataError(f"{where}: {value} differs from an earlier row of the same item{more}; {way_out}.")
        differs[codes[~same]] = True
        example = example or f"{where}: {value} after {shown(column, str(values[int(rows[codes[row]])]))}"
    if example:
        which = f"{differs.sum():,} of {len(first):,} items"
        example = example.removeprefix(f"{source.name}, ")
        text = f"the inputs of {which} differ between their rows; the first value is used (first: {example})."
        warnings.warn(f"{source.name}: {text}", DataWarning, stacklevel=4)
    return found


def _decoded(item: NDArray[Any], source: str) -> NDArray[Any]:
    """Decode names of inputs where they are bytes."""
    try:
        if item.dtype.kind == "S":
            return np.array([name.decode("utf-8") for name in item.tolist()], dtype=object)
        if item.dtype.kind != "U":
            return item
        if item.nbytes and np.ascontiguousarray(item, native(item.dtype)).view(np.uint32).max() > _MAX_CODE:
            raise ValueError("a number that is not a character")
        names = item.tolist()
        "".join(names).encode()
        return np.array(names, dtype=object)
    except ValueError:
        raise DataError(f"{source} has names in 'item' that are not UTF-8 text; write them as UTF-8.") from None
