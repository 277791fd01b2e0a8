"""From the columns of a source to the frame of an annotation table, or to a plain long one for `pidual data import`."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, DataWarning
from ..errors.messages import quoted
from .classes import as_classes, check_classes, find_no_answers, merge_spellings, warn_if_no_class
from .columns import Keys, as_text, keys, spelled_like, values
from .exports.wide import hint
from .people import (
    HIDDEN,
    holds_people,
    is_address,
    names_people,
    people_in,
    pseudonyms,
    refuse_people,
    refuse_people_as_columns,
    shown,
)
from .roles import Roles, find_roles
from .sources import Source
from .sources.in_arrow import OnlyRows

EMPTY = ["", "#N/A", "<NA>", "NaN", "nan"]  # texts that are no label for sure, of those that mean a missing value
_LOOKED_THROUGH = 1_000_000  # rows of a table that is looked at as a whole to explain an error
SPLITS = ("train", "valid", "test")
_SPLIT_NAMES = {"train": 0, "training": 0, "valid": 1, "val": 1, "validation": 1, "dev": 1, "test": 2}


class Parts(NamedTuple):
    """What an annotation table is made of; see `AnnotationTable`."""

    frame: pd.DataFrame
    source: str
    pi_columns: list[str]
    people: tuple[str, ...]
    keeps_ids: bool
    unused: tuple[str, ...] = ()
    skipped: NDArray[np.int64] | None = None
    same: Mapping[str, str] = MappingProxyType({})
    no_answers: Mapping[str, int] = MappingProxyType({})


class Answered(NamedTuple):
    """The rows of a source that have an answer.

    `columns` are those of these rows, and `no_answer` those of rows whose label says that there is none; `skipped` are
    the rows of the source that are left out, for that reason or without a label, None where there are none.
    """

    source: Source
    columns: dict[str, Any]
    no_answer: dict[str, Any]
    skipped: NDArray[np.int64] | None


def build_parts(
    source: Source,
    roles: Roles,
    key: Callable[[], bytes] | None,
    same: Mapping[str, str] | None = None,
    exact_labels: bool = False,
    classes: pd.Categorical | None = None,
    no_answer: Sequence[str] = (),
) -> Parts:
    """Read the columns, check them and put the frame together; `key` None keeps ids.

    The key is asked for last: where a column cannot be used, none is made. `classes` are labels that need no reading.
    """
    used = [column for column in (*roles[:5], roles.truth) if column is not None]
    used += [name for name in roles.pi if name != "annotator"]
    if key is not None:
        refuse_people_as_columns(source.name, used)
    if classes is None:
        source, columns, unanswered, skipped = read_answered(source, roles.label, used, no_answer, exact_labels)
        n = len(columns[roles.label])
        if not n:
            raise DataError(f"{source.name} has no rows; an annotation table needs at least two per class.")
        label = complete(source, roles.label, columns.pop(roles.label), "label")
    else:
        columns, unanswered, skipped = source.read([column for column in used if column != roles.label]), {}, None
        n, names = len(classes), pa.array(map(str, classes.categories), pa.string())
        label = Keys(np.asarray(classes.codes, np.int32), names)
    y = keys(source, roles.y, columns.pop(roles.y)) if roles.y is not None else None
    if key is not None:
        refuse_people(source, roles.label, label, "label")
        refuse_people(source, roles.y, y, "y")
    frame: dict[str, Any] = {"item": None}  # filled in last, when the memory of the other columns is free again
    frame["label"], clean = classes, None
    if classes is None:
        label = merge_spellings(source, roles.label, label, same or {}, exact_labels)
        frame["label"], clean = as_classes(label, y, same)
        if roles.y is not None and clean is not None:
            warn_if_no_class(source, roles.y, clean, len(frame["label"].categories))
        check_classes(source, roles.label, frame["label"], can_merge=True)
    people: dict[str, tuple[Keys, str]] = {}
    if roles.annotator is not None:
        people["annotator"] = complete(source, roles.annotator, columns.pop(roles.annotator), "annotator"), "all"
        frame["annotator"] = None  # like all people
    for name in roles.pi:
        if name != "annotator":
            column = columns.pop(name)
            frame[name] = values(source, name, column)
            if found := people_in(name, pd.Series(frame[name])):
                people[name] = keys(source, name, column), found
    if clean is not None:
        frame["y"] = clean
    if roles.split is not None:
        frame["split"] = _as_splits(source, roles.split, keys(source, roles.split, columns.pop(roles.split)))
    if roles.truth is not None:
        truth = keys(source, roles.truth, columns.pop(roles.truth))
        frame["truth"] = _as_known(source, roles.truth, truth, frame["label"].categories, same)
    frame["item"] = pd.Categorical.from_codes(np.arange(n, dtype=np.int32), pd.Index(rows_read(n, skipped)))
    if roles.item is not None:
        pa.default_memory_pool().release_unused()
        items = complete(source, roles.item, columns.pop(roles.item), "item")
        if key is not None:
            refuse_people(source, roles.item, items, "item")
        pa.default_memory_pool().release_unused()  # pandas needs much to see that millions of items are all different
        frame["item"] = items.categorical()
    for name, (ids, who) in people.items():
        frame[name] = without_people(source.name, ids, key, who)
    no_answers: dict[str, int] = {}
    if roles.annotator in unanswered:
        ids = keys(source, roles.annotator, unanswered[roles.annotator])
        counts = pd.Series(without_people(source.name, ids, key, "all")).value_counts()
        no_answers = {str(name): int(n) for name, n in counts.items()}
    keeps_ids = bool(people) and key is None
    whole_frame = pd.DataFrame(frame, copy=False)
    about = (whole_frame, source.name, list(roles.pi), tuple(people), keeps_ids, roles.unused, skipped, same or {})
    return Parts(*about, no_answers)


def rows_read(n: int, skipped: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the row of the file, counted from 0, that each of n rows was read from."""
    return np.arange(n) if skipped is None else np.delete(np.arange(n + len(skipped)), skipped)


