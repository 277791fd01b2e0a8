"""Predictions: what the model says about every annotation, one row each, kept in one Parquet file.

    row               int64       position in the annotation table
    item              category
    annotator         category    pseudonym; only where annotators are known
    given_label       category    the label in the table
    predicted_label   category    the label the model finds most likely, from the input alone
    predicted_probability float32 its probability, in [0, 1]
    consensus_label   category    the most likely label of the item, from the input and all answers to it
    consensus_quality float32     its probability, in [0, 1]
    label_quality     float32     in [0, 1], high = the given label looks right: the probability that it is, by input
                                  and all answers to the item
    given_probability float32     in [0, 1], probability of the given label, from the input alone
    given_margin      float32     log of its ratio to that of the likeliest other label, from the input alone
    epoch_probability float32     given_probability averaged over the epochs of training, by networks that did not learn
                                  from the item; missing where there is none, and only of methods that keep it
    is_label_issue    bool        the given label looks wrong
    gate              float32     in [0, 1], high = the label looks wrong: Pi-DUAL's gate, or in a method that judges
                                  items the probability that the answer did not come from the truth
    noise_label       category    the label the noise network finds most likely; Pi-DUAL only
    ...               float32     other methods' own scores (`pidual methods`), high = the label looks wrong
    split             category    train, valid or test
    y                 category    clean label; only where it was given
    ...               the PI columns; one that has a name from above is called pi_<name>
    reason            str         why the label looks wrong; "" where it does not, and of more than 200,000 for those of
                                  highest quality
    reason_label ...  str         the parts that `reason` is put together from: what consensus or model say instead
                                  (reason_label), the item's other labels and its input (reason_votes), the annotator
                                  (reason_annotator), the pair of classes (reason_pair), PI (reason_pi); where there are
                                  any. In `reason`, what weighs most comes first

Label columns hold every class as a category, also one that no row uses, and integers stay integers.
"""

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .errors import RunError, UsageError
from .files import replacing
from .files.schemas import DAMAGED, FORMAT, NOTES, check_record

REASON_PARTS = tuple(f"reason_{name}" for name in ("label", "votes", "annotator", "pair", "pi"))
OWN_COLUMNS = (
    *("row", "item", "annotator", "given_label", "predicted_label", "predicted_probability"),
    *(
        "consensus_label",
        "consensus_quality",
        "label_quality",
        "given_probability",
        "given_margin",
        "epoch_probability",
        "is_label_issue",
        "gate",
        "noise_label",
        "split",
        "y",
        "reason",
    ),
    *REASON_PARTS,
)
TOP_LABELS = tuple(f"top_{place}" for place in range(1, 6))
LABEL_COLUMNS = (
    *("given_label", "predicted_label", "noise_label", "y", "consensus_label", "worst_class", "favourite_label"),
    "true_class",
    *TOP_LABELS,
)
CATEGORY_COLUMNS = ("item", "annotator", "split")
SPLITS = ("train", "valid", "test")
ROWS_PER_GROUP = 1 << 20
MAX_DICTIONARY = 500_000  # a text column with more values is stored as plain text: Parquet reads that faster

Codes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Column:
    """What a column of a Parquet file of ours must hold.

    Parameters
    ----------
    kind : "label", "name", "share", "number", "count", "flag", "text" or "png"
        A class; a category of any values; a number in [0, 1]; a finite number; a whole number of at least 0; true or
        false; text; an image.
    required : bool
        Whether every such file has it.
    missing : bool
        Whether values may be missing.
    """

    kind: str
    required: bool = True
    missing: bool = False


