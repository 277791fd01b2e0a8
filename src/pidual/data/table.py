"""The annotation table: one row per annotation, whatever file it came from.

    read_table("labels.csv", label="answer", pi=["annotator", "seconds"])
    AnnotationTable.from_frame(frame)
    AnnotationTable.from_arrays(labels, items, pi)

Ids of people are personal data: for annotators, and for people in any other column (`people` says which columns hold
them), a table holds pseudonyms, made with a secret key that stays in a file beside the table. The raw id is nowhere in
the object unless `keep_ids` is set.
"""

import functools
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import UsageError
from ..files import fingerprint
from .build import build_parts, rows_read
from .columns import Keys
from .in_memory import read_arrays
from .label_sets import LabelSets, read_sets
from .opening import open_source
from .people import key_path, load_key, refuse_people
from .roles import find_roles
from .sources import Source

_MANY_VALUES = 20  # of a PI column that tells answers apart where annotators are not known


@dataclass(frozen=True, eq=False)
class AnnotationTable:
    """Annotations with cleaned columns; made by `read_table`, `from_frame` or `from_arrays`.

    One row per annotation: which item, which label and, where it is known, who gave it and how (PI).

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per annotation in file order. Categories `item`, `label` and, where known, `annotator` (pseudonyms), `y`
        (its categories are the classes, then any class that occurs in y only), `truth` (known classes of items) and
        `split` (train, valid, test);
        the other PI columns under their own names: numbers as numbers, moments as moments, all else as categories.
    source : str
        Name of the table in messages: the path as given, or "table" for a frame in memory.
    pi_columns : list of str
        The privileged information; "annotator" stands for the annotator column.
    people : tuple of str
        The columns of `frame` that hold people: pseudonyms, unless ids are kept.
    keeps_ids : bool
        Whether people are known by their own ids instead of pseudonyms.
    unused : tuple of str
        Columns of the file that are neither part of the table nor inputs.
    skipped : int array, optional
        Rows of the file, counted from 0, that have no label, or one that means no answer, and are not in the table.
    same : mapping of str to str
        Labels that were merged into others, as `read_table` was asked to.
    no_answers : mapping of str to int
        Rows with a label that means no answer, as `read_table` was told, by annotator.
    sets : LabelSets, optional
        The classes of every answer, where answers are sets of labels: `label` is then that of the most frequent class.
    long_rows : int array, optional
        Where every row is about one class of such an answer: its row of the file, counted from 0.

    See Also
    --------
    read_table : Reads it from a file.
    Inputs : What the items are.

    Examples
    --------
    >>> from pidual import AnnotationTable, make_crowd
    >>> crowd = make_crowd(60, noise=0.3)
    >>> AnnotationTable.from_frame(crowd.frame, pi=["annotator", "seconds"])
    AnnotationTable(180 annotations of 60 items, 4 classes, 30 annotators; PI: annotator, seconds)
    >>> table = AnnotationTable.from_arrays(crowd.frame["label"], crowd.frame["item"])
    >>> table.classes, table.pi_columns
    ([0, 1, 2, 3], [])
    """

    frame: pd.DataFrame
    source: str
    pi_columns: list[str]
    people: tuple[str, ...] = ()
    keeps_ids: bool = False
    unused: tuple[str, ...] = ()
    skipped: NDArray[np.int64] | None = None
    same: Mapping[str, str] = field(default_factory=dict)
    no_answers: Mapping[str, int] = field(default_factory=dict)
    sets: LabelSets | None = None
    long_rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        who = f", {self.frame['annotator'].nunique():,} annotators" if "annotator" in self.frame else ""
        n_items = len(self.frame["item"].cat.categories)
        return (
            f"AnnotationTable({len(self):,} annotations of {n_items:,} items, {len(self.classes)} classes{who}; "
            f"PI: {', '.join(self.pi_columns) or 'none'})"
        )

    def _repr_html_(self) -> str:
        head: str = self.frame.head().to_html()
        return f"<p>{escape(repr(self))}</p>{head}"

    @property
    def classes(self) -> list[str] | list[int]:
        """All labels, sorted; integers if every label is one."""
        classes: list[str] | list[int] = self.frame["label"].cat.categories.tolist()
        return classes

    @property
    def all_classes(self) -> list[str] | list[int]:
        """All classes: those of `classes`, or of the sets where answers are sets of labels."""
        return self.classes if self.sets is None else self.sets.classes

    @property
    def item_codes(self) -> NDArray[np.integer[Any]]:
        """Number of the item of every row, by `frame.item.cat.categories`."""
        return _codes(self.frame["item"])

    @property
    def label_codes(self) -> NDArray[np.integer[Any]]:
        """Number of the given label of every row, by `classes`."""
        return _codes(self.frame["label"])

    @property
    def annotator_codes(self) -> NDArray[np.integer[Any]] | None:
        """Number of the annotator of every row; None if annotators are not known."""
        return _codes(self.frame["annotator"]) if "annotator" in self.frame else None

    @functools.cached_property
    def answer_codes(self) -> NDArray[np.int64] | None:
        """Number of the answer that each row belongs to (`_number_answers`); None if each is an answer of its own."""
        return _number_answers(self.frame, self.pi_columns)

    @property
    def n_answers(self) -> int:
        """Number of answers: rows, but those of one annotator about one item count once."""
        return len(self) if self.answer_codes is None else int(self.answer_codes.max()) + 1

    @property
    def file_rows(self) -> NDArray[np.int64] | None:
        """The row of the file, counted from 0, that each row was read from; None where no row was skipped."""
        if self.long_rows is not None:
            return self.long_rows
        return None if self.skipped is None else rows_read(len(self), self.skipped)

    def fingerprint(self) -> str:
        """Return a hex digest of items, labels, clean labels and PI in order; the pseudonym key does not change it."""
        return fingerprint(self._bytes())

    def _bytes(self) -> Iterator[bytes]:
        for name in self.frame.columns:
            column = self.frame[name]
            yield f"{name}\0".encode()
            if isinstance(column.dtype, pd.CategoricalDtype):
                names = [] if name == "annotator" or name in self.people else column.cat.categories.tolist()
                yield "\0".join(map(str, names)).encode()
                yield _codes(column).astype("<i4").tobytes()
            else:
                yield column.to_numpy().astype("<f8").tobytes()
        if self.sets is not None:
            yield "\0".join(self.sets.classes).encode()
            for matrix in (self.sets.said, self.sets.true):
                if matrix is not None:
                    yield matrix.indptr.astype("<i8").tobytes() + matrix.indices.astype("<i4").tobytes()

    def long(self, rows: NDArray[np.int64], label: NDArray[np.int64]) -> "AnnotationTable":
        """Return a table with a row for each of these answers and classes, where answers are sets of labels."""
        assert self.sets is not None
        of_file = rows if self.file_rows is None else self.file_rows[rows]
        frame = self.sets.long_frame(self.frame, rows, label)
        return replace(self, frame=frame, sets=None, skipped=None, long_rows=of_file)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str | None = None,
        label: str | None = None,
        annotator: str | None = None,
        pi: Sequence[str] | None = None,
        y: str | None = None,
        split: str | None = None,
        same: Mapping[str, str] | None = None,
        exact_labels: bool = False,
        no_answer: Sequence[str] = (),
        labels: Sequence[str] | None = None,
        label_separator: str | None = None,
        multi_label: bool = False,
        keep_ids: bool = False,
        key: bytes | None = None,
    ) -> "AnnotationTable":
        """Make a table from a frame of pandas, or from any other table in memory that speaks Arrow.

        All other parameters are those of `read_table`.

        Parameters
        ----------
        frame : DataFrame or Arrow stream
            One row per annotation; it is not changed, and the table keeps no reference to it.
        key : bytes, optional
            Secret for the pseudonyms, at most 64 bytes; newly drawn if not given, so that pseudonyms of two tables
            are then unrelated.
        """
        source, secret = open_source(frame), key or secrets.token_bytes(32)
        find_key = None if keep_ids else lambda: secret
        columns = (item, label, annotator, pi, y, split, None)
        if _are_sets(source, label, labels, label_separator, multi_label):
            return _read_sets(source, columns, find_key, same, exact_labels, no_answer, labels, label_separator)
        return cls(
            *build_parts(source, find_roles(source, *columns), find_key, same, exact_labels, no_answer=no_answer)
        )

    @classmethod
    def from_arrays(
        cls,
        label: Any,
        item: Any = None,
        pi: Any = None,
        *,
        split: Any = None,
        keep_ids: bool = False,
        key: bytes | None = None,
        source: str = "table",
    ) -> "AnnotationTable":
        """Make a table from arrays, one entry per annotation; a pandas index is ignored.

        Parameters
        ----------
        label : array (N,)
            Given labels. The categories of a categorical array are the classes, as they are.
        item : array (N,), optional
            What was labelled; without it, every row counts as an item, numbered from 0.
        pi : DataFrame, Series, mapping of columns, or array (N,) or (N, P), optional
            Privileged information. The column "annotator" (or "worker", "annotator_id", ...; else the only one whose
            name says who gave the label) says who; a single column without a name counts as the annotator.
        split : array (N,), optional
            "train", "valid" or "test".
        keep_ids : bool
            Keep ids of people instead of replacing them by pseudonyms.
        key : bytes, optional
            As for `from_frame`.
        source : str
            Name of the table in messages.
        """
        secret = key or secrets.token_bytes(32)
        opened, roles, classes = read_arrays(label, item, pi, split, source)
        return cls(*build_parts(opened, roles, None if keep_ids else lambda: secret, classes=classes))


