"""List the labels of a run in the order of looking, and what is known about each.

Columns are kept in memory, a few numbers of every label and its texts; a record is made of a label when it is shown.
"""

import base64
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Meta, Struct

from ...detect.next_gold import first_answers
from ...metrics import finite_or_none, wilson_interval
from ...run.decisions import DECISIONS, Store
from ...run.files import RunFiles
from ...run.predictions import column_names
from ..previews import NOTHING, cut, previews

NUMBERS = ("row", "item", "annotator", "given_label", "predicted_label", "consensus_label")
TEXTS = ("item", "annotator", "reason", "predicted_probability", "consensus_quality")
MAX_ANSWERS = 30  # others to the same item that are shown
MAX_PEOPLE = 20  # annotators that a search finds

Record = dict[str, Any]
Share = Annotated[float, Meta(ge=0, le=1)]
Mask = npt.NDArray[np.bool_]


class Filter(Struct, frozen=True):
    """Chooses which labels to look at.

    `show`: labels on which nobody has decided, those on which somebody has, or all.
    `label`: the code of the given label.
    `annotator`: who gave the label.
    `low`, `high`: the quality, both ends included.
    `everything`: also labels that do not look wrong.
    `resting`: instead of those that look wrong, labels that rest on their own answer.
    """

    show: Literal["undecided", "decided", "all"] = "undecided"
    label: Annotated[int, Meta(ge=0)] | None = None
    annotator: str | None = None
    low: Share = 0.0
    high: Share = 1.0
    everything: bool = False
    resting: bool = False