LABEL, NAME, SHARE, COUNT = Column("label"), Column("name"), Column("share"), Column("count")
OPTIONAL_SHARE = Column("share", required=False)
PREDICTIONS_COLUMNS = {
    "row": COUNT,
    "item": NAME,
    "annotator": Column("name", required=False),
    "given_label": LABEL,
    "predicted_label": LABEL,
    "predicted_probability": SHARE,
    "consensus_label": Column("label", required=False),
    "consensus_quality": OPTIONAL_SHARE,
    "label_quality": SHARE,
    "given_probability": OPTIONAL_SHARE,
    "given_margin": Column("number", required=False),
    "epoch_probability": Column("share", required=False, missing=True),
    "is_label_issue": Column("flag"),
    "gate": OPTIONAL_SHARE,
    "noise_label": Column("label", required=False),
    "split": NAME,
    "y": Column("label", required=False, missing=True),
    "reason": Column("text"),
    **dict.fromkeys(REASON_PARTS, Column("text", required=False)),
}
ITEMS_COLUMNS = {
    "item": NAME,
    "consensus_label": LABEL,
    "consensus_quality": SHARE,
    "num_annotations": COUNT,
    "predicted_label": LABEL,
    "annotator_agreement": SHARE,
    **dict.fromkeys(TOP_LABELS, Column("label", required=False)),
    **dict.fromkeys([f"{name}_probability" for name in TOP_LABELS], OPTIONAL_SHARE),
}  # and of up to 20 classes p_<class>
ANNOTATORS_COLUMNS = {
    "annotator": NAME,
    "annotator_quality": SHARE,
    "quality_low": SHARE,
    "quality_high": SHARE,
    "num_labelled": COUNT,
    "num_issues": COUNT,
    "worst_class": Column("label", missing=True),
    "favourite_label": Column("label", required=False, missing=True),
    "favourite_excess": Column("share", required=False, missing=True),
    "worst_confusion": Column("text", required=False, missing=True),
    "worst_confusion_share": Column("share", required=False, missing=True),
    "mean_gate": OPTIONAL_SHARE,
    "harm": Column("number", required=False),
    "expected_wrong": Column("number", required=False),
    "worst_class_accuracy": Column("share", required=False, missing=True),
    "agreement": Column("number", required=False, missing=True),
    "median_seconds": Column("number", required=False, missing=True),
    "drift": Column("flag", required=False),
    "drift_at": Column("text", required=False, missing=True),
    "accuracy_before": Column("share", required=False, missing=True),
    "accuracy_after": Column("share", required=False, missing=True),
}
ANNOTATOR_CLASSES_COLUMNS = {
    "annotator": NAME,
    "true_class": LABEL,
    "num_items": Column("number"),
    **dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high", "others_accuracy"), SHARE),
}
THUMBNAILS_COLUMNS = {"item": Column("text"), "png": Column("png")}
PREVIEWS_COLUMNS = {
    "row": COUNT,
    "column": Column("text"),
    "text": Column("text"),
    **dict.fromkeys(["value", "low", "high", "distance"], Column("number", missing=True)),
}
PNG = b"\x89PNG\r\n\x1a\n"