def read_table(
    path: Any,
    *,
    item: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
    pi: Sequence[str] | None = None,
    y: str | None = None,
    split: str | None = None,
    x_columns: Sequence[str] | None = None,
    format: str | None = None,
    annotators: Sequence[str] | None = None,
    same: Mapping[str, str] | None = None,
    exact_labels: bool = False,
    no_answer: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    label_separator: str | None = None,
    multi_label: bool = False,
    keep_ids: bool = False,
    key_file: str | Path | None = None,
    new_key: bool = True,
) -> AnnotationTable:
    """Read an annotation table: CSV, TSV, Parquet, JSON or JSON Lines, Arrow in memory, or a labelling tool's export.

    Parameters
    ----------
    path : path, Arrow stream or Source
        The file; its ending decides the format. Text files must be UTF-8 and may be gzipped. A folder or a pattern
        (`parts/*.parquet`) of files of one kind is one table, and an address (`s3://...`, `gs://`, `abfs://`, `hf://`)
        is opened too. A table in memory is one of polars, DuckDB, Arrow, pandas, Ray, Spark or Hugging Face. One that
        `open_source` has opened may be read for inputs too.
    item : str, optional
        Column of what was labelled; by default `item` or `task`. Without one, every row is an item of its own, numbered
        from 0. A column `truth` has the class of items where it is known: a fit learns from it, unlike from y.
    label : str, optional
        Column of the labels; by default `label`.
    annotator : str, optional
        Column of who gave the label; by default `annotator`, `worker`, `worker_id` or the like, else the only column
        whose name says so, such as `completed_by` or `Coder`.
    y : str, optional
        Column of clean labels, to measure against; by default `y`, if there is one.
    split : str, optional
        Column of train, valid and test; by default `split`, if there is one.
    pi : sequence of str, optional
        Columns of privileged information; by default the annotator if known, else none. A further column of people,
        such as `reviewer` or one of e-mail addresses, holds pseudonyms too.
    x_columns : sequence of str, optional
        Columns that hold inputs, and are not used for anything else by default: a coordinate called `y` is not a label.
    format : str, optional
        The tool that wrote an export, as `pidual data import --help` names it; by default it is recognised. In an
        export, `label` names the control or question, and `pi` is all that is known about an answer.
    annotators : sequence of str, optional
        Of a wide table, the columns that hold the answers of one annotator each, or patterns of them (`rater_*`).
    same : mapping of str to str, optional
        Labels to merge into others, such as {"o.k.": "ok"}. A `DataWarning` suggests some that look the same.
    exact_labels : bool
        Keep labels apart that differ in letter case, spaces or Unicode form alone. By default they are one class, under
        the most frequent spelling, and a `DataWarning` says which were merged.
    no_answer : sequence of str, optional
        Labels that say that somebody gave no answer, such as "unsure", in any spelling: never a class. Their rows are
        left out and counted, by annotator in `no_answers`.
    labels : sequence of str, optional
        Of answers that are sets of labels: columns of 0 and 1, one for each class, or patterns of them (`tag_*`).
    label_separator : str, optional
        Of answers that are sets of labels: what stands between those of a text, such as the | of `a|b|c`.
    multi_label : bool
        Judge each class by itself, yes or no: of an export, whose answers may have several choices. Columns of lists
        are always read so.
    keep_ids : bool
        Keep ids of people instead of replacing them by pseudonyms.
    key_file : str or Path, optional
        Where the secret key of the pseudonyms is, or is to be made; by default `.pidual.key` beside the table (in the
        present folder for an address or a table in memory). Only
        its owner may be able to read it. A new key is announced by a `KeyNotice` and listed in `.gitignore` beside it.
    new_key : bool
        Make a key if one is needed and there is none; otherwise that is an error.

    Returns
    -------
    AnnotationTable
        One row per row of the file, in order, but for those without a label: a `DataWarning` says how many.

    Raises
    ------
    UsageError
        A file, column or option that is missing or is used twice.
    DataError
        Contents that cannot be used; the message names file, line, column and, unless it may be an id, value. Items
        and labels with e-mail addresses in them are among these unless ids are kept: they are never replaced.

    See Also
    --------
    load_inputs : Read what the items are.
    AnnotationTable : Make a table from a frame or from arrays.

    Examples
    --------
    >>> from pidual import make_crowd, read_table
    >>> make_crowd(60, noise=0.3).frame.to_csv("labels.csv", index=False)
    >>> table = read_table("labels.csv", pi=["annotator", "seconds"])
    >>> table
    AnnotationTable(180 annotations of 60 items, 4 classes, 30 annotators; PI: annotator, seconds)
    >>> table.frame.columns.tolist(), table.people
    (['item', 'label', 'annotator', 'seconds', 'y'], ('annotator',))
    """
    source = path if isinstance(path, Source) else open_source(path, format=format, label=label, annotators=annotators)
    place = Path(key_file) if key_file else key_path(source.name)
    key = None if keep_ids else functools.cache(lambda: load_key(place, make=new_key))
    columns = (item, label, annotator, pi, y, split, x_columns)
    if _are_sets(source, label, labels, label_separator, multi_label):
        return _read_sets(source, columns, key, same, exact_labels, no_answer, labels, label_separator)
    roles = find_roles(source, *columns)
    return AnnotationTable(*build_parts(source, roles, key, same, exact_labels, no_answer=no_answer))


