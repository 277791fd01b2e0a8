"""What a classifier says about the classes, as input: which columns, and whether they are probabilities."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..files import release
from .people import listed
from .sources import Source

_CHECKED = 1 << 18  # probabilities looked at in one go
_SAMPLED = 64  # rows sampled in one go
_SUM_TOLERANCE = 0.01  # by which probabilities may sum to more or less than 1: they may be rounded


def columns_of(source: Source, classes: Sequence[str | int] | int) -> list[str] | None:
    """Return columns that are named as the classes, in their order; None where there is not one for each."""
    for form in ("{}", "p_{}"):
        columns = [] if isinstance(classes, int) else [form.format(one) for one in classes]
        if columns and all(column in source for column in columns):
            return columns
    return None


def check_probabilities(
    array: NDArray[Any], classes: Sequence[str | int] | int, source: str, *, sets: bool = False
) -> None:
    """Raise for another number of columns than classes, and for the first row that is not a distribution over them.

    Of sets of labels, each class has a probability of its own.
    """
    check_columns(array, classes, source)
    for _ in checked_parts(array, source, sets=sets):
        pass


def checked_parts(
    array: NDArray[Any], source: str, *, sets: bool = False
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.float32]]]:
    """Yield all rows in parts, as they are and as float32; raise for the first that is not a distribution."""
    step = max(1, _CHECKED // array.shape[1])
    for start in range(0, len(array), step):
        part = slice(start, start + step)
        block = np.asarray(array[part])
        p = as_floats(block)
        _check_rows(p, start, source, sets=sets)
        yield part, block, p
        if (start // step) % 64 == 63:
            release(array)


def spaced_rows(array: NDArray[Any], n: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Read n evenly spaced rows, and leave out those that are not distributions."""
    rows = np.unique(np.linspace(0, len(array) - 1, min(n, len(array))).astype(np.int64))
    p = np.empty((len(rows), array.shape[1]), np.float32)
    for start in range(0, len(rows), _SAMPLED):  # a page of a map may bring many others along
        p[start : start + _SAMPLED] = as_floats(array[rows[start : start + _SAMPLED]])
        release(array)
    usable = _is_distribution(p)
    return rows[usable], p[usable]


def check_columns(array: NDArray[Any], classes: Sequence[str | int] | int, source: str) -> None:
    """Raise for another number of columns than classes."""
    n = classes if isinstance(classes, int) else len(classes)
    if array.ndim != 2 or array.shape[1] != n:
        has = f"{array.shape[1]} columns" if array.ndim == 2 else f"the shape {array.shape}"
        named = "" if isinstance(classes, int) else f" ({listed([str(one) for one in classes])})"
        raise DataError(f"{source} has {has} and the labels have {n} classes{named}; give a column for each, in order.")


def as_floats(block: NDArray[Any]) -> NDArray[np.float32]:
    """Return some rows as float32; those of float16 by a table, as NumPy takes long for small ones."""
    block = np.asarray(block)
    if block.dtype == np.float16:
        return _halves()[block.view(np.uint16)]
    with np.errstate(over="ignore"):
        return block.astype(np.float32, copy=False)


@functools.cache
def _halves() -> NDArray[np.float32]:
    """Return a table of every float16 as float32, by its bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _is_distribution(block: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which rows are probabilities that sum to one."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = block @ np.ones(block.shape[1], np.float32)
        fine: NDArray[np.bool_] = (np.abs(total - 1) <= _SUM_TOLERANCE) & (block.min(1) >= 0)
    return fine


def _check_rows(block: NDArray[np.float32], start: int, source: str, *, sets: bool) -> None:
    """Raise for the first of some rows that is not a distribution; `start` is where they begin."""
    fine = ((block >= 0) & (block <= 1 + _SUM_TOLERANCE)).all(1) if sets else _is_distribution(block)
    if not fine.all():
        row = int(np.argmin(fine))
        _refuse_row(block[row], f"{source}, row {start + row} (counted from 0)")


def _refuse_row(row: NDArray[np.floating[Any]], place: str) -> None:
    """Say what is wrong with a row of probabilities."""
    strange = np.flatnonzero(~np.isfinite(row))
    if len(strange):
        value = row[strange[0]]
        raise DataError(
            f"{place}, column {strange[0]}: the probability is {value}; predict it again or remove the item."
        )
    outside = np.flatnonzero((row < 0) | (row > 1 + _SUM_TOLERANCE))
    if len(outside):
        raise DataError(
            f"{place}, column {outside[0]}: {row[outside[0]]:.4g} is not a probability; for logits, give their softmax."
        )
    raise DataError(f"{place}: the probabilities sum to {row.sum():.4g}, not to 1; divide each row by its sum.")
