"""Classes of items that are known, such as from a review: a file with a row for each such item."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError
from ..errors.messages import quoted
from .columns import keys, spelled_like
from .sources import open_source
from .table import AnnotationTable

LABELS = ("truth", "y", "label")


def read_truth(path: str | Path | pd.DataFrame, table: AnnotationTable) -> NDArray[np.int64]:
    """Read the code of the class of each annotation's item where it is known, else -1 (N,).

    Parameters
    ----------
    path : path or pandas.DataFrame
        A table with a column `item` (or `task`) and one of `truth`, `y` and `label`; rows without a label say nothing.
    table : AnnotationTable
        The annotations. Items and classes that it does not have are errors, and so are two classes of one item.
    """
    source = open_source(path)
    item, label = source.find("item", "task"), source.find(*LABELS)
    if item is None or label is None:
        missing = "item" if item is None else "truth"
        raise DataError(
            f"{source.name} has no column '{missing}'; give a column of items and one of their true labels."
        )
    columns = source.read([item, label])
    items, labels = (keys(source, name, columns[name]) for name in (item, label))
    known = np.flatnonzero((items.codes >= 0) & (labels.codes >= 0))
    item_of = _places(source.name, "item", items.names.to_pylist(), table.frame["item"].cat.categories, table.source)
    spelled = spelled_like(labels.names.to_pylist(), table.classes, table.same)
    class_of = _places(source.name, "label", list(spelled.values()), table.classes, table.source)
    where, what = item_of[items.codes[known]], class_of[labels.codes[known]]
    truth = np.full(len(table.frame["item"].cat.categories), -1, np.int64)
    truth[where] = what
    differs = np.flatnonzero(truth[where] != what)
    if len(differs):
        name = items.names.to_pylist()[items.codes[known[differs[0]]]]
        raise DataError(f"{source.name} gives item {quoted(str(name))} two classes; give one.")
    found: NDArray[np.int64] = truth[table.item_codes]
    return found


def _places(path: str, kind: str, names: list[Any], known: Any, table: str) -> NDArray[np.int64]:
    """Return where each name is among those that the table has."""
    spelled = spelled_like(names, known, fold=False)
    places = pd.Index([str(name) for name in known]).get_indexer(pd.Index([str(spelled[name]) for name in names]))
    lost = np.flatnonzero(places < 0)
    if len(lost):
        raise DataError(f"{path} has the {kind} {quoted(str(names[lost[0]]))}, which is not in {table}; correct it.")
    return places.astype(np.int64)