def _are_sets(source: Source, label: str | None, labels: Any, separator: str | None, multi_label: bool) -> bool:
    """Return whether answers are sets of labels."""
    return bool(labels or separator or multi_label) or source.holds_lists(source.called(label) or source.find("label"))


def _read_sets(
    source: Source,
    columns: tuple[Any, ...],
    key: Callable[[], bytes] | None,
    same: Mapping[str, str] | None,
    exact_labels: bool,
    no_answer: Sequence[str],
    labels: Sequence[str] | None,
    separator: str | None,
) -> AnnotationTable:
    """Read a table of answers that are sets of labels."""
    item, label, annotator, pi, y, split, x_columns = columns
    if no_answer:
        raise UsageError("Sets of labels have no label that means no answer (--no-answer); leave such rows out.")
    how: dict[str, Any] = {"separator": separator, "same": same, "exact_labels": exact_labels}
    y = None if labels or source.answers is not None else source.called(y) or source.find("y")
    opened, first, used, skipped, sets = read_sets(source, label, labels=labels, y=y, **how)
    roles = find_roles(opened, item, first, annotator, pi, None, split, x_columns)
    if roles.truth is not None:
        raise UsageError(f"{source.name}: known classes (column 'truth') of sets of labels cannot be used; drop it.")
    if key is not None:
        names = Keys(np.zeros(0, np.int32), pa.array(sets.classes))
        refuse_people(opened, first, names, "label")
    roles = roles._replace(y=None, unused=tuple(name for name in roles.unused if name not in {*used, y, roles.y}))
    most = int(np.argmax(sets.said.sum(0)))
    said: Any = pd.Categorical.from_codes(sets.answers(most), pd.Index(sets.sides[2 * most : 2 * most + 2]))
    parts = build_parts(opened, roles, key, classes=said)
    return AnnotationTable(*parts._replace(skipped=skipped, same=same or {}), sets=sets)


