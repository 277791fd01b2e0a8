"""Predictions: what is said about every annotation, one row each, kept in one Parquet file.

`columns` has the names and meanings of the columns, docs/run_directory.md explains them. After them come the scores of
the method, high = the label looks wrong, and the PI columns; one of these that has a name from the schema is called
pi_<name>. Label columns hold every class as a category, also one that no row uses, and integers stay integers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ...data import SPLITS as SPLITS
from ...errors import UsageError
from .columns import PREDICTIONS_COLUMNS
from .columns import REASON_PARTS as REASON_PARTS
from .columns import TOP_LABELS as TOP_LABELS
from .parquet import arrow_reader as arrow_reader
from .parquet import column_names as column_names
from .parquet import label_column as label_column
from .parquet import plain_arrow, read_with_notes
from .parquet import read_frame as read_frame
from .parquet import write_frame as write_frame

Codes = npt.NDArray[np.integer[Any]]


class Predictions:
    """One row per annotation: given label, prediction, quality and what else the method says about it.

    `Run.predictions` is one; docs/run_directory.md has the columns of its frame.

    Parameters
    ----------
    frame : DataFrame
        One row per annotation: what is said about it, scores of the method, and PI columns.
    classes : list of str or int
        All classes, in the order of their codes.
    pi_columns : list of str
        The PI columns of `frame`, under their names in `frame`.
    has_input : bool
        Whether items have an input; without one, the predicted label is the most frequent class for all of them.

    See Also
    --------
    Run : Where they are kept.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, fit_table, make_crowd
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> predictions = fit_table(table, Inputs.from_array(crowd.x), "runs/crowd").predictions
    >>> len(predictions), predictions.classes
    (180, [0, 1, 2, 3])
    >>> worst = predictions.issues().head(10)[["item", "given_label", "consensus_label"]]
    >>> bool((worst["given_label"] != worst["consensus_label"]).all())
    True
    >>> predictions.write("predictions.parquet")
    """

    def __init__(
        self, frame: pd.DataFrame, classes: Sequence[Any], pi_columns: Iterable[str] = (), *, has_input: bool = True
    ):
        self.frame = frame
        self.classes = list(classes)
        self.pi_columns = list(pi_columns)
        self.has_input = has_input

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return f"Predictions({len(self):,} annotations, {len(self.classes)} classes, {self.n_issues:,} issues)"

    @classmethod
    def build(
        cls,
        annotations: pd.DataFrame,
        classes: Sequence[Any],
        *,
        split: Sequence[str] | npt.NDArray[Any] | pd.Series | None = None,
        pi_columns: Iterable[str] = (),
        has_input: bool = True,
        **said: npt.ArrayLike | None,
    ) -> "Predictions":
        """Put a table and what is said about its labels together, with no label marked as an issue yet.

        Parameters
        ----------
        annotations : pandas.DataFrame
            The frame of an AnnotationTable: item, label, maybe annotator and y, and the PI columns.
        classes : list of str or int
            Class names in the order of the codes.
        split : array (N,) of str, optional
            train, valid or test; all train when not given.
        pi_columns : list of str
            PI columns of `annotations` to carry along; "annotator" is always carried.
        has_input : bool
            Whether items have an input.
        said : arrays (N,)
            By the name of their column: those of `PREDICTIONS_COLUMNS`, labels as codes, and further scores of the
            method, NaN where there is none; those that are None are left out. Without a consensus, it is what is
            predicted.
        """
        n = len(annotations)
        said = {
            "consensus_label": said["predicted_label"],
            "consensus_quality": said["predicted_probability"],
            "is_label_issue": np.zeros(n, bool),
            "rests_on_own_answer": np.zeros(n, bool),
        } | said
        known = {name: values for name, values in said.items() if values is not None}
        own = [name for name in PREDICTIONS_COLUMNS if name in known]
        scores = [name for name in known if name not in PREDICTIONS_COLUMNS]
        columns: dict[str, Any] = {"row": np.arange(n, dtype=np.int64)}
        columns |= {name: _as_category(annotations[name]) for name in ("item", "annotator") if name in annotations}
        columns["given_label"] = pd.Categorical(annotations["label"], categories=list(classes))
        columns |= {name: _column(name, known[name], n, classes) for name in [*own, *scores]}
        given: Any = np.full(n, SPLITS[0]) if split is None else split
        columns["split"] = pd.Categorical(given, categories=pd.Index(SPLITS))
        if "y" in annotations:
            columns["y"] = _as_category(annotations["y"])
        renamed = _pi_names([name for name in pi_columns if name != "annotator"], {*PREDICTIONS_COLUMNS, *scores})
        columns |= {new: _compact(annotations[old]) for old, new in renamed.items()}
        columns["reason"] = pd.Series("", index=range(n), dtype="str")
        bare = {name: getattr(column, "array", column) for name, column in columns.items()}  # they meet by position
        frame = pd.DataFrame(bare, copy=False)
        return cls(frame, classes, renamed.values(), has_input=has_input)

    @classmethod
    def read(cls, path: str | Path, columns: Sequence[str] | None = None) -> "Predictions":
        """Read a predictions.parquet, or only some of its columns."""
        frame, notes = read_with_notes(Path(path), columns, PREDICTIONS_COLUMNS)
        classes = notes.categories["given_label"]
        pi_columns = [c for c in notes.pi_columns if c in frame]
        return cls(frame, classes, pi_columns, has_input=notes.has_input)

    def only(self, columns: Sequence[str]) -> "Predictions":
        """Return the same predictions with these columns alone."""
        pi_columns = [name for name in self.pi_columns if name in columns]
        return Predictions(self.frame[list(columns)], self.classes, pi_columns, has_input=self.has_input)

    def write(self, path: str | Path) -> None:
        """Write to a Parquet file that is there in full or not at all."""
        write_frame(path, self.frame, pi_columns=self.pi_columns, has_input=self.has_input)

    def to_arrow(self) -> pa.Table:
        """Return a table of Arrow without dictionaries, so that batches with other values have the same schema."""
        return pa.table({str(name): plain_arrow(self.frame[name]) for name in self.frame})

    def with_issues(
        self,
        is_issue: npt.ArrayLike,
        reasons: Mapping[str, Sequence[str]] | None = None,
        explained: npt.ArrayLike | None = None,
        resting: npt.ArrayLike | None = None,
    ) -> "Predictions":
        """Return the same predictions with these annotations marked as issues.

        Parameters
        ----------
        is_issue : bool array (N,)
        reasons : mapping of name to list of str, optional
            The whole reason of each issue, in row order, and its parts by name; "" where it has nothing to say.
        explained : bool array (N,), optional
            Which annotations the reasons are of; all issues by default.
        resting : bool array (N,), optional
            Annotations to mark as resting on their own answer; none by default.
        """
        is_issue = np.asarray(is_issue, dtype=bool)
        frame = self.frame.drop(columns=self.reason_parts).assign(reason=pd.Series("", self.frame.index, dtype="str"))
        frame["is_label_issue"] = is_issue
        frame["rests_on_own_answer"] = np.zeros(len(self), bool) if resting is None else np.asarray(resting, bool)
        explained = is_issue if explained is None else np.asarray(explained, dtype=bool)
        for name, texts in (reasons or {}).items():
            if len(texts) != np.count_nonzero(explained):
                raise UsageError(f"{np.count_nonzero(explained)} issues need as many reasons, but got {len(texts)}.")
            if any(texts):
                column = np.full(len(self), "", dtype=object)
                column[explained] = texts
                frame["reason" if name == "whole" else f"reason_{name}"] = pd.Series(column, dtype="str").array
        return Predictions(frame, self.classes, self.pi_columns, has_input=self.has_input)

    def take(self, rows: npt.NDArray[np.int64]) -> "Predictions":
        """Return the predictions of these annotations alone."""
        frame = self.frame.iloc[rows].reset_index(drop=True)
        return Predictions(frame, self.classes, self.pi_columns, has_input=self.has_input)

    def issues(self) -> pd.DataFrame:
        """Return the rows that look wrong, most suspicious (lowest label_quality) first, with whole reasons."""
        frame = self.frame.drop(columns=self.reason_parts)
        return frame[self.is_issue].sort_values("label_quality", kind="stable")

    @property
    def reason_parts(self) -> list[str]:
        """Columns with the parts of the reasons."""
        return [name for name in REASON_PARTS if name in self.frame and name not in self.pi_columns]

    @property
    def n_issues(self) -> int:
        """How many labels look wrong."""
        return int(np.count_nonzero(self.is_issue))

    @property
    def is_issue(self) -> npt.NDArray[np.bool_]:
        """Which labels look wrong (N,)."""
        return self.frame["is_label_issue"].to_numpy(dtype=bool)

    @property
    def is_resting(self) -> npt.NDArray[np.bool_]:
        """Which labels rest on their own answer (N,): the consensus of several confirms them, but by their own vote."""
        return self.frame["rests_on_own_answer"].to_numpy(dtype=bool)

    @property
    def given(self) -> Codes:
        """Codes of the given labels (N,)."""
        return self._codes("given_label")

    @property
    def is_of_sets(self) -> bool:
        """Whether each row is about one class of an answer that is a set of labels."""
        return "tag" in self.frame and "tag" not in self.pi_columns

    @property
    def answers(self) -> tuple[Codes, int]:
        """Codes of the answers (N,), and how many there are: the labels or, of sets, no and yes."""
        return (self.given % 2, 2) if self.is_of_sets else (self.given, len(self.classes))

    @property
    def predicted(self) -> Codes:
        """Codes of the predicted labels (N,)."""
        return self._codes("predicted_label")

    @property
    def suggested(self) -> Codes:
        """Codes of the replacements for wrong labels (N,): the consensus of the item."""
        return self._codes("consensus_label")

    @property
    def suggested_probability(self) -> npt.NDArray[np.float32]:
        """Probability of the suggested labels (N,), in [0, 1]."""
        return self.frame["consensus_quality"].to_numpy(dtype=np.float32)

    @property
    def item(self) -> Codes:
        """Codes of the items (N,)."""
        return self._codes("item")

    @property
    def annotator(self) -> Codes | None:
        """Codes of the annotators (N,), or None where they are not known."""
        return self._codes("annotator") if "annotator" in self.frame else None

    @property
    def y(self) -> Codes | None:
        """Codes of the clean labels (N,), -1 where unknown, or None; codes of `classes` come first."""
        return self._codes("y") if "y" in self.frame else None

    @property
    def is_checked(self) -> npt.NDArray[np.bool_]:
        """Annotations (N,) whose clean label is known, but those of test items: what detection is measured on."""
        known = np.zeros(len(self), bool) if self.y is None else self.y >= 0
        return np.asarray(known & (self.frame["split"] != "test").to_numpy())

    @property
    def label_quality(self) -> npt.NDArray[np.float32]:
        """Quality of the given labels (N,), in [0, 1], low = likely wrong."""
        return self.frame["label_quality"].to_numpy(dtype=np.float32)

    @property
    def predicted_probability(self) -> npt.NDArray[np.float32]:
        """Probability of the predicted labels (N,), in [0, 1]."""
        return self.frame["predicted_probability"].to_numpy(dtype=np.float32)

    @property
    def gate(self) -> npt.NDArray[np.float32] | None:
        """Gate (N,), in [0, 1], high = likely wrong; None for methods without one."""
        return self.frame["gate"].to_numpy(dtype=np.float32) if "gate" in self.frame else None

    def _codes(self, column: str) -> Codes:
        return cast(Codes, self.frame[column].cat.codes.to_numpy())


def join_parts(parts: Iterable[str]) -> str:
    """Join parts of a reason to one text."""
    return " ".join(part for part in parts if part)


def _pi_names(columns: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return what PI columns are called here: pi_<name> where the name is taken, and so on until it is not."""
    used, names = {*taken, *columns}, {}
    for column in columns:
        names[column] = column
        while column in taken and names[column] in used:
            names[column] = f"pi_{names[column]}"
        used.add(names[column])
    return names


def _as_category(column: "pd.Series[Any]") -> "pd.Series[Any]":
    return column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")


def _compact(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return text as categories, everything else as it is."""
    is_text = not isinstance(column.dtype, pd.CategoricalDtype) and pd.api.types.is_string_dtype(column.dtype)
    return column.astype("category") if is_text else column


def _column(name: str, values: npt.ArrayLike, n: int, classes: Sequence[Any]) -> Any:
    """Return a column of what is said: labels from their codes, true or false, or numbers."""
    kind = PREDICTIONS_COLUMNS[name].kind if name in PREDICTIONS_COLUMNS else "number"
    if kind == "label":
        return label_column(values, classes)
    array = np.asarray(values, dtype=bool if kind == "flag" else np.float32)
    if array.shape != (n,):
        raise UsageError(f"{name} needs one value for each of the {n} annotations, but its shape is {array.shape}.")
    return array
