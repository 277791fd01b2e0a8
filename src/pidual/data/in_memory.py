"""An annotation table from arrays: labels, items, and privileged information in any form.

Columns mean what they mean in a file: text is read as numbers, moments or categories, and every row has an annotator.
Numbers and moments that have a type of their own keep it, and what no file can hold, such as intervals, are categories.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from .build import SPLITS, Parts, as_splits, complete, without_people
from .classes import as_classes, check_classes
from .columns import Keys, as_text, values
from .people import holds_people, names_annotator, people_in, refuse_people, refuse_people_as_columns
from .roles import ANNOTATOR_NAMES, RESERVED
from .sources import Source, open_source


def parts_of_arrays(label: Any, item: Any, pi: Any, split: Any, key: Callable[[], bytes] | None, source: str) -> Parts:
    """Check the arrays and put the frame together; `key` None keeps ids."""
    labels = _labels(label, source)
    n = len(labels)
    items = _keys("item", np.arange(n) if item is None else item, source)
    splits = None
    if split is not None:
        splits = as_splits(_source("split", split, source), "split", _keys("split", split, source))
    for name, array in {"item": items.codes, "split": splits}.items():
        if array is not None and len(array) != n:
            raise UsageError(f"{name} has {len(array)} rows and there are {n} labels; give one for every label.")
    columns = read_pi(pi, n, source)
    people = {name: who for name, column in columns.items() if (who := people_in(name, column))}
    if key is not None:
        place = _source("label", labels, source)
        refuse_people(place, "label", Keys(labels.codes, pa.array(map(str, labels.categories), pa.string())), "label")
        refuse_people(place, "item", items, "item")
        refuse_people_as_columns(source, columns)
        for name, who in people.items():
            found = columns[name].astype("category").cat
            names = pa.array(map(str, found.categories), pa.string())
            columns[name] = pd.Series(
                without_people(source, Keys(found.codes.to_numpy().astype(np.int32), names), key, who)
            )
    used = np.ones(n, bool) if splits is None else splits.codes != SPLITS.index("test")
    frame: dict[str, Any] = {"item": items.categorical(), "label": labels}
    frame |= {name: in_order(column, used) for name, column in columns.items()}
    frame |= {} if splits is None else {"split": splits}
    return Parts(pd.DataFrame(frame), source, list(columns), tuple(people), bool(people) and key is None)


def _source(name: str, array: Any, source: str) -> Source:
    """Open an array as a source with this one column."""
    opened = open_source(pd.Series(array).reset_index(drop=True).to_frame(name))
    opened.name = source
    return opened


def _keys(name: str, array: Any, source: str) -> Keys:
    """Return an array as categories, none of them missing."""
    given = _source(name, array, source)
    return complete(given, name, given.read([name])[name], name)


def _labels(label: Any, source: str) -> pd.Categorical:
    """Turn given labels into classes: categories as they are, all else as in a table."""
    if isinstance(getattr(label, "dtype", None), pd.CategoricalDtype):
        classes = pd.Categorical(label)
        missing = np.flatnonzero(classes.codes < 0)
        if len(missing):
            raise DataError(f"{source}, row {missing[0]} (counted from 0): the label is missing; leave such rows out.")
        return classes
    classes, _ = as_classes(_keys("label", label, source), None)
    check_classes(_source("label", label, source), "label", classes)
    return classes


def in_order(column: "pd.Series[Any]", used: NDArray[np.bool_]) -> "pd.Series[Any]":
    """Put categories in the order in which they come, those of rows that are not used last."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    codes = column.cat.codes.to_numpy()
    order = pd.unique(np.concatenate([codes[used], codes[~used]]))
    return column.cat.set_categories(column.cat.categories[order[order >= 0]])


# --- privileged information ---


def read_pi(pi: Any, n: int, source: str = "pi") -> dict[str, "pd.Series[Any]"]:
    """Read privileged information as columns of numbers, times and categories, by the names that a table gives them."""
    columns = pi_columns(pi)
    for name, column in columns.items():
        if len(column) != n:
            raise UsageError(
                f"pi has {len(column)} rows ('{name}') and there are {n} labels; give one row of pi for every label."
            )
    names = list(pi_names(columns).values())
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"pi has the column '{twice[0]}' twice, by this name or another; rename one of them.")
    return {
        name: _annotators(column, source) if name == "annotator" else pi_values(name, column)
        for name, column in zip(names, columns.values(), strict=True)
    }


def pi_columns(pi: Any) -> dict[Any, "pd.Series[Any]"]:
    """Return the columns of PI in any form, by name; positions count, an index does not."""
    if pi is None:
        return {}
    if hasattr(pi, "to_pandas"):
        pi = pi.to_pandas()
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


def _holds_people(name: Any, values: "pd.Series[Any]") -> bool:
    return holds_people(str(name), pi_values(str(name), values))


def pi_values(name: str, column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return numbers and times as they are, text as a table reads it, all else as categories."""
    kind = pd.api.types
    number = kind.is_numeric_dtype(column) and not kind.is_bool_dtype(column)
    if number or kind.is_datetime64_any_dtype(column) or kind.is_timedelta64_dtype(column):
        return column
    try:
        given = open_source(column.to_frame(name))
        return pd.Series(values(given, name, given.read([name])[name]))
    except (pa.ArrowException, OverflowError, DataError):
        return column.astype(object).map(str, na_action="ignore").astype("category")


def _annotators(column: "pd.Series[Any]", source: str) -> "pd.Series[Any]":
    """Return annotators by their ids as text, none of them missing."""
    found = _keys("annotator", column, source)
    return pd.Series(Keys(found.codes, as_text(found.names)).categorical())
