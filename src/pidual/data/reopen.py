"""The table of a run, opened again as it was read then, and what it says about items."""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataWarning
from .build import find_skipped
from .columns import keys, spelled_like
from .exports import melt
from .label_sets import judged_rows
from .opening import open_source
from .people import names_people
from .roles import Roles, find_roles
from .sources import Source
from .sources.in_arrow import Long, OnlyRows

_HASHED = 1 << 14  # values of a column that are in Python at a time


def reopen_table(
    path: str | Path, read: Mapping[str, Any], given: "pd.Series[Any]", n_rows: int
) -> tuple[Source, Roles] | None:
    """Return the table and which column of it is what; None where its labels are not those that the run has.

    `path`: where the table is.
    `read`: how it was read: `config["source"]["read"]` of a run.
    `given`: the labels that the run has, by row of the table.
    `n_rows`: how many rows the table had.
    """
    wide = read.get("annotators")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the fit has warned
        source = open_source(path, format=read.get("format"), label=None if wide else read.get("label"))
    if wide:
        if max(wide) >= len(source.columns):
            return None
        source = melt(source, [source.columns[number] for number in wide])
    item, label, annotator, y, split = (read.get(name) for name in ("item", "label", "annotator", "y", "split"))
    roles = find_roles(source, item, None if wide else label, annotator, [], y, split)
    column = _column(source, roles.label)
    no_answer, exact = read.get("no_answer") or (), read.get("exact_labels", False)
    skipped, _ = find_skipped(source, roles.label, column, no_answer, exact, warn=False)
    if skipped is not None:
        rows = np.delete(np.arange(len(column)), skipped)
        source, column = OnlyRows(source, rows), column.take(pa.array(rows))
    found = keys(source, roles.label, column)
    names = found.names.to_pylist()
    spelled = spelled_like(names, given.cat.categories, read.get("same"))
    code = {str(name): number for number, name in enumerate(given.cat.categories)}
    now = np.array([*(code.get(str(spelled[name]), -2) for name in names), -2])[found.codes]
    if len(now) != n_rows or (now[given.index] != given.cat.codes.to_numpy()).any():
        return None
    pa.default_memory_pool().release_unused()
    return source, roles


def reopen_sets(
    path: str | Path, read: Mapping[str, Any], rows: NDArray[np.int64], given: "pd.Series[Any]"
) -> tuple[Source, Roles] | None:
    """Return the table of a run of sets of labels, a row for each judged class of an answer.

    None where its sets are not those that the run has. `rows` are rows of the table, by row of the run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the fit has warned
        source = open_source(path, format=read.get("format"), label=read.get("label"))
        long = judged_rows(source, read, rows, given)
    if long is None:
        return None
    roles = find_roles(long, read.get("item"), "label", read.get("annotator"), [], None, read.get("split"))
    return long, roles


def item_columns(source: Source, roles: Roles) -> Iterator[tuple[str, str]]:
    """Yield what a table says about its items: columns that are the same in all rows of an item, without people.

    Columns of lists or objects are left out.

    Yields
    ------
    str, str
        The name of the column in the file, and in the source.
    """
    if isinstance(source, Long) and source.sets is not None:  # rows of an answer are about its classes
        of, columns = source.sets.source, source.sets.columns
        for called, name in item_columns(of, roles):
            if name not in columns and source.name_of(name) in source:
                yield called, source.name_of(name)
        return
    whole = source.of if isinstance(source, OnlyRows) else source
    if isinstance(whole, Long):
        named = {name: called for name, called in whole.fields.items() if not names_people(called)}
    else:
        named = {name: name for name in source.columns if name not in roles[:5] and not names_people(name)}
    item = keys(source, roles.item, _column(source, roles.item)).codes if roles.item else None
    first = np.unique(item, return_index=True)[1][item] if item is not None else None
    for name, called in named.items():
        pa.default_memory_pool().release_unused()
        batches = source.batches(name)
        begin = [*itertools.islice(batches, 1)]
        if any(pa.types.is_nested(batch.type) for batch in begin):
            continue
        hashes = None if first is None or isinstance(whole, Long) else _hashes(itertools.chain(begin, batches))
        if hashes is None or (hashes == hashes[first]).all():
            yield called, name


def _column(source: Source, column: str) -> Any:
    """Return a column that is read a part at a time."""
    parts = [*source.batches(column)]
    return pa.chunked_array(parts) if parts else source.read([column])[column]


def _hashes(batches: Iterable[Any]) -> NDArray[np.uint64]:
    """Return a number for every value, a few values at a time: equal ones have equal numbers."""
    parts = (batch.slice(start, _HASHED) for batch in batches for start in range(0, len(batch), _HASHED))
    found = [pd.util.hash_array(np.asarray(part.to_pandas()), categorize=False) for part in parts]
    return np.concatenate([np.empty(0, np.uint64), *found])
