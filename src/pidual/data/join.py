"""Which row of the inputs belongs to which annotation."""

import re
import warnings
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, DataWarning
from ..errors.messages import quoted
from .inputs import Inputs
from .people import shown
from .table import AnnotationTable

_ADDRESS = r"^/|^\w+://"
_COMPARED = 1_000  # rows of x looked at to see whether the rows of an item are equal


def x_rows(inputs: Inputs, table: AnnotationTable) -> NDArray[np.int64]:
    """Return the row of x that belongs to every annotation.

    Inputs with names are joined by item. A bare array goes row by row if it is as long as the table, and is indexed by
    item if items are integers; anything else is an error that names items without input.

    Returns
    -------
    numpy.ndarray of int64, shape (len(table),)
    """
    if inputs.kind == "none":
        return np.zeros(len(table), np.int64)
    items = table.frame["item"].cat.categories
    n, whole = len(inputs), bool(pd.api.types.is_integer_dtype(items.dtype))
    if inputs.names is not None:
        rows = rows_by_name(inputs.names, items.astype(str), paths=inputs.kind == "images", source=inputs.source)
    elif n == len(table) or (table.skipped is not None and n == len(table) + len(table.skipped)):
        by_row = np.arange(n) if n == len(table) or table.file_rows is None else table.file_rows
        _warn_if_shuffled(inputs, table, whole, by_row)
        _warn_if_rows_differ(inputs, table, by_row)
        return by_row
    elif whole:
        rows = items.to_numpy(np.int64)
        rows = np.where((rows >= 0) & (rows < n), rows, -1)
    else:
        raise DataError(
            f"{inputs.source} has {n} rows without names and {table.source} has {len(table)} rows whose items are not "
            "integers; give one row per row of the table, or a column 'item'."
        )
    _check_all_found(inputs, table, items, rows)
    _warn_if_shared(inputs, table, items, rows)
    unused = n - np.count_nonzero(np.bincount(rows))
    if unused:
        what = f"{unused} of {n} {'images' if inputs.kind == 'images' else 'rows'} of {inputs.source}"
        warnings.warn(f"{what} have no annotation and are not used.", DataWarning, stacklevel=2)
    joined: NDArray[np.int64] = np.asarray(rows, np.int64)[table.item_codes]
    return joined


def rows_by_name(
    names: NDArray[Any], items: "pd.Index[str]", *, paths: bool = False, source: str = "x"
) -> NDArray[np.int64]:
    """Return the row of x for every item, -1 where there is none.

    `names`: what the rows of x are called.
    `items`: what to look for.
    `paths`: names are paths of files; an item may leave out the folder or the ending where that is not ambiguous. Of an
        address, such as https://example.org/a/cat.png or /data/upload/1/3f2a9c1e-cat.png, the name of the file counts.
    `source`: what messages call x.
    """
    known: pd.Index[str] = pd.Index(np.asarray(names, dtype=np.str_).tolist())
    if not paths:
        return np.asarray(known.get_indexer(items), np.int64)
    rows = _rows_of_paths(known, items, source)
    for shorten in (_file_of_address, _file_as_uploaded):
        lost = np.flatnonzero((rows < 0) & items.str.contains(_ADDRESS))
        if len(lost):
            rows[lost] = _rows_of_paths(known, items[lost].map(shorten), source)
    return rows


def _file_of_address(item: str) -> str:
    """Return the name of the file that an address ends in."""
    path = item.partition("?d=")[2] or item.partition("?")[0]
    return unquote(path).rpartition("/")[2]


def _file_as_uploaded(item: str) -> str:
    """Return the name that a file had before Label Studio put eight digits before it."""
    return re.sub(r"^[0-9a-f]{8}-", "", _file_of_address(item))


