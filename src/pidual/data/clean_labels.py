"""Clean labels of inputs, read from a file: by their order, or by the names of their items."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..errors import DataError, DataWarning, UsageError
from .columns import as_text, keys, spelled_like
from .join import rows_by_name
from .people import listed
from .sources import Source, open_source

if TYPE_CHECKING:
    Items = pd.Series[Any]
    Texts = pd.Series[str]


def read_clean_labels(path: Path, items: "Items", item: str | None = None, *, paths: bool = False) -> "Texts":
    """Read labels of the inputs `items`: lines of text, or the column y (or label) of a table.

    A table is joined by its column of items where the inputs have names or it has another number of rows; else it is in
    order, as `pidual fit` takes inputs without names. `item` is what that column was called in the fit, and `paths`
    says that names are paths of files.
    """
    if path.suffix == ".txt" and path.is_file():
        labels = pd.Series(path.read_text(encoding="utf-8", errors="replace").splitlines(), dtype=object).str.strip()
    else:
        source = open_source(path)
        column = source.find("y", "label")
        item = item if item in source.columns else source.find("item", "task")
        if column is None:
            raise UsageError(f"{path} has no column 'y' or 'label'. Its columns: {listed(source.columns)}.")
        labels = read_texts(source, column)
        named = read_texts(source, item) if item is not None else None
        in_order = len(labels) == len(items) and pd.api.types.is_integer_dtype(items)
        if named is not None and not in_order:
            labels = join_by_item(path, labels, named, items.astype(str), paths=paths)
        elif named is not None and (named != items.astype(str)).any() and set(named) == set(items.astype(str)):
            warnings.warn(
                f"{path} is read in order, because it has as many rows as there are inputs, although its items are "
                "their numbers in another order; if its labels belong to items by name, sort it by item.",
                DataWarning,
                stacklevel=2,
            )
    if len(labels) != len(items):
        raise DataError(f"{path} has {len(labels):,} labels for {len(items):,} inputs; give one for each, in order.")
    if labels.isna().any():
        raise DataError(f"{path} has no label in row {int(labels.isna().argmax())} (counted from 0); fill it in.")
    return labels


def spell_like_classes(path: Path, labels: "Texts", classes: list[Any], same: dict[str, str] | None = None) -> "Texts":
    """Return the labels as the model spells its classes, of which there must be one at least."""
    names = [str(name) for name in classes]
    spelled = labels.map(spelled_like(labels.unique(), names, same))
    if not spelled.isin(names).any():
        raise DataError(
            f"{path}: no label is a class of the model (labels are such as '{labels.iloc[0]}', classes such as "
            f"'{names[0]}'); write them the same way."
        )
    return spelled


def read_texts(source: Source, column: str) -> "Texts":
    """Read a column as text, None where a value is missing."""
    codes, names = keys(source, column, source.read([column])[column])
    known = [*as_text(names).to_pylist(), None]
    return pd.Series([known[code] for code in codes], dtype=object)


def join_by_item(path: Path, labels: "Texts", named: "Texts", items: "Texts", *, paths: bool) -> "Texts":
    """Return the label of each of `items`, from rows that name their items; an item may have several that agree."""
    found = labels.groupby(named).agg(["first", "nunique"])  # a missing label is none of them
    several = found.index[found["nunique"] > 1]
    if len(several):
        raise DataError(f"{path} has more than one clean label for item '{several[0]}'; keep one.")
    rows = rows_by_name(items.to_numpy(), found.index.astype(str), paths=paths, source="the inputs")
    placed = pd.Series(found["first"].to_numpy()[rows >= 0], index=rows[rows >= 0]).reindex(range(len(items)))
    lost = items[placed.isna()]
    if len(lost):
        raise DataError(
            f"{path} has no label for {len(lost):,} of {len(items):,} inputs, such as '{lost.iloc[0]}'; add them."
        )
    return placed
