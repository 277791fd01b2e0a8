"""What the readers of exports share: answers are collected record by record, and become a long table.

    answers = Answers("export.json", "Label Studio", "task", "control")
    answers.begin(7)
    answers.record({"text": "good"})
    answers.add("sentiment", ["positive"], annotator=3, seconds=4.2, created_at="2024-05-01T10:00:00Z")
    source = answers.source(label=None)

The table has the columns item, label and, where they are known, annotator, seconds, changes, interactions, trial (the
order of the annotator's answers), hour (of the day, in UTC), pre_annotated and created_at, y where there are clean
labels, and the fields of the records.
"""

import datetime
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError, DataWarning, UsageError
from ...errors.messages import listed, quoted
from ..people import shown
from ..sources.base import Source
from ..sources.in_arrow import InArrow
from .long_table import finished
from .records import Json, as_columns, kind

ABOUT = ("annotator", "seconds", "changes", "interactions", "pre_annotated", "created_at")  # about an answer


class Answers:
    """Answers of one export.

    `name`: what messages call the file.
    `tool`: the program that wrote it.
    `unit`, `question`: what that program calls an item, and what an annotator answers.
    """

    def __init__(self, name: str, tool: str, unit: str, question: str):
        self.name, self.tool, self.unit, self.question = name, tool, unit, question
        self.left_out: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()  # results that are no classes, by type
        self.tags: dict[str, Mapping[str, str]] = {}  # by control: what the labelling tool calls its parts
        self._records: list[Json] = []
        self._rows: dict[str, list[Json]] = {}  # by control
        self._truths: dict[str, dict[int, Any]] = defaultdict(dict)
        self._several: Counter[str] = Counter()  # answers of several labels, by control
        self._empty: list[dict[str, Any]] = []  # answers without any
        self._contradicted: Counter[str] = Counter()
        self._item: Any = None

    def begin(self, item: Any) -> None:
        """Say which item is read from now on."""
        self._item = item
        self.expect(item, (int, str), "id", "a number or text")

    def record(self, fields: Mapping[str, Any]) -> None:
        """Begin the record of the item; answers that follow are to it."""
        named = {f"data_{name}" if name == "item" else name: value for name, value in fields.items()}
        self._records.append({"item": self._item, **named})

    def add(self, control: str, labels: Sequence[Any], **about: Any) -> None:
        """Add an answer to the present record: a row per label (None of an empty set), and what is known `ABOUT` it."""
        self._several[control] += len(labels) > 1
        rows = self._rows.setdefault(control, [])
        number = rows[-1]["answer"] + 1 if rows else 0
        rows += [{"record": len(self._records) - 1, "answer": number, "label": label, **about} for label in labels]

    def add_empty(self, control: str | None, **about: Any) -> None:
        """Add an answer without any label; only a control that takes several has such answers."""
        self.left_out["without a label"] += 1
        self._empty.append({"control": control, "record": len(self._records) - 1, "label": None, **about})

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

    def objects(self, value: Any, field: str) -> Iterator[Json]:
        """Yield the objects of a list, which may be missing."""
        for each in self.optional(value, list, field, "a list") or ():
            yield self.expect(each, dict, field, "a list of objects")

    def by_item(self, records: Iterable[Any], ids: Sequence[str], fields: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield records item by item, of which the first says what is known; `ids`: fields that may name the item."""
        found: dict[Any, list[Any]] = defaultdict(list)
        for number, record in enumerate(records, 1):
            self.begin(item := next((record[name] for name in ids if name in record), number))
            found[item].append(record)
        for item, same in found.items():
            self.begin(item)
            self.record(fields(same[0]))
            yield from same

    def who(self, value: Any, field: str) -> str | None:
        """Return an annotator as text."""
        found = self.optional(value, (int, str), field, "a number or text")
        return None if found is None else str(found)

    def moment(self, value: Any, field: str) -> str | None:
        """Return when an answer was given: text as it is, or a number of seconds since 1970."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return datetime.datetime.fromtimestamp(value, datetime.UTC).isoformat()
            except (OverflowError, ValueError, OSError):
                raise self.error(field, "this is not a time in seconds since 1970") from None
        found: str | None = self.optional(value, str, field, "text")
        return found

    def items(self) -> Source:
        """Return the fields of every record, answered or not."""
        return InArrow(self.name, as_columns(self.name, self._records).flat())

    def source(self, label: str | None) -> Source:
        """Return the long table of the answers to one control, which must be named where there are several."""
        control = self._choose(label)
        answered = self._rows[control]
        if self._several[control]:
            empty = [dict(row) for row in self._empty if row.pop("control") in (None, control)]
            self.left_out.subtract({"without a label": len(empty)})
            after = answered[-1]["answer"] + 1
            answered = answered + [{"answer": after + number, **row} for number, row in enumerate(empty)]
        rows, records = as_columns(self.name, answered).data, as_columns(self.name, self._records)
        number, items = np.asarray(rows.pop("record"), np.int64), records.data.pop("item")
        answers = np.asarray(rows.pop("answer"), np.int64)
        own: Json = {"item": items.take(pa.array(number)), "label": rows["label"]}
        own |= {name: rows[name] for name in ABOUT if name in rows}
        if truths := {row: str(truth) for row, truth in self._truths.get(control, {}).items()}:
            own["y"] = pa.chunked_array([pa.array(map(truths.get, number.tolist()), pa.string())])
        self._warn(control, records.nested)

        def place(row: int) -> str:
            return f"{self.name}, {self.unit} {shown('', items[row].as_py())}"

        of = InArrow(self.name, records.flat(), place)
        of.vectors = records.vectors
        long = finished(of, number, own, {control: "label"})
        long.tags, long.answers = self.tags.get(control, {}), answers
        return long

    def _choose(self, label: str | None) -> str:
        controls = [name for name, rows in self._rows.items() if any(row["label"] is not None for row in rows)]
        names = ", ".join(map(quoted, controls[:10]))
        if not controls:
            why = f"all are left out ({_counts(self.left_out)})" if self.left_out else "there is no answer in it"
            if any(self._truths.values()):
                why = "all answers are marked as ground truth, so none is left to judge"
            elif self.skipped:
                why = f"it has {_counts(self.skipped)}, and pidual needs classes of whole items"
                why += " (docs/multi_label.md says what judges spans and boxes)"
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
        several, contradicted = self._several[control], self._contradicted[control]
        one_class = (
            "each label becomes a row, although an item has one class; --multi-label judges each class by itself"
        )
        notes = [
            (self.left_out.total(), f"annotations that are left out: {_counts(self.left_out)}"),
            (several, f"answers with several labels: {several:,}; {one_class}"),
            (
                contradicted,
                f"ground-truth annotations that contradict an earlier one and are not used: {contradicted:,}",
            ),
            (nested, f"the fields {listed(sorted(nested), 5)} hold lists or objects and are not used"),
        ]
        for there, text in notes:
            if there:
                warnings.warn(f"{self.name}: {text}.", DataWarning, stacklevel=4)


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {what}" for what, n in counter.items() if n)