class Predictions:
    """One row per annotation: given label, prediction, quality and what else the method tells about it.

    Parameters
    ----------
    frame : pandas.DataFrame
        The columns listed in the module's docstring; `build` makes it from arrays.
    classes : list of str or int
        All classes, in the order of their codes.
    pi_columns : list of str
        The PI columns of `frame`, under their names in `frame`.
    """

    def __init__(self, frame: pd.DataFrame, classes: Sequence[Any], pi_columns: Iterable[str] = ()):
        self.frame = frame
        self.classes = list(classes)
        self.pi_columns = list(pi_columns)

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
        predicted: npt.ArrayLike,
        predicted_probability: npt.ArrayLike,
        label_quality: npt.ArrayLike,
        consensus: npt.ArrayLike | None = None,
        consensus_quality: npt.ArrayLike | None = None,
        given_probability: npt.ArrayLike | None = None,
        given_margin: npt.ArrayLike | None = None,
        epoch_probability: npt.ArrayLike | None = None,
        gate: npt.ArrayLike | None = None,
        noise: npt.ArrayLike | None = None,
        scores: Mapping[str, npt.ArrayLike] | None = None,
        split: Sequence[str] | npt.NDArray[Any] | pd.Series | None = None,
        pi_columns: Iterable[str] = (),
    ) -> "Predictions":
        """Put a table and the model's answers together, with no label marked as an issue yet.

        Parameters
        ----------
        annotations : pandas.DataFrame
            The frame of an AnnotationTable: item, label, maybe annotator and y, and the PI columns.
        classes : list of str or int
            Class names in the order of the codes.
        predicted, noise : int array (N,)
            Codes of the labels that the prediction network, and the noise network, find most likely.
        predicted_probability, label_quality : array (N,)
            Probability of the predicted label, and that the given one is right.
        consensus : int array (N,), optional
            Codes of the labels that input and all answers to the item find most likely.
        consensus_quality : array (N,), optional
            Their probability; needed with `consensus`.
        given_probability, given_margin : array (N,), optional
            Probability of the given label from the input alone, and the log of its ratio to the likeliest other one's.
        epoch_probability : array (N,), optional
            Probability of the given label from the input alone, averaged over the epochs; NaN where there is none.
        gate : array (N,), optional
            Gate of every annotation.
        scores : mapping of name to array (N,), optional
            Further scores of the method, high = the label looks wrong; NaN where there is none.
        split : array (N,) of str, optional
            train, valid or test; all train when not given.
        pi_columns : list of str
            PI columns of `annotations` to carry along; "annotator" is always carried.
        """
        n = len(annotations)
        columns: dict[str, Any] = {"row": np.arange(n, dtype=np.int64), "item": _as_category(annotations["item"])}
        if "annotator" in annotations:
            columns["annotator"] = _as_category(annotations["annotator"])
        columns["given_label"] = pd.Categorical(annotations["label"], categories=list(classes))
        columns["predicted_label"] = label_column(predicted, classes)
        columns["predicted_probability"] = _float32("predicted_probability", predicted_probability, n)
        if consensus is not None and consensus_quality is not None:
            columns["consensus_label"] = label_column(consensus, classes)
            columns["consensus_quality"] = _float32("consensus_quality", consensus_quality, n)
        columns["label_quality"] = _float32("label_quality", label_quality, n)
        by_input = {
            "given_probability": given_probability,
            "given_margin": given_margin,
            "epoch_probability": epoch_probability,
        }
        columns |= {name: _float32(name, values, n) for name, values in by_input.items() if values is not None}
        columns["is_label_issue"] = np.zeros(n, dtype=bool)
        if gate is not None:
            columns["gate"] = _float32("gate", gate, n)
        if noise is not None:
            columns["noise_label"] = label_column(noise, classes)
        scores = dict(scores or {})
        columns |= {name: np.asarray(values, np.float32) for name, values in scores.items()}
        columns["split"] = _splits(split, n)
        if "y" in annotations:
            columns["y"] = _as_category(annotations["y"])
        taken = {*OWN_COLUMNS, *scores}
        renamed = _pi_names([name for name in pi_columns if name != "annotator"], taken)
        columns |= {new: _compact(annotations[old]) for old, new in renamed.items()}
        columns["reason"] = pd.Series("", index=range(n), dtype="str")
        frame = pd.DataFrame({name: _bare(column) for name, column in columns.items()})
        return cls(frame, classes, renamed.values())

    @classmethod
    def read(cls, path: str | Path, columns: Sequence[str] | None = None) -> "Predictions":
        """Read a predictions.parquet, or only some of its columns."""
        frame, notes = _read(Path(path), columns, PREDICTIONS_COLUMNS)
        labels = notes["categories"]
        classes = labels["given_label"]
        for name in ("predicted_label", "noise_label", "y", "consensus_label"):
            if name in notes["pi_columns"]:
                continue
            if labels.get(name, classes)[: len(classes) if name == "y" else None] != classes:
                raise RunError(f"{path} cannot be used: {name} has other classes than given_label; {DAMAGED}.")
        if "row" in frame and not np.array_equal(frame["row"], np.arange(len(frame))):
            raise RunError(f"{path} cannot be used: its rows are not numbered from 0 in order; {DAMAGED}.")
        if "split" in frame and not {*frame["split"].cat.categories} <= {*SPLITS}:
            raise RunError(f"{path} cannot be used: split must be one of {', '.join(SPLITS)}; {DAMAGED}.")
        return cls(frame, classes, [c for c in notes["pi_columns"] if c in frame])

    def write(self, path: str | Path) -> None:
        """Write to a Parquet file that is there in full or not at all."""
        write_frame(path, self.frame, pi_columns=self.pi_columns)

    def with_issues(
        self,
        is_issue: npt.ArrayLike,
        reasons: Mapping[str, Sequence[str]] | None = None,
        explained: npt.ArrayLike | None = None,
    ) -> "Predictions":
        """The same predictions with these annotations marked as issues.

        Parameters
        ----------
        is_issue : bool array (N,)
        reasons : mapping of name to list of str, optional
            Parts of the reasons, each with one text per issue, in row order; "" where it has nothing to say. A part
            called "whole" is the reason as one text; without it, the parts are joined as they come.
        explained : bool array (N,), optional
            Which annotations the reasons are of; all issues by default.
        """
        is_issue, own = np.asarray(is_issue, dtype=bool), {name: t for name, t in (reasons or {}).items() if any(t)}
        explained = is_issue if explained is None else np.asarray(explained, dtype=bool)
        whole = own.pop("whole", None)
        parts = {f"reason_{name}": texts for name, texts in own.items()}
        for texts in (reasons or {}).values():
            if len(texts) != np.count_nonzero(explained):
                raise UsageError(f"{np.count_nonzero(explained)} issues need as many reasons, but got {len(texts)}.")
        frame = self.frame.drop(columns=self.reason_parts)
        frame["is_label_issue"] = is_issue
        joined = whole or [join_parts(row) for row in zip(*parts.values(), strict=True)]
        for name, texts in {"reason": joined, **parts}.items():
            column = np.full(len(self), "", dtype=object)
            column[explained] = texts or ""
            frame[name] = pd.Series(column, dtype="str").array
        return Predictions(frame, self.classes, self.pi_columns)

    def issues(self) -> pd.DataFrame:
        """The rows that look wrong, most suspicious (lowest label_quality) first; reasons are whole sentences."""
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
    def given(self) -> Codes:
        """Codes of the given labels (N,)."""
        return self._codes("given_label")

    @property
    def predicted(self) -> Codes:
        """Codes of the predicted labels (N,)."""
        return self._codes("predicted_label")

    @property
    def suggested(self) -> Codes:
        """Codes of the labels to put in the place of wrong ones: the consensus, or of an older run the predicted."""
        return self._codes("consensus_label") if self.has_consensus else self.predicted

    @property
    def suggested_probability(self) -> npt.NDArray[np.float32]:
        """Probability of the suggested labels (N,), in [0, 1]."""
        name = "consensus_quality" if self.has_consensus else "predicted_probability"
        return self.frame[name].to_numpy(dtype=np.float32)

    @property
    def has_consensus(self) -> bool:
        """Whether items have a consensus; those of older runs have it in items.parquet alone."""
        return "consensus_label" in self.frame and "consensus_label" not in self.pi_columns

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
    """Parts of a reason as one text."""
    return " ".join(part for part in parts if part)