def without_people(source: str, ids: Keys, key: Callable[[], bytes] | None, who: str) -> pd.Categorical:
    """Return a column with pseudonyms in place of people: of "all" its values, or of "some"; `key` None keeps ids."""
    return Keys(ids.codes, pseudonyms(source, as_text(ids.names), key, who == "all")).categorical()


def read_answered(
    source: Source, label: str, columns: Sequence[str], no_answer: Sequence[str] = (), exact_labels: bool = False
) -> Answered:
    """Read the rows that have a label, and one that is an answer."""
    data = source.read(columns)
    skipped, none = find_skipped(source, label, data[label], no_answer, exact_labels)
    if skipped is None:
        return Answered(source, data, {}, None)
    rows = np.delete(np.arange(len(data[label])), skipped)
    kept, left = ({name: column.take(pa.array(some)) for name, column in data.items()} for some in (rows, none))
    return Answered(OnlyRows(source, rows), kept, left if len(none) else {}, skipped)


def find_skipped(
    source: Source, name: str, column: Any, no_answer: Sequence[str], exact_labels: bool, *, warn: bool = True
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Return the rows without an answer, None where there are none, and those of them whose label says so."""
    empty = _find_empty(source, name, column, warn=warn)
    if not no_answer:
        return empty, np.empty(0, np.int64)
    none = find_no_answers(source, name, column, no_answer, exact_labels, warn=warn)
    return none if empty is None else np.union1d(none, empty), none


def _find_empty(source: Source, name: str, column: Any, *, warn: bool) -> NDArray[np.int64] | None:
    """Return the rows without a label: an empty cell, spaces or NaN; None where there are none, or no others.

    Words that may mean a missing value or a class, such as 'None', are left to `complete`.
    """
    skipped = np.flatnonzero(are_empty(column))
    if not len(skipped) or len(skipped) == len(column):
        return None
    if warn:
        rows = "1 row without a label is" if len(skipped) == 1 else f"{len(skipped):,} rows without a label are"
        first = source.place(int(skipped[0])).removeprefix(f"{source.name}, ")
        wide = hint(source, name) if len(column) <= _LOOKED_THROUGH else ""
        text = f"{source.name}: {rows} skipped (first: {first}, column {name!r}){wide or '.'}"
        warnings.warn(text, DataWarning, stacklevel=5)
    return skipped


def are_empty(column: Any) -> NDArray[np.bool_]:
    """Return which labels are missing for sure."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    empty = column.is_null(nan_is_null=pa.types.is_floating(column.type))
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        empty = pc.or_(empty, pc.is_in(pc.utf8_trim_whitespace(column), value_set=pa.array(EMPTY, column.type)))
    found: NDArray[np.bool_] = empty.to_numpy()
    return found


def complete(source: Source, name: str, column: Any, what: str) -> Keys:
    """Return the keys of a column, and raise where one is missing."""
    if what == "label" and pa.types.is_duration(column.type):
        raise DataError(f"{source.name}, column {name!r} holds {column.type}; write labels as text or whole numbers.")
    found = keys(source, name, column)
    missing = np.flatnonzero(found.codes < 0)
    if len(missing):
        row = int(missing[0])
        value = column[row].as_py()
        how = "empty" if value is None or value != value else quoted(value)
        if str(value).strip() and how != "empty":
            how += f" is read as missing; rename the {what} if it is a real one"
        more = f" (and in {len(missing) - 1} more rows)" if len(missing) > 1 else ""
        other = ", or rename the column if it does not say who gave the label" if what == "annotator" else ""
        wide = hint(source, name) if what == "label" and len(column) <= _LOOKED_THROUGH else ""
        way_out = f"{wide.removesuffix('.')}; else fill it in." if wide else f"; fill it in or delete the row{other}."
        raise DataError(f"{source.place(row)}, column {name!r}: the {what} is missing ({how}){more}{way_out}")
    return found


def _as_known(
    source: Source, name: str, found: Keys, classes: "pd.Index[Any]", same: Mapping[str, str] | None
) -> pd.Categorical:
    """Return known classes as categories: those of the labels."""
    names = found.names.to_pylist()
    spelled = spelled_like(names, classes, same)
    known = pd.Index(classes.map(str)).get_indexer(pd.Index([str(spelled[value]) for value in names], dtype=object))
    codes = np.array([*known, -1], np.int64)[found.codes]
    lost = np.flatnonzero((codes < 0) & (found.codes >= 0))
    if len(lost):
        value = shown(name, names[found.codes[lost[0]]])
        raise DataError(f"{source.place(int(lost[0]))}, column {name!r}: no label of the table is {value}; correct it.")
    return pd.Categorical.from_codes(codes, classes)


def _as_splits(source: Source, name: str, found: Keys) -> pd.Categorical:
    """Return splits as categories: train, valid, test."""
    known = [_SPLIT_NAMES.get(str(value).lower(), -1) for value in found.names.to_pylist()]
    codes = np.array([*known, -1], np.int8)[found.codes]
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        value = found.names[found.codes[row]].as_py() if found.codes[row] >= 0 else ""
        people = holds_people(name, pd.Series(found.categorical()))
        raise DataError(
            f"{source.place(row)}, column {name!r}: {HIDDEN if people else shown(name, value)} is not a split; write "
            "train, valid or test."
        )
    categories: pd.Index[Any] = pd.Index(SPLITS)
    return pd.Categorical.from_codes(codes, categories)


_WHOLE = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}  # so that whole numbers stay so beside missing ones


