"""Label Studio's JSON_MIN and CSV exports: a row for each annotation, with a column for each field and control.

Which column is the control is not said. The fields of a task are the same in all of its rows, and the answers are not:
where one column alone differs within tasks it holds the labels, else the one with few different values does.
"""

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from ...errors.messages import quoted
from ..columns import keys
from ..people import listed, shown
from ..sources.base import Source
from ..sources.in_arrow import InArrow
from .long_table import finished

_BOOKKEEPING = ("annotation_id", "updated_at", "updated_by", "agreement", "inner_id", "file_upload", "drafts", "meta")
_KNOWN = ("id", "annotator", "created_at", "lead_time", *_BOOKKEEPING)
_JSON = ("choices", "taxonomy", "rating", "selected")  # what holds the labels of a result
_MOST = 100  # classes that are looked for


def is_annotation_table(columns: Collection[str]) -> bool:
    """Return whether the columns are those that Label Studio writes beside fields and controls."""
    return {"id", "annotation_id", "annotator", "lead_time"} <= set(columns)


def read_annotation_table(source: Source, label: str | None) -> Source:
    """Read the answers in a flat export of Label Studio; `label` is the control, found where only one can be it."""
    missing = [name for name in ("id", "annotator") if name not in source]
    if missing:
        raise UsageError(
            f"{source.name} has no column {quoted(missing[0])}, so it is not a flat export of Label Studio; leave "
            f"--format out. Its columns: {listed(source.columns)}."
        )
    data = source.read(list(dict.fromkeys(source.columns)))
    fields = [name for name in data if name not in _KNOWN]
    if label in data:
        column = str(label)
    elif label not in (None, "label"):
        raise UsageError(f"{source.name} has no column {quoted(label)}; it has {listed(fields)}.")
    else:
        column = _find_label(source, data, fields)
    labels, rows = _labels(source, column, data[column])
    own = {"item": data["id"].take(pa.array(rows)), "label": labels}
    named = {"annotator": "annotator", "seconds": "lead_time", "created_at": "created_at"}
    own |= {name: data[theirs].take(pa.array(rows)) for name, theirs in named.items() if theirs in data}
    rest = {name: data[name] for name in fields if name != column}
    of = InArrow(source.name, rest, source.place)
    of.vectors = source.vectors
    of.decimal, of.marks_formulas = source.decimal, source.marks_formulas
    long = finished(of, rows, own, {column: "label"})
    long.found_in = source, column
    return long


def _find_label(source: Source, data: dict[str, pa.ChunkedArray], fields: list[str]) -> str:
    """Return the column that holds the labels."""
    item = keys(source, "id", data["id"]).codes
    _, first = np.unique(item, return_index=True)
    few, varies = [], []
    for name in fields:
        codes = keys(source, name, data[name]).codes
        n_values = len(np.unique(codes[codes >= 0]))
        if 1 < n_values <= _MOST and 2 * n_values <= max(4, len(codes)):
            few.append(name)
        if item.min() >= 0 and (codes != codes[first[item]]).any():
            varies.append(name)
    found = [name for name in few if name in varies] or few
    if len(found) != 1:
        why = "several columns that may be the label" if found else "no column that looks like a label"
        raise UsageError(f"{source.name} has {why}: {listed(found or fields)}; name the control with label= (--label).")
    return found[0]


def _labels(source: Source, name: str, column: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return a label for every row, and the row of the file it stands in; a cell with several is several rows.

    Cells with no answer are left out: the annotator skipped that control.
    """
    parsed: dict[str | None, list[str]] = {None: []}
    found: list[tuple[str, int]] = []
    for row, cell in enumerate(column.cast(pa.large_string()).to_pylist()):
        if cell not in parsed:
            parsed[cell] = _parsed(source, name, cell, row)
        found += [(label, row) for label in parsed[cell]]
    if not found:
        raise DataError(f"{source.name}, column {quoted(name)} holds no answer; name another control with --label.")
    labels, rows = zip(*found, strict=True)
    return pa.chunked_array([pa.array(labels, pa.large_string())]), np.array(rows)


def _parsed(source: Source, name: str, cell: str, row: int) -> list[str]:
    """Return the labels in a cell: text as it is, or JSON, as several choices, taxonomies and ratings are."""
    if cell.lstrip()[:1] not in ("[", "{"):
        return [cell.strip()] if cell.strip() else []
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return [cell.strip()]  # a class may be called [other]
    found = []
    for part in value if isinstance(value, list) else [value]:
        given = part if not isinstance(part, dict) else next((part[key] for key in _JSON if key in part), None)
        for label in given if isinstance(given, list) else [given]:
            if isinstance(label, list):
                label = " / ".join(map(str, label))
            if isinstance(label, dict) or label is None:
                raise DataError(
                    f"{source.place(row)}, column {quoted(name)}: {shown(name, cell, 40)} is not a class; name another "
                    "control with label= (--label)."
                )
            found.append(str(label))
    return list(dict.fromkeys(found))
