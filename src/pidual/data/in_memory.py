"""Labels, items and privileged information in any form, as one frame that is read like a table from a file.

What no file can hold, such as intervals and lists, becomes text.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, DataWarning, UsageError
from .build import complete
from .classes import as_classes, check_classes
from .people import names_annotator
from .roles import ANNOTATOR_NAMES, RESERVED, Roles, has_people
from .sources import Source
from .sources.in_arrow import Frame, in_pandas


def read_arrays(label: Any, item: Any, pi: Any, split: Any, source: str) -> tuple[Source, Roles, pd.Categorical]:
    """Return a table of arrays, which column of it is what, and the labels as classes, none of them missing."""
    labels = _classes(label, source)
    columns = {name: pd.Series(array) for name, array in {"item": item, "split": split}.items() if array is not None}
    for name, column in columns.items():
        if len(column) != len(labels):
            raise UsageError(
                f"{name} has {len(column)} rows and there are {len(labels)} labels; give one for every label."
            )
    given = pi_columns(pi)
    for name, column in given.items():
        if len(column) != len(labels):
            n = f"{len(column)} rows ('{name}') and there are {len(labels)} labels"
            raise UsageError(f"pi has {n}; give one row of pi for every label.")
    names = list(pi_names(given).values())
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"pi has the column '{twice[0]}' twice, by this name or another; rename one of them.")
    columns |= {name: _holdable(name, column) for name, column in zip(names, given.values(), strict=True)}
    frame = pd.DataFrame({name: column.reset_index(drop=True) for name, column in columns.items()})
    here = [name if name in frame else None for name in ("item", "annotator", "split")]
    return Frame(frame, source), Roles(here[0], "label", here[1], None, here[2], names), labels


def _classes(label: Any, source: str) -> pd.Categorical:
    """Turn given labels into classes: categories as they are, all else as in a table."""
    if isinstance(getattr(label, "dtype", None), pd.CategoricalDtype):
        classes = pd.Categorical(label)
        if (missing := np.flatnonzero(classes.codes < 0)).size:
            raise DataError(f"{source}, row {missing[0]} (counted from 0): the label is missing; leave such rows out.")
        return classes
    given = Frame(pd.DataFrame({"label": np.asarray(label)}), source)
    classes, _ = as_classes(complete(given, "label", given.read(["label"])["label"], "label"), None)
    check_classes(given, "label", classes)
    return classes


def _holdable(name: str, column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of PI as a table can hold it."""
    kind = Frame(column.to_frame(name)).read([name])[name].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return column.astype(object).map(str, na_action="ignore")
    return column


def pi_columns(pi: Any) -> dict[Any, "pd.Series[Any]"]:
    """Return the columns of PI in any form, by name; positions count, an index does not."""
    if pi is None:
        return {}
    pi = in_pandas(pi)
    if isinstance(pi, Mapping):
        return {name: pd.Series(values).reset_index(drop=True) for name, values in pi.items()}
    if isinstance(pi, pd.Series):
        pi = pi.to_frame("annotator" if pi.name is None else pi.name)
    elif not isinstance(pi, pd.DataFrame):
        array = pi if isinstance(pi, np.ndarray) else np.asarray(pi, dtype=object)
        if array.ndim not in (1, 2):
            raise UsageError(f"pi must have one or two dimensions, not {array.ndim}.")
        names = ["annotator"] if array.ndim == 1 else [f"pi_{j}" for j in range(array.shape[1])]
        pi = pd.DataFrame(array, columns=names).infer_objects()
    if pi.columns.has_duplicates:
        raise UsageError(f"pi has the column '{pi.columns[pi.columns.duplicated()][0]}' twice; rename one of them.")
    return {name: pi[name].reset_index(drop=True) for name in pi.columns}


def pi_names(columns: Mapping[Any, "pd.Series[Any]"]) -> dict[Any, str]:
    """Return what a table calls each PI column: the annotator "annotator", as `read_table` finds it."""
    usual = [column for name in ANNOTATOR_NAMES for column in columns if str(column).casefold() == name]
    called = [name for name in columns if names_annotator(str(name))]
    annotator = usual[:1] or [name for name in called if len(called) == 1 and _holds_people(name, columns[name])]
    return {
        name: "annotator" if name in annotator else f"pi_{name}" if name in RESERVED else str(name) for name in columns
    }


def _holds_people(name: Any, column: "pd.Series[Any]") -> bool:
    return has_people(Frame(_holdable(str(name), column).to_frame(str(name))), str(name))


def warn_of_order(given: Mapping[str, Any]) -> None:
    """Warn where an index is that of the first of these in another order, for rows are taken by position."""
    known = {name: rows.index for name, rows in given.items() if isinstance(rows, pd.DataFrame | pd.Series)}
    if not known:
        return
    first, index = next(iter(known.items()))
    for name, other in known.items():
        if len(other) == len(index) and not other.equals(index) and set(other) == set(index):
            warnings.warn(
                f"{name} has the index of {first} in another order, but its rows are used by position; "
                f"bring them into one order ({name}.loc[{first}.index]), or reset the index if the order is right.",
                DataWarning,
                stacklevel=3,
            )
