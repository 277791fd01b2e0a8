"""Answers that are sets of labels: lists, `a|b|c`, a column of 0 and 1 for each class, or the choices of an export.

A set is judged as one answer to each class, yes or no. A row of such a judgement has the class `no dog` or `dog`, and
an item of its own, `img7 · dog`, so that all that knows one class an item knows sets, too.
"""

import fnmatch
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, hstack

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import quoted
from .classes import merge_spellings
from .columns import Keys, as_text, keys, spelled_like
from .people import listed, shown
from .sources import Source
from .sources.in_arrow import Long, OnlyRows, is_list

LEFT_OUT = ("no ", "not ", "without ", "no: ")  # in front of a class that a set does not have
NOT_CLASSES = "spans, boxes and numbers are not judged, only classes of whole items; docs/multi_label.md says what can"
_WITH = " · "  # between item and class
SIGNS = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelSets:
    """Which classes each answer has.

    Parameters
    ----------
    classes : list of str
        All classes, sorted; columns of 0 and 1 in their order.
    said : sparse bool matrix (N, K)
        The sets of the answers.
    true : sparse bool matrix (N, K), optional
        The clean sets, for evaluation only.
    """

    classes: list[str]
    said: csc_matrix
    true: csc_matrix | None = None

    @property
    def sides(self) -> list[str]:
        """Return what a row of each class is called without and with it: `no cat`, `cat`, `no dog`, `dog`."""
        free = [word for word in LEFT_OUT if not {word + name for name in self.classes} & set(self.classes)]
        if not free:
            raise DataError(f"There are classes that begin with each of {', '.join(LEFT_OUT)}; rename some of them.")
        return [side for name in self.classes for side in (free[0] + name, name)]

    def answers(self, label: int) -> Ints:
        """Return whether each answer has a class (N,), as 0 or 1."""
        found = np.zeros(self.said.shape[0], np.int64)
        found[self.said.indices[self.said.indptr[label] : self.said.indptr[label + 1]]] = 1
        return found

    def long_frame(self, frame: pd.DataFrame, rows: Ints, label: Ints) -> pd.DataFrame:
        """Return a row for each of these answers and classes, in order, of the frame of a table."""
        long = frame.iloc[rows].reset_index(drop=True)
        item, k = long["item"], len(self.classes)
        pair, code = np.unique(item.cat.codes.to_numpy().astype(np.int64) * k + label, return_inverse=True)
        names = item.cat.categories.astype(str)[pair // k] + _WITH + np.array(self.classes, object)[pair % k]
        if not names.is_unique:
            raise DataError(f"Items and classes have names that hold {_WITH!r} and cannot be told apart; rename them.")
        said = np.asarray(self.said.tocsr()[rows, label]).ravel()
        own: dict[str, Any] = {"label": pd.Categorical.from_codes(2 * label + said, pd.Index(self.sides))}
        if self.true is not None:
            own["y"] = pd.Categorical.from_codes(
                2 * label + np.asarray(self.true.tocsr()[rows, label]).ravel(), own["label"].categories
            )
        text = item.cat.rename_categories(str)  # also of items without a row here
        own |= {"tagged_item": text, "tag": pd.Categorical.from_codes(label, pd.Index(self.classes))}
        return long.assign(item=pd.Categorical.from_codes(code, names), **own)


class Judged(NamedTuple):
    """What judgements are of: a row for each answer, its columns of labels, its set, how it was read; whose each is."""

    source: Source
    columns: list[str]
    sets: LabelSets
    read: Mapping[str, Any]
    answer: Ints
    file_rows: Ints  # by answer, not by judgement


def read_sets(
    source: Source,
    label: str | None,
    *,
    labels: Sequence[str] | None = None,
    separator: str | None = None,
    y: str | None = None,
    same: Mapping[str, str] | None = None,
    exact_labels: bool = False,
) -> tuple[Source, str, list[str], Ints | None, LabelSets]:
    """Read which classes each answer has.

    Parameters
    ----------
    source : Source
    label : str, optional
        The column of sets.
    labels : sequence of str, optional
        Instead: the columns of 0 and 1, or patterns of them such as `tag_*`.
    separator : str, optional
        What stands between the labels of a text.
    y : str, optional
        The column of clean sets, of the same form.
    same, exact_labels
        As for `read_table`.

    Returns
    -------
    The rows that are answers, a column of labels, all columns that hold labels, the rows that are left out (None where
    there are none), and the sets.
    """
    if labels:
        columns = _matching(source, labels)
        said, missing = _signs(source, columns)
        classes, true = _names(columns, labels), None
    else:
        name = source.called(label) or source.find("label") or ""
        columns = [source.require(name or "label", "the label")]
        found, row, missing = _entries(source, name, separator)
        if found.codes.size == 0:
            raise DataError(f"{source.name}, column {quoted(name)}: no answer has a label; check the column.")
        found = merge_spellings(source, name, found, same or {}, exact_labels)
        order = np.argsort(np.array(found.names.to_pylist()), kind="stable")
        classes = as_text(found.names).take(pa.array(order)).to_pylist()
        said = _matrix(row, np.argsort(order)[found.codes], len(missing), len(classes))
        true = None if y is None else _clean(source, y, separator, classes, same)
    answers = np.flatnonzero(~missing)
    if source.answers is not None and not labels:  # a row for each label of an answer
        first = np.unique(source.answers, return_index=True)[1]
        together = _matrix(source.answers, np.arange(len(missing)), len(first), len(missing))
        said, answers = csc_matrix(together.astype(np.int8) @ said.astype(np.int8) > 0), first
        true = None
    elif len(answers) < len(missing):
        where = source.place(int(np.flatnonzero(missing)[0]))
        what = f"{missing.sum():,} rows without an answer are skipped (first: {where}, column {quoted(columns[0])})."
        warnings.warn(f"{source.name}: {what}", DataWarning, stacklevel=3)
        said, true = said[answers], None if true is None else true[answers]
    if len(answers) == len(missing):
        return source, columns[0], columns, None, LabelSets(classes, said, true)
    left = np.delete(np.arange(len(missing)), answers)
    return OnlyRows(source, answers), columns[0], columns, left, LabelSets(classes, said, true)


def judged_rows(source: Source, read: Mapping[str, Any], row: Ints, given: "pd.Series[Any]") -> Long | None:
    """Return a row for each judgement of a run in its table; None where its sets are not those that the run has.

    Parameters
    ----------
    source : Source
        The table, opened.
    read : mapping
        How it was read: `config["source"]["read"]` of the run.
    row, given : int array (n,), Series of categories
        Of each judgement, the row of the table and the label, with or without the class.
    """
    how: dict[str, Any] = {name: read.get(name) for name in ("labels", "same", "exact_labels")}
    answers, _, columns, skipped, sets = read_sets(
        source, read.get("label"), separator=read.get("label_separator"), **how
    )
    n = sets.said.shape[0] + (0 if skipped is None else len(skipped))
    is_answer = np.ones(n, bool)
    is_answer[[] if skipped is None else skipped] = False
    number, code = np.cumsum(is_answer) - 1, given.cat.codes.to_numpy().astype(np.int64)
    if list(given.cat.categories[1::2]) != sets.classes or (len(row) and not is_answer[row[row < n]].all()):
        return None
    if row.max(initial=-1) >= n or (np.asarray(sets.said.tocsr()[number[row], code // 2]).ravel() != code % 2).any():
        return None
    long = Long(source, row, {"label": pa.chunked_array([pa.array(given.astype(str), pa.large_string())])})
    long.guess, long.tags = source.guess, source.tags
    long.aliases = {other: column for other, column in source.aliases.items() if column in long}
    long.sets = Judged(answers, columns, sets, read, number[row], np.flatnonzero(is_answer))
    return long


def _entries(source: Source, name: str, separator: str | None) -> tuple[Keys, Ints, NDArray[np.bool_]]:
    """Return all labels of all sets, the row of each, and which rows have no answer."""
    column = source.read([name])[name]
    if not is_list(column.type):
        column = _split(source, name, column, separator)
    if pa.types.is_nested(column.type.value_type):
        raise DataError(f"{source.name}, column {quoted(name)} holds lists of objects or of lists: {NOT_CLASSES}.")
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    n = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    found, row = keys(source, name, pa.chunked_array([column.flatten()])), np.repeat(np.arange(len(column)), n)
    if (lost := np.flatnonzero(found.codes < 0)).size:
        where = f"{source.place(int(row[lost[0]]))}, column {quoted(name)}"
        raise DataError(f"{where}: a label of the list is missing; write its name, or take it out.")
    return found, row, np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)


def _split(source: Source, name: str, column: Any, separator: str | None) -> Any:
    """Split texts into lists: JSON, or labels with a separator; without one each text is one label."""
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    begin = text.drop_null()
    if len(begin) and pc.all(pc.starts_with(begin, "[")).as_py():
        try:
            return pa.array([None if one is None else json.loads(one) for one in text.to_pylist()])
        except (ValueError, pa.ArrowException):
            raise DataError(f"{source.name}, column {quoted(name)} holds lists that cannot be read.") from None
    if separator is None:
        return pa.array([None if one is None else [one] for one in text.to_pylist()], pa.list_(pa.large_string()))
    text = pc.fill_null(text, "")
    if n := pc.sum(pc.equal(text, "")).as_py():
        what = f"{n:,} rows with an empty {quoted(name)} are read as answers with no class at all"
        warnings.warn(f"{source.name}: {what}; delete rows in which nobody answered.", DataWarning, stacklevel=4)
    parts = [[p for part in one.split(separator) if (p := part.strip())] for one in text.to_pylist()]
    return pa.array(parts, pa.list_(pa.large_string()))


def _clean(
    source: Source, y: str, separator: str | None, classes: list[str], same: Mapping[str, str] | None
) -> csc_matrix:
    """Return the clean sets; labels that are no class are left out."""
    found, row, missing = _entries(source, source.require(y, "asked for as y"), separator)
    names = as_text(found.names).to_pylist()
    spelled = spelled_like(names, classes, same)
    code = pd.Index(classes).get_indexer(pd.Index([spelled[one] for one in names]))[found.codes]
    return _matrix(row[code >= 0], code[code >= 0], len(missing), len(classes))


def _matching(source: Source, labels: Sequence[str]) -> list[str]:
    """Return the columns that are named, or that are like a pattern."""
    found: list[str] = []
    for wanted in labels:
        like = [] if wanted in source else [name for name in source.columns if fnmatch.fnmatchcase(name, wanted)]
        if not like and any(sign in wanted for sign in "*?["):
            what = f"{source.name} has no column like {quoted(wanted)} (asked for as labels)"
            raise UsageError(f"{what}. Its columns: {listed(source.columns)}.")
        found += like or [source.require(wanted, "asked for as labels")]
    return list(dict.fromkeys(found))


def _names(columns: list[str], labels: Sequence[str]) -> list[str]:
    """Return the classes that columns are of: without the beginning of a single pattern such as `tag_*`."""
    begin, star, rest = labels[0].partition("*")
    cut = len(begin) if len(labels) == 1 and star and not rest else 0
    return [name[cut:] or name for name in columns]


def _signs(source: Source, columns: list[str]) -> tuple[csc_matrix, NDArray[np.bool_]]:
    """Return which classes columns of 0 and 1 have, and which rows are empty in all of them."""
    parts, lost = [], []
    for name, column in source.read(columns).items():
        found = keys(source, name, column)
        texts = [text.casefold() for text in as_text(found.names).to_pylist()]
        if wrong := [text for text in texts if text not in SIGNS]:
            row = int(np.flatnonzero(found.codes == texts.index(wrong[0]))[0])
            what = f"{source.place(row)}, column {quoted(name)}: {shown(name, wrong[0])} is not 0 or 1"
            raise DataError(f"{what}; write whether the answer has the class.")
        parts.append(csc_matrix(np.array([*(SIGNS[text] for text in texts), False])[found.codes][:, None]))
        lost.append(found.codes < 0)
    some, missing = np.any(lost, axis=0), np.all(lost, axis=0)
    if (gaps := np.flatnonzero(some & ~missing)).size:
        name = columns[int(np.argmax([column[gaps[0]] for column in lost]))]
        raise DataError(f"{source.place(int(gaps[0]))}, column {quoted(name)} is empty; write 0 or 1.")
    return csc_matrix(hstack(parts, dtype=bool)), missing


def _matrix(row: Any, column: Any, n: int, k: int) -> csc_matrix:
    """Return which rows (n) have which columns (k)."""
    return csc_matrix(csc_matrix((np.ones(len(row), np.int32), (row, column)), (n, k)) > 0)