def label_column(codes: npt.ArrayLike, classes: Sequence[Any]) -> Any:
    """Codes as a pandas categorical over all classes; a code of -1 is a missing label."""
    return pd.Categorical.from_codes(np.asarray(codes, dtype=np.int64), categories=pd.Index(list(classes)))


def write_frame(path: str | Path, frame: pd.DataFrame, *, pi_columns: Iterable[str] = ()) -> None:
    """Write predictions, items or annotators to Parquet, atomically, with the classes of their label columns."""
    labels = [name for name in LABEL_COLUMNS if name in frame and isinstance(frame[name].dtype, pd.CategoricalDtype)]
    notes = {
        "format": FORMAT,
        "categories": {name: frame[name].cat.categories.tolist() for name in labels},
        "pi_columns": list(pi_columns),
    }
    table = pa.table({str(name): _to_arrow(frame[name]) for name in frame})
    table = table.replace_schema_metadata({"pidual": json.dumps(notes)})
    with replacing(Path(path)) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=ROWS_PER_GROUP)


def read_frame(
    path: str | Path, columns: Sequence[str] | None = None, schema: Mapping[str, Column] | None = None
) -> pd.DataFrame:
    """Read what `write_frame` wrote, label columns again as categories with all their classes.

    Parameters
    ----------
    path : path
    columns : sequence of str, optional
        Read these only.
    schema : mapping, optional
        What the columns must hold.
    """
    return _read(Path(path), columns, schema or {})[0]


