"""What the readers of exports share: answers are collected record by record, and become a long table.

    answers = Answers("export.json", "Label Studio", "task", "control")
    answers.begin(7)
    answers.record({"text": "good"})
    answers.add("sentiment", ["positive"], annotator=3, seconds=4.2, created_at="2024-05-01T10:00:00Z")
    source = answers.source(label=None)

The table has the columns item, label and, where they are known, annotator, seconds, trial (the order of the annotator's
answers), hour (of the day, in UTC), pre_annotated and created_at, y where there are clean labels, and the fields of the
records.
"""

import collections
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import DataError, DataWarning, UsageError
from ...errors.messages import listed, quoted
from ..people import shown
from ..sources.base import Source
from ..sources.in_arrow import InArrow
from .long_table import finished
from .records import as_columns, kind


class Answers:
    """Answers of one export.

    Parameters
    ----------
    name : str
        What messages call the file.
    tool : str
        The program that wrote it.
    unit, question : str
        What that program calls an item, and what an annotator answers.
    """

    def __init__(self, name: str, tool: str, unit: str, question: str):
        self.name, self.tool, self.unit, self.question = name, tool, unit, question
        self.left_out: collections.Counter[str] = collections.Counter()
        self.skipped: collections.Counter[str] = collections.Counter()  # results that are no classes, by type
        self.tags: dict[str, Mapping[str, str]] = {}  # by control: what the labelling tool calls its parts
        self._records: list[dict[str, Any]] = []
        self._rows: list[dict[str, Any]] = []
        self._truths: dict[str, dict[int, Any]] = collections.defaultdict(dict)
        self._controls: collections.Counter[str] = collections.Counter()
        self._several: collections.Counter[str] = collections.Counter()  # answers of several labels, by control
        self._contradicted: collections.Counter[str] = collections.Counter()
        self._item: Any = None

    def begin(self, item: Any) -> None:
        """Say which item errors are about from now on."""
        self._item = item

    def record(self, fields: Mapping[str, Any]) -> None:
        """Begin the record of the item; answers that follow are to it."""
        item = self._item
        self._records.append(
            {"item": item, **{f"data_{name}" if name == "item" else name: fields[name] for name in fields}}
        )

    def add(
        self,
        control: str,
        labels: Sequence[Any],
        *,
        annotator: Any = None,
        seconds: float | None = None,
        created_at: str | None = None,
        pre_annotated: str | None = None,
    ) -> None:
        """Add an answer to the present record, with a row for each of its labels."""
        self._controls[control] += 1
        self._several[control] += len(labels) > 1
        for label in labels:
            self._rows.append(
                {
                    "record": len(self._records) - 1,
                    "control": control,
                    "label": label,
                    "annotator": annotator,
                    "seconds": None if seconds is None else float(seconds),
                    "created_at": created_at,
                    "pre_annotated": pre_annotated,
                }
            )

    def add_truth(self, control: str, labels: Sequence[Any]) -> None:
        """Add the clean label of the present record; one with several labels is none."""
        known = self._truths[control]
        if len(labels) == 1 and known.setdefault(len(self._records) - 1, labels[0]) != labels[0]:
            self._contradicted[control] += 1

    def error(self, field: str, what: str) -> DataError:
        """Return what to raise for a field of the present record."""
        where = f"{self.name}, {self.unit} {shown('', self._item)}"
        return DataError(f"{where}, {field}: {what}; export it again from {self.tool}, or correct the file.")

    def expect(self, value: Any, type_: type | tuple[type, ...], field: str, wanted: str) -> Any:
        """Return the value if it is of the type; an error that names the field otherwise."""
        if not isinstance(value, type_) or (isinstance(value, bool) and type_ is not bool):
            raise self.error(field, f"this is {kind(value)}, not {wanted}")
        return value

    def optional(self, value: Any, type_: type | tuple[type, ...], field: str, wanted: str) -> Any:
        """Return the value if it is None or of the type; raise an error that names the field otherwise."""
        return None if value is None else self.expect(value, type_, field, wanted)

    def objects(self, value: Any, field: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, which may be missing."""
        for each in self.optional(value, list, field, "a list") or ():
            yield self.expect(each, dict, field, "a list of objects")

    def items(self) -> Source:
        """Return the fields of every record, answered or not."""
        return InArrow(self.name, as_columns(self.name, self._records).flat())

    def source(self, label: str | None) -> Source:
        """Return the long table of the answers to one control, which must be named where there are several."""
        control = self._choose(label)
        rows = as_columns(self.name, self._rows).data
        rows = {name: column.filter(pc.equal(rows["control"], control)) for name, column in rows.items()}
        records = as_columns(self.name, self._records)
        number: NDArray[np.int64] = rows.pop("record").to_numpy().astype(np.int64)
        items = records.data.pop("item")
        own: dict[str, Any] = {"item": items.take(pa.array(number)), "label": rows["label"]}
        own |= {name: rows[name] for name in ("annotator", "seconds", "pre_annotated", "created_at") if name in rows}
        truths = self._truths.get(control, {})
        if truths:
            own["y"] = pa.chunked_array([pa.array([_as_text(truths.get(row)) for row in number.tolist()], pa.string())])
        self._warn(control, records.nested)

        def place(row: int) -> str:
            return f"{self.name}, {self.unit} {shown('', items[row].as_py())}"

        of = InArrow(self.name, records.flat(), place)
        of.vectors = records.vectors
        long = finished(of, number, own, {control: "label"})
        long.tags = self.tags.get(control, {})
        return long

    def _choose(self, label: str | None) -> str:
        """Return the control whose answers are the labels."""
        controls = list(self._controls)
        names = ", ".join(map(quoted, controls[:10]))
        if not controls:
            why = f"all are left out ({_counts(self.left_out)})"
            why = why if self.left_out else "there is no answer in it"
            if any(self._truths.values()):
                why = "all answers are marked as ground truth, so none is left to judge"
            elif self.skipped:
                why = f"it has {_counts(self.skipped)}, and pidual needs one class for a whole item"
            raise DataError(f"{self.name} holds no answers to learn from: {why}; export answers that give a class.")
        if label in controls:
            return label
        if label not in (None, "label"):
            raise UsageError(f"{self.name} has no answers to {quoted(label)}; it has answers to {names}.")
        if len(controls) > 1:
            raise UsageError(
                f"{self.name} has answers to several {self.question}s: {names}; say which of them is the label with "
                "label= (--label)."
            )
        return controls[0]

    def _warn(self, control: str, nested: Collection[str]) -> None:
        """Say what is not used, and what is not as one might think."""
        notes = []
        if self.left_out:
            notes.append(f"annotations that are left out: {_counts(self.left_out)}.")
        if self._several[control]:
            notes.append(
                f"answers with several labels: {self._several[control]:,}; each label becomes a row, although an "
                "item has one class."
            )
        if contradicted := self._contradicted[control]:
            notes.append(f"ground-truth annotations that contradict an earlier one and are not used: {contradicted:,}.")
        if nested:
            notes.append(f"the fields {listed(sorted(nested), 5)} hold lists or objects and are not used.")
        for text in notes:
            warnings.warn(f"{self.name}: {text}", DataWarning, stacklevel=4)


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {what}" for what, n in counter.items())


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)
