"""Classes that are known, read from a file: of items that were reviewed, and of inputs to predict."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import quoted
from .columns import as_text, keys, spelled_like
from .join import rows_by_name
from .opening import open_source
from .people import listed
from .sources import Source
from .sources.in_arrow import in_pandas
from .table import AnnotationTable

if TYPE_CHECKING:
    Items = pd.Series[Any]
    Texts = pd.Series[str]


def read_truth(path: Any, table: AnnotationTable) -> NDArray[np.int64]:
    """Read the code of the class of each annotation's item where it is known, else -1 (N,).

    `path`: a table with a column `item` (or `task`) and one of `truth`, `y` and `label`; rows without a label say
        nothing.
    `table`: the annotations. Items and classes that it does not have are errors, and so are two classes of one item.
    """
    _refuse_sets(table)
    source = open_source(path)
    item, label = source.find("item", "task"), source.find("truth", "y", "label")
    if item is None or label is None:
        missing = "item" if item is None else "truth"
        raise DataError(f"{source.name} has no column '{missing}'; give a column of items and one of their labels.")
    rows = pd.DataFrame({"item": _texts(source, item), "label": _texts(source, label)}).dropna()
    items = table.frame["item"].cat.categories
    spelled = spelled_like(rows["item"].unique(), items, fold=False)
    where = _places(source.name, "item", rows["item"].map(spelled), items, table.source)
    spelled = spelled_like(rows["label"].unique(), table.classes, table.same)
    what = _places(source.name, "label", rows["label"].map(spelled), table.classes, table.source)
    truth = np.full(len(items), -1, np.int64)
    truth[where] = what
    differs = np.flatnonzero(truth[where] != what)
    if len(differs):
        raise DataError(f"{source.name} gives item {quoted(rows['item'].iloc[differs[0]])} two classes; give one.")
    found: NDArray[np.int64] = truth[table.item_codes]
    return found


def known_codes(truth: Any, table: AnnotationTable) -> NDArray[np.int64]:
    """Return the code of the class of each annotation's item where it is known, else -1 (N,).

    `truth` (N,): as for `read_truth`, or the class of the item of each row: labels, or their codes, missing where it is
        not known (None, NaN, or -1 unless that is a class).
    """
    truth = in_pandas(truth)
    if isinstance(truth, str | Path | pd.DataFrame):
        return read_truth(truth, table)
    given = (int(each) if isinstance(each, float | np.floating) and each % 1 == 0 else each for each in truth)
    values = pd.Series(list(given), dtype=object)
    if len(values) != len(table):
        raise UsageError(f"truth has {len(values):,} values for {len(table):,} rows; give one for each, or a frame.")
    names = [str(name) for name in table.classes]
    known = (values.notna() & ((values.astype(str) != "-1") | ("-1" in names))).to_numpy()
    some = values[known]
    codes = pd.Index(names).get_indexer(pd.Index(some.map(spelled_like(some.unique(), table.classes)).map(str)))
    lost = np.flatnonzero(codes < 0)
    if len(lost) and all(isinstance(each, int | np.integer) and 0 <= each < len(names) for each in some):
        codes, lost = some.to_numpy(np.int64), lost[:0]
    if len(lost):
        raise DataError(f"truth has {quoted(some.iloc[lost[0]])}, and {table.source} has no such label; correct it.")
    found = np.full(len(values), -1, np.int64)
    found[known] = codes
    return _spread(table, found)


def add_known(table: AnnotationTable, truth: NDArray[np.int64] | None = None) -> NDArray[np.int64] | None:
    """Return the code of the class of each annotation's item where it is known, else -1 (N,); None where none is.

    It is known by `truth` (N,), of the same codes, or else by the column `truth`, from any row of the item.
    """
    if truth is not None or "truth" in table.frame:
        _refuse_sets(table)
    if "truth" not in table.frame:
        return truth
    column = _spread(table, table.frame["truth"].cat.codes.to_numpy())
    found = column if truth is None else np.where(truth >= 0, truth, column)
    return found if truth is not None or (found >= 0).any() else None


def _refuse_sets(table: AnnotationTable) -> None:
    """Refuse known classes of sets of labels."""
    if table.sets is not None:
        raise UsageError(
            "Known classes are not used for sets of labels: leave --truth out, or fit one class at a time, from a "
            "column of yes and no, with --truth."
        )


def _spread(table: AnnotationTable, said: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return a class for every row of an item if any row has one (N,); -1 is none, and two are an error."""
    rows, of_item = np.flatnonzero(said >= 0), np.full(len(table.frame["item"].cat.categories), -1)
    of_item[table.item_codes[rows]] = said[rows]
    differs = rows[of_item[table.item_codes[rows]] != said[rows]]
    if len(differs):
        item = quoted(table.frame["item"].iloc[differs[0]])
        raise DataError(f"{table.source}: truth gives item {item} two classes; give one.")
    found: NDArray[np.int64] = of_item[table.item_codes]
    return found


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
        labels = _texts(source, column)
        named = _texts(source, item) if item is not None else None
        in_order = len(labels) == len(items) and pd.api.types.is_integer_dtype(items)
        if named is not None and not in_order:
            labels = _join_by_item(path, labels, named, items.astype(str), paths=paths)
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


def _texts(source: Source, column: str) -> "Texts":
    """Read a column as text, None where a value is missing."""
    codes, names = keys(source, column, source.read([column])[column])
    known = np.array([*as_text(names).to_pylist(), None], dtype=object)
    return pd.Series(known[codes], dtype=object)


def _places(path: str, kind: str, names: "Items", known: Any, table: str) -> NDArray[np.int64]:
    """Return where each name is among those that the table has."""
    places = pd.Index([str(name) for name in known]).get_indexer(pd.Index(names.astype(str)))
    lost = np.flatnonzero(places < 0)
    if len(lost):
        raise DataError(f"{path} has the {kind} {quoted(names.iloc[lost[0]])}, which is not in {table}; correct it.")
    return places.astype(np.int64)


def _join_by_item(path: Path, labels: "Texts", named: "Texts", items: "Texts", *, paths: bool) -> "Texts":
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