class Suspects:
    """Holds the labels of a run, those most worth a look (1 - label_quality) first, and what was decided on them.

    A label's *place* is where it is in this order.

    `run`: a finished run.
    `store`: its decisions.
    `sample`: the worst label of each of this many items comes first, those of `detect.next_gold`. 0 shows the worst
        first.
    """

    def __init__(self, run: RunFiles, store: Store, sample: int = 0):
        path, self.store = run.path / "predictions.parquet", store
        read = run.read_predictions([*NUMBERS, "label_quality", "is_label_issue", "rests_on_own_answer"])
        self.classes = [str(name) for name in read.classes]
        self.people = None
        if read.annotator is not None:
            self.people = pa.array(read.frame["annotator"].cat.categories.astype(str), pa.string())
        self.order = np.argsort(read.label_quality, kind="stable").astype(np.int32)
        self.place = np.empty(len(self.order), np.int32)
        self.place[self.order] = np.arange(len(self.order), dtype=np.int32)
        self.quality, self.issue = read.label_quality[self.order], read.is_issue[self.order]
        self.resting = read.is_resting[self.order]
        self.sample = self.place[first_answers(run, read, sample)] if sample else None
        self.given, self.predicted = read.given[self.order], read.predicted[self.order]
        self.suggested = read.suggested[self.order]
        self.of_sets = run.summary.label_sets is not None
        self.has_inputs = run.config.data.x != "none"
        self.annotator = read.annotator[self.order] if read.annotator is not None else None
        self.item = read.item.astype(np.int32)
        del read
        there = [name for name in TEXTS if name in column_names(path)]
        self.texts = pq.read_table(path, columns=there, read_dictionary=["reason"])
        pa.default_memory_pool().release_unused()
        self.pictures = {item: base64.b64encode(png).decode() for item, png in run.thumbnails.items()}
        self.previews = previews(run)
        self.state = np.zeros(len(self.order), np.int8)  # 0: undecided, else 1 + which of DECISIONS
        for decision in store.latest():
            self._set(decision.row)

    def __len__(self) -> int:
        return len(self.order)

    def sync(self, *, wait: bool = True) -> None:
        """Read what was written since, also by other servers of the same run; see `Store.sync`."""
        for row in self.store.sync(wait=wait):
            self._set(row)

    def chosen(self, wanted: Filter) -> Mask:
        """Return the places that a filter leaves, whether decided or not."""
        first = int(np.searchsorted(self.quality, np.float32(wanted.low), "left"))
        last = int(np.searchsorted(self.quality, np.float32(wanted.high), "right"))
        mask = np.zeros(len(self), bool)
        group = self.resting if wanted.resting else self.issue
        mask[first:last] = True if wanted.everything else group[first:last]
        if wanted.label is not None:
            mask &= self.given == wanted.label
        if wanted.annotator is not None and self.annotator is not None:
            named = pa.scalar(wanted.annotator, pa.string())
            mask &= self.annotator == (-1 if self.people is None else int(pc.index(self.people, named).as_py()))
        return mask

    def find(self, wanted: Filter, mask: Mask, start: int, *, back: bool = False, taken: list[int]) -> int | None:
        """Find the next place from `start` on, or the last one before it; at an end, go on from the other.

        Places that are `taken`, by reviewers who look at them now, come only when no other is left.
        """
        shown = mask if wanted.show == "all" else mask & ((self.state > 0) == (wanted.show == "decided"))
        free = shown.copy()
        free[taken] = False
        if self.sample is not None and wanted == Filter():
            here = np.flatnonzero(self.sample == (start if back else start - 1))  # where the reviewer is in the sample
            order = np.roll(self.sample, -int(here[0]) - (not back)) if len(here) else self.sample
            left = order[(self.state[order] == 0) & ~np.isin(order, taken)]
            if len(left):
                return int(left[-1 if back else 0])
            start = start if back or not len(here) else 0  # after the sample, the worst
        for open_ in (free, shown):
            parts = (open_[:start][::-1], open_[start:][::-1]) if back else (open_[start:], open_[:start])
            for part, offset in zip(parts, (start - 1, len(self) - 1) if back else (start, 0), strict=True):
                if len(part) and part[at := int(part.argmax())]:
                    return offset - at if back else offset + at
        return None

    def progress(self, wanted: Filter, mask: Mask) -> Record:
        """Count the chosen labels that are decided, and state which share of those decided was wrong.

        The sample is counted apart where there is one and it comes first: it goes beyond the list.
        """
        kept, changed, unsure = (int(np.count_nonzero(mask & (self.state == code))) for code in (1, 2, 3))
        total, told = int(np.count_nonzero(mask)), kept + changed
        low, high = wilson_interval(changed, told)
        precision = {"share": changed / told, "low": float(low), "high": float(high)} if told else None
        decided = {"kept": kept, "changed": changed, "unsure": unsure, "decided": told + unsure}
        sample = None
        if self.sample is not None and wanted == Filter(wanted.show):
            sample = {"total": len(self.sample), "decided": int(np.count_nonzero(self.state[self.sample]))}
        return {"total": total, "undecided": total - told - unsure, **decided, "precision": precision, "sample": sample}

    def describe(self, place: int) -> Record:
        """Return all that a reviewer is shown of a label."""
        position = int(self.order[place])
        (texts,) = self.texts.slice(position, 1).to_pylist()
        item = str(texts["item"])
        decision = self.store.get(position)
        return {
            "row": position,
            "place": place,
            "item": cut(item),
            "annotator": cut(texts.get("annotator")),
            "given": int(self.given[place]),
            "suggested": int(self.suggested[place]),
            "suggested_probability": finite_or_none(texts["consensus_quality"]),
            "predicted": int(self.predicted[place]),
            "predicted_probability": finite_or_none(texts["predicted_probability"]),
            "quality": finite_or_none(self.quality[place]),
            "looks_wrong": bool(self.issue[place]),
            "rests": bool(self.resting[place]),
            "reason": cut(texts["reason"]),
            "picture": self.pictures.get(item),
            **asdict(self.previews.get(position, NOTHING)),
            **self._answers(position),
            "decided": None if decision is None else asdict(decision),
        }

    def find_people(self, text: str) -> list[str]:
        """List annotators whose names hold this text."""
        if self.people is None:
            return []
        found = self.people.filter(pc.match_substring(self.people, text, ignore_case=True))
        return [str(name) for name in found[:MAX_PEOPLE].to_pylist()]

    def _answers(self, position: int) -> Record:
        others = np.flatnonzero(self.item == self.item[position])
        others = others[others != position]
        places = self.place[others[:MAX_ANSWERS]]
        people: list[Any] = [None] * len(places)
        if self.people is not None and self.annotator is not None:
            people = self.people.take(pa.array(self.annotator[places].astype(np.int64))).to_pylist()
        labels = self.given[places].tolist()
        answers = [{"label": label, "annotator": cut(who)} for label, who in zip(labels, people, strict=True)]
        return {"answers": answers, "more_answers": max(0, len(others) - MAX_ANSWERS)}

    def _set(self, row: int) -> None:
        decision = self.store.get(row)
        self.state[self.place[row]] = 1 + DECISIONS.index(decision.decision) if decision else 0