def _rows_of_paths(known: "pd.Index[str]", items: "pd.Index[str]", source: str) -> NDArray[np.int64]:
    """Return the row of x for every item that is a path, or part of one."""
    rows = np.full(len(items), -1, np.int64)
    items = items.str.replace("\\", "/").str.removeprefix("./")
    forms: list[Callable[[PurePosixPath], str]] = [
        str,
        lambda path: str(path.with_suffix("")),
        lambda path: path.name,
        lambda path: path.stem,
    ]
    for form in forms:
        short: pd.Index[str] = pd.Index([form(PurePosixPath(name)) for name in known])
        repeated = short.duplicated(keep=False)
        ambiguous = np.flatnonzero((rows < 0) & items.isin(short[repeated]))
        if len(ambiguous):
            item = items[ambiguous[0]]
            which = known[short == item]
            raise DataError(
                f"the item {quoted(item)} could be {quoted(which[0])} or {quoted(which[1])} in {source}; "
                "write items as paths relative to that folder."
            )
        single = np.flatnonzero(~repeated)
        place = np.asarray(short[single].get_indexer(items))
        new = (rows < 0) & (place >= 0)
        rows[new] = single[place[new]]
    return rows


def _check_all_found(inputs: Inputs, table: AnnotationTable, items: Any, rows: NDArray[np.int64]) -> None:
    lost = np.flatnonzero(rows < 0)
    if not len(lost):
        return
    first = ", ".join(quoted(item) for item in items[lost[:5]].tolist())
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    if inputs.names is not None:
        has = f"its names are such as {shown('', str(inputs.names[0]))}"
    else:
        has = f"it has {len(inputs)} rows, numbered from 0"
    what = "probabilities" if inputs.kind == "probabilities" else "input"
    raise DataError(
        f"{inputs.source} has no {what} for {len(lost)} of the {len(items)} items of {table.source}: "
        f"{first}{more}; {has}. Add the {what.removesuffix('s')}s, correct the items or remove their rows."
    )


def _warn_if_shuffled(inputs: Inputs, table: AnnotationTable, whole: bool, rows: NDArray[np.int64]) -> None:
    """Warn where taking x row by row is the rule, yet the items are the numbers of its rows in another order."""
    items = table.frame["item"].cat.categories
    if not whole or len(items) != len(table):
        return
    order = items.to_numpy(np.int64)[table.item_codes]
    if (order != rows).any() and (np.sort(order) == rows).all():
        _warn_of_row_by_row(inputs, table, "the items there are row numbers in another order")


def _warn_if_rows_differ(inputs: Inputs, table: AnnotationTable, rows: NDArray[np.int64]) -> None:
    """Warn where x is taken row by row, yet rows of one item differ, by evenly spaced rows if there are very many."""
    names, items, row_numbers = table.frame["item"].cat.categories, table.item_codes, np.arange(len(table))
    first = np.zeros(len(names), np.int64)
    first[items[::-1]] = row_numbers[::-1]  # of an item's rows the one assigned last stays
    later = np.flatnonzero(first[items] != row_numbers)
    x = inputs.array
    assert isinstance(x, np.ndarray)  # images on disk have names
    for at in later[:: max(1, -(-len(later) // _COMPARED))].tolist():
        row, earlier = int(rows[at]), int(rows[first[items[at]]])
        if not np.allclose(x[row], x[earlier], rtol=1e-3, atol=1e-5):  # of one item computed twice
            (name,) = names[items[at : at + 1]].tolist()
            why = f"rows {earlier} and {row} (counted from 0) are of one item ({quoted(name)}) and differ"
            _warn_of_row_by_row(inputs, table, why)
            return


def _warn_of_row_by_row(inputs: Inputs, table: AnnotationTable, although: str) -> None:
    how = "as .npz with 'x' and 'item'" if inputs.kind == "array" else "a column 'item'"
    warnings.warn(
        f"{inputs.source} is read row by row, because it has as many rows as {table.source}, although {although}; if x "
        f"belongs to items by name, give it {how}.",
        DataWarning,
        stacklevel=4,
    )


def _warn_if_shared(inputs: Inputs, table: AnnotationTable, items: Any, rows: NDArray[np.int64]) -> None:
    """Warn where items written differently are found to be one input."""
    shared = np.flatnonzero(np.bincount(rows) > 1)
    if not len(shared):
        return
    one, other = items[np.flatnonzero(rows == shared[0])[:2]].tolist()
    more = f" (so are those of {len(shared) - 1} more)" if len(shared) > 1 else ""
    warnings.warn(
        f"{quoted(one)} and {quoted(other)} in {table.source} refer to the same input of {inputs.source} but count as "
        f"two items{more}; use one spelling.",
        DataWarning,
        stacklevel=3,
    )