def _codes(column: "pd.Series[Any]") -> NDArray[np.integer[Any]]:
    codes: NDArray[np.integer[Any]] = column.cat.codes.to_numpy()
    return codes


# --- rows that are one answer ---


def _number_answers(frame: pd.DataFrame, pi: list[str]) -> NDArray[np.int64] | None:
    """Return the number of the answer that each row belongs to, None where every row is an answer of its own.

    Rows of one annotator about one item are one answer, whatever their other columns hold: a second submission, or rows
    that a join has multiplied. Where annotators are not known, two people may give the same answer. So only rows that
    are equal in every column are one answer, and only if they share a PI value that is rare: of a column with another
    value in at least every second answer. A column that differs in every row, such as an id, is not compared.
    """
    if len(frame["item"].cat.categories) == len(frame):
        return None
    if "annotator" in frame:
        people = frame["annotator"].cat
        key = frame["item"].cat.codes.to_numpy().astype(np.int64) * len(people.categories) + people.codes.to_numpy()
        if not pd.Series(key).duplicated().any():  # much faster than to number them
            return None
        return pd.factorize(key)[0].astype(np.int64)
    compared = frame.drop(columns=[name for name in pi if frame[name].is_unique])
    repeated = compared.duplicated().to_numpy()
    least = max(_MANY_VALUES, np.count_nonzero(~repeated) / 2)
    rare = [name for name in pi if name in compared and compared[name].nunique() >= least]
    same = compared.duplicated(keep=False).to_numpy() & compared[rare].notna().any(axis=1).to_numpy()
    if not same.any():
        return None
    number = np.arange(len(frame), dtype=np.int64)
    number[same] = len(frame) + compared[same].groupby(list(compared), observed=True, dropna=False).ngroup().to_numpy()
    return pd.factorize(number)[0].astype(np.int64)


def describe_repeats(number: NDArray[np.int64] | None, *, people: bool) -> list[str]:
    """Return a sentence on rows that repeat an answer; none where every row is an answer of its own."""
    if number is None:
        return []
    n = len(number) - int(number.max()) - 1
    what = "an answer of the same annotator to the same item" if people else "another row in every column"
    verb = "repeats" if n == 1 else "repeat"
    return [f"{n:,} of {len(number):,} rows {verb} {what}; together they count as one answer."]
