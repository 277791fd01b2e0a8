"""New answers as a run reads them: its classes, its PI, and the pseudonyms of its key.

Nothing is learned from them, so that any part of a table is read as in the whole: rows without an answer are left out,
and a label that the run does not know is an error.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, UsageError
from ..errors.messages import listed
from .build import are_empty, build_parts, complete
from .columns import Keys, find_values, spelled_like
from .opening import open_source
from .people import load_key, shown
from .roles import Roles, find_roles
from .sources import Source
from .sources.in_arrow import Frame, InArrow, OnlyRows
from .table import AnnotationTable


@dataclass(frozen=True)
class Reading:
    """How a run reads answers; the other options are those of `read_table`.

    `of`: what messages call the run.
    `columns`: those of `item`, `label` and `annotator`, where they have no usual names.
    `keys`: where the key of the pseudonyms may be, the first that there is; None where ids are kept.
    `annotators`: of a wide table, the places of the columns that hold answers.
    """

    of: str
    classes: Sequence[Any]
    pi: Sequence[str]
    columns: Mapping[str, str | None]
    keys: Sequence[Path] | None
    format: str | None = None
    annotators: Sequence[int] = ()
    same: Mapping[str, str] | None = None
    exact_labels: bool = False
    no_answer: Sequence[str] = ()

    def read(self, given: Any) -> tuple[AnnotationTable, Source]:
        """Read a path, a table in memory or an AnnotationTable, and return the source of its rows too."""
        columns = {} if isinstance(given, AnnotationTable) else self.columns
        given = given.frame if isinstance(given, AnnotationTable) else given
        item, label, annotator = (columns.get(name) for name in ("item", "label", "annotator"))
        source = open_source(given, format=self.format, label=None if self.annotators else label)
        if self.annotators:
            names = [source.columns[at] for at in self.annotators if at < len(source.columns)]
            source, label = open_source(given, format=self.format, annotators=names), None
        others = [name for name in self.pi if name != "annotator"]
        if lost := [name for name in others if name not in source]:
            raise DataError(f"{source.name} has no PI column '{lost[0]}', which {self.of} was fitted with; add it.")
        found = find_roles(source, item, label, annotator, others, None, None)
        if "annotator" in self.pi and found.annotator is None:
            raise UsageError(
                f"{source.name} has no column that says who gave each label, which {self.of} was fitted with; name it "
                "with annotator= (--annotator)."
            )
        roles = Roles(found.item, found.label, found.annotator, None, None, list(self.pi))
        column = source.read([roles.label])[roles.label]
        left = are_empty(column)
        if self.no_answer and len(column):
            left |= find_values(source, roles.label, column, self.no_answer, fold=not self.exact_labels)[0]
        rows = np.flatnonzero(~left)
        if left.any():
            source, column = OnlyRows(source, rows), column.take(pa.array(rows))
        classes: Any = self._classes(source, roles.label, complete(source, roles.label, column, "label"))
        key = None if self.keys is None else functools.cache(functools.partial(_load_first, self.keys))
        parts = build_parts(source, roles, key, classes=classes)
        _keep_type(source, roles.item, parts.frame)
        return AnnotationTable(*parts._replace(skipped=np.flatnonzero(left) if left.any() else None)), source

    def _classes(self, source: Source, column: str, label: Keys) -> pd.Categorical:
        """Return labels as classes of the run."""
        names, codes = label.names.to_pylist(), label.codes
        known = {str(one): code for code, one in enumerate(self.classes)}
        spelled = spelled_like(names, self.classes, self.same, fold=not self.exact_labels)
        found = np.array([known.get(str(spelled[name]), -1) for name in names], np.int64)[codes]
        if (found < 0).any():
            row = int(np.flatnonzero(found < 0)[0])
            what, classes = shown(column, names[codes[row]]), listed([shown(column, one) for one in self.classes], 10)
            raise DataError(
                f"{source.place(row)}, column {column!r}: the label {what} is not a class of {self.of} "
                f"({classes}); correct it, or fit again with answers of that class."
            )
        return pd.Categorical.from_codes(found, pd.Index(self.classes))


def _load_first(keys: Sequence[Path]) -> bytes:
    """Load the first key that there is."""
    return load_key(next((key for key in keys if key.exists()), keys[0]), make=False)


def _keep_type(source: Source, item: str | None, frame: pd.DataFrame) -> None:
    """Let items of a table in memory stay the text or numbers they are, whatever a part of it holds."""
    whole = source.of if isinstance(source, OnlyRows) else source
    if item is None or not isinstance(whole, Frame | InArrow):
        return
    kind, names = whole.read([item])[item].type, frame["item"].cat.categories
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    names = names.astype("int64" if pa.types.is_integer(kind) else "str")
    frame["item"] = pd.Categorical.from_codes(frame["item"].cat.codes.to_numpy(), names)