def n_rows(path: str | Path) -> int:
    """Rows of a Parquet file, by its end alone."""
    with _readable(Path(path)):
        return int(pq.read_metadata(path).num_rows)


def column_names(path: str | Path) -> list[str]:
    """Columns of a Parquet file."""
    with _readable(Path(path)):
        names: list[str] = pq.read_schema(path).names
        return names


def take_rows(path: Path, rows: npt.NDArray[Any], columns: list[str]) -> pd.DataFrame:
    """These rows of a Parquet file, in this order, one row group in memory at a time."""
    parts, first = [], 0
    with _readable(path), pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            n = file.metadata.row_group(group).num_rows
            inside = np.flatnonzero((rows >= first) & (rows < first + n))
            if len(inside):
                taken = file.read_row_group(group, columns=columns).take(rows[inside] - first).to_pandas()
                parts.append(taken.astype(object).set_index(pd.Index(inside)))
            first += n
    return pd.concat(parts).sort_index() if parts else pd.DataFrame(columns=columns)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what is wrong where a Parquet file cannot be read."""
    if not path.is_file():
        raise RunError(f"There is no {path.name} in {path.parent.name or path.parent}; fit or detect writes it.")
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"{path} is not a Parquet file that can be read ({reason[:200]}); fit again.") from error


def _read(
    path: Path, columns: Sequence[str] | None, expected: Mapping[str, Column]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    with _readable(path):
        schema = pq.read_schema(path)
        text = (schema.metadata or {}).get(b"pidual", b'{"categories": {}, "pi_columns": []}').decode()
    notes = check_record(path, text, NOTES, place="schema metadata 'pidual'")
    if len({*schema.names}) < len(schema.names):
        raise RunError(f"{path} cannot be used: it has two columns of one name; {DAMAGED}.")
    for name in columns or ():
        if name not in schema.names:
            raise RunError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}.")
    expected = {name: column for name, column in expected.items() if name not in notes["pi_columns"]}
    for name, column in expected.items():
        if name not in schema.names and column.required:
            raise RunError(f"{path} was not written by pidual or is damaged: it has no column {name!r}; fit again.")
        if name not in schema.names:
            continue
        if column.kind == "label" and not notes["categories"].get(name):
            raise RunError(f"{path} was not written by pidual: it does not say what classes {name!r} has; fit again.")
        if problem := _problem(pa.chunked_array([], schema.field(name).type), column):
            raise RunError(f"{path} cannot be used: column {name!r} {problem}; {DAMAGED}.")
    with _readable(path):
        table = pq.read_table(path, columns=list(columns) if columns is not None else None)
        read = {}
        for name in table.column_names:
            problem = _problem(table[name], expected.get(name))
            values = None if problem else _from_arrow(name, table[name], notes["categories"].get(name))
            if problem or values is None:
                raise RunError(f"{path} cannot be used: column {name!r} {problem or OTHER_CLASS}; {DAMAGED}.")
            read[name] = values
    return pd.DataFrame(read), notes


OTHER_CLASS = "holds a label that is none of its classes"


def _problem(column: pa.ChunkedArray, expected: Column | None) -> str | None:
    """What is wrong with a column, or None."""
    kind = column.type
    if pa.types.is_nested(kind):
        return f"holds {kind} values"
    if expected is None:
        return None
    if column.null_count and not expected.missing:
        return "has missing values"
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_integer, empty = pa.types.is_integer(values), len(column) == 0 and pa.types.is_null(kind)
    if expected.kind == "share":
        if not pa.types.is_floating(kind):
            return "must hold numbers from 0 to 1"
        numbers = column.drop_null().to_numpy()
        return None if ((numbers >= 0) & (numbers <= 1 + 1e-6)).all() else "must hold numbers from 0 to 1"
    if expected.kind == "number":
        finite = pa.types.is_floating(kind) and np.isfinite(column.drop_null().to_numpy()).all()
        return None if finite else "must hold finite numbers"
    known = {
        "count": (pa.types.is_integer(kind), "must hold whole numbers of at least 0"),
        "flag": (pa.types.is_boolean(kind), "must hold true or false"),
        "text": (_is_text(values) or empty, "must hold text"),
        "png": (pa.types.is_binary(kind) or empty, "must hold PNG images"),
        "label": (_is_text(values) or is_integer, "must hold class names"),
        "name": (_is_text(values) or is_integer or empty, "must hold names"),
    }
    good, words = known[expected.kind]
    if good and expected.kind == "count" and len(column):
        good = pc.min(column).as_py() >= 0
    if good and expected.kind == "png":
        good = all(image.startswith(PNG) for image in column.to_pylist())
    return None if good else words


def _to_arrow(column: "pd.Series[Any]") -> pa.Array:
    """An Arrow column; integer and very many categories as plain values, text categories as a dictionary."""
    try:
        array = pa.Array.from_pandas(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types
        array = pa.Array.from_pandas(column.astype("str").astype("category"))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        return array
    plain = not _is_text(array.type.value_type) or len(array.dictionary) > MAX_DICTIONARY
    return array.dictionary_decode() if plain else array


def _from_arrow(name: str, column: pa.ChunkedArray, categories: list[Any] | None) -> Any:
    """A pandas column; labels, items and annotators as categories. None where a label is not among its categories."""
    if categories is not None and not pa.types.is_dictionary(column.type):
        found = pc.index_in(column, pa.array(categories, column.type), skip_nulls=True)
        codes = pc.fill_null(found, -1)
        return label_column(codes.to_numpy(), categories) if found.null_count == column.null_count else None
    if name in CATEGORY_COLUMNS and not pa.types.is_dictionary(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return pd.Categorical.from_codes(codes, categories=pd.Index(encoded.dictionary.to_pandas()))
    values = column.to_pandas()
    if categories is None:
        return values
    return values.cat.set_categories(categories) if {*values.cat.categories} <= {*categories} else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _pi_names(columns: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """What PI columns are called here: pi_<name> where the name is taken, with one more pi_ where that is one too."""
    used, names = {*taken, *columns}, {}
    for column in columns:
        names[column] = column
        while column in taken and names[column] in used:
            names[column] = f"pi_{names[column]}"
        used.add(names[column])
    return names


def _splits(split: Any, n: int) -> Any:
    return label_column(np.zeros(n), SPLITS) if split is None else pd.Categorical(split, categories=pd.Index(SPLITS))


def _as_category(column: "pd.Series[Any]") -> "pd.Series[Any]":
    return column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")


def _compact(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Text as categories, everything else as it is."""
    is_text = not isinstance(column.dtype, pd.CategoricalDtype) and pd.api.types.is_string_dtype(column.dtype)
    return column.astype("category") if is_text else column


def _bare(column: Any) -> Any:
    """The values of a column without its index, so that columns meet by position."""
    return column.array if isinstance(column, pd.Series) else column


def _float32(name: str, values: npt.ArrayLike, n: int) -> npt.NDArray[np.float32]:
    array = np.asarray(values, dtype=np.float32)
    if array.shape != (n,):
        raise UsageError(f"{name} needs one value for each of the {n} annotations, but its shape is {array.shape}.")
    return array