def long_frame(
    source: Source,
    key: Callable[[], bytes] | None,
    *,
    item: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
    y: str | None = None,
    split: str | None = None,
) -> pd.DataFrame:
    """Return a row for every answer, with the columns item, label, annotator, y and split first, where they are known.

    `source`: what `open_source` has opened.
    `key`: gives the secret key of the pseudonyms; None keeps ids.
    `item`, `label`, `annotator`, `y`, `split`: as for `read_table`.
    """
    roles = find_roles(source, item, label, annotator, None, y, split)
    own = {column: name for name, column in zip(roles._fields, roles[:5], strict=False) if column is not None}
    others = [column for column in dict.fromkeys(source.columns) if column not in own]
    if key is not None:
        refuse_people_as_columns(source.name, source.columns)
    source, data, _, skipped = read_answered(source, roles.label, [*own, *others])
    if not len(data[roles.label]):
        raise DataError(f"{source.name} has no rows; there is nothing to import.")
    for column, name in own.items():
        if name in ("item", "label", "annotator"):
            checked = complete(source, column, data[column], name)
            if key is not None and name != "annotator":
                refuse_people(source, column, checked, name)
    found = {name: data[column] for column, name in own.items()}
    if roles.item is None:
        found = {"item": pa.chunked_array([pa.array(rows_read(len(found["label"]), skipped))])} | found
    found |= {f"data_{column}" if column in found else column: data[column] for column in others}
    known = {*own.values(), source.guess.text if source.guess else None}
    people = [name for name in found if name == "annotator" or (name not in known and _people(source, name, found))]
    plain = {name: column.to_pandas(types_mapper=_WHOLE.get) for name, column in found.items()}
    frame = pd.DataFrame(plain, copy=False)
    for name in people:
        frame[name] = without_people(source.name, keys(source, name, found[name]), key, "all")
    return frame


def _people(source: Source, name: str, columns: dict[str, pa.ChunkedArray]) -> bool:
    """Return whether a column that is not about answers holds people; texts in which addresses occur are not people."""
    column = columns[name]
    if names_people(name):
        return holds_people(name, pd.Series(values(source, name, column)))
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return False
    some = column[:1000].drop_null().to_pylist()
    return 2 * sum(map(is_address, some)) > len(some)
