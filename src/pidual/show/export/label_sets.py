"""Answers that are sets of labels: corrected in the form they came in, and what items have by all answers to them."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...data import as_text, keys, long_frame, spelled_like
from ...data.label_sets import SIGNS, Judged
from ...data.roles import Roles
from ...data.sources import Source
from ...data.sources.in_arrow import Long
from ...detect.items import ALL_CLASSES
from ...run.files import RunFiles
from .cells import Edit
from .decide import reviewed_labels

SEPARATOR = "|"  # between labels in a text, where the table has none


def consensus_sets(run: RunFiles) -> pd.DataFrame:
    """Return the classes of every item, by all answers and by what reviewers decided.

    Returned by item: consensus_label (a list), consensus_quality (the product of its classes'), and as lists tags and
    probabilities, those of all classes that are judged there.
    """
    frame = run.predictions.frame.drop_duplicates("item")
    quality, has = frame["consensus_quality"].to_numpy(np.float64), frame["consensus_label"].cat.codes.to_numpy() % 2
    p = pd.Series(np.where(has == 1, quality, 1 - quality), frame["item"].astype(str))
    told = reviewed_labels(run)
    p.loc[told.index] = told.isin(frame["tag"].cat.categories.astype(str)).astype(np.float64)
    pairs = pd.DataFrame({"item": frame["tagged_item"].array, "tags": frame["tag"].astype(str).array})
    pairs = pairs.assign(probabilities=p.array, consensus_quality=p.where(p > 0.5, 1 - p).array)
    by_item = pairs.groupby("item", observed=False)
    found = by_item.agg({"consensus_quality": "prod", "tags": list, "probabilities": list})
    sets = pairs[pairs["probabilities"] >= 0.5].groupby("item", observed=False)["tags"].agg(list)
    found.insert(0, "consensus_label", sets)
    return found.fillna({"consensus_quality": 1.0}).set_axis(found.index.astype(str))


def soft_sets(run: RunFiles) -> pd.DataFrame:
    """Return of every item the set, its quality, and the probability of every class; what is not judged there is 0.

    With more than 20 classes there are the lists tags and probabilities instead of a column for each.
    """
    found = consensus_sets(run).rename_axis("item").reset_index()
    names = [str(name) for name in run.predictions.classes[1::2]]
    if len(names) > ALL_CLASSES:
        return found
    p = np.zeros((len(found), len(names)), np.float32)
    for row, (tags, several) in enumerate(zip(found.pop("tags"), found.pop("probabilities"), strict=True)):
        p[row, [names.index(tag) for tag in tags]] = several
    return found.assign(**{f"p_{name}": p[:, at] for at, name in enumerate(names)})


def by_answer(source: Source, roles: Roles) -> tuple[Source, Roles]:
    """Return a row for each answer instead of each judgement, where answers are sets of labels."""
    if not isinstance(source, Long) or source.sets is None:
        return source, roles
    judged: Judged = source.sets
    rows = np.arange(judged.sets.said.shape[0])
    own = {"label": pa.chunked_array([pa.array(["-"] * len(rows))])}
    if roles.item is None:
        own["item"] = pa.chunked_array([pa.array(judged.file_rows)])
    whole = Long(judged.source, rows, own)
    whole.guess, whole.tags, whole.aliases = source.guess, source.tags, source.aliases
    whole.sets = judged._replace(answer=rows)
    return whole, roles._replace(item=roles.item or "item", label="label")


def long_sets(source: Long, roles: Roles, changes: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each answer, as `pidual data import` has them, with its corrected set as a list."""
    judged: Judged = source.sets
    said, classes = judged.sets.said.tocsr(), np.array(judged.sets.classes, object)
    sets = [set(classes[part].tolist()) for part in np.split(said.indices, said.indptr[1:-1])]
    for answer, (added, dropped) in _corrected(judged, changes).items():
        sets[answer] = sets[answer] - dropped | added
    whole, of = by_answer(source, roles)
    assert isinstance(whole, Long)
    frame = long_frame(whole, None, item=of.item, label="label", annotator=of.annotator, split=of.split)
    frame = frame.drop(columns=[whole.name_of(name) for name in judged.columns])
    return frame.assign(label=pd.Series([sorted(one) for one in sets], dtype=object))


def as_texts(frame: pd.DataFrame, separator: str | None) -> pd.DataFrame:
    """Write the lists of a frame as text, for CSV."""
    of_lists = [str(name) for name in frame if len(frame) and isinstance(frame[name].iloc[0], list)]
    texts = {name: [(separator or SEPARATOR).join(map(str, one)) for one in frame[name]] for name in of_lists}
    return frame.assign(**texts)


def edits_of_sets(source: Long, changes: pd.DataFrame) -> list[Edit]:
    """Say what is written into which cells of the file."""
    judged: Judged = source.sets
    if judged.read.get("labels"):
        return list(_edits_of_signs(judged, changes))
    (column,) = judged.columns
    written = judged.source.read([column])[column].to_pylist()
    separator = judged.read.get("label_separator")
    labels = dict.fromkeys(str(label) for value in written for label in _parts(value, separator))
    spelled = spelled_like(labels, judged.sets.classes, judged.read.get("same"))
    plain = {str(label): label for value in written if isinstance(value, list) for label in value}  # numbers stay so
    found = []
    for answer, (added, dropped) in _corrected(judged, changes).items():
        old = written[answer]
        kept = [label for label in _parts(old, separator) if spelled[str(label)] not in dropped]
        new: Any = kept + [plain.get(label, label) for label in sorted(added)]
        if isinstance(old, str) and old.lstrip().startswith("["):
            new = json.dumps(new, ensure_ascii=False)
        elif not isinstance(old, list):
            wide = " " if separator and f"{separator} " in (old or "") else ""
            new = f"{separator or SEPARATOR}{wide}".join(map(str, new))
        cell = judged.source.cell(answer, column)
        if cell is not None:
            found.append(Edit(cell, None, None if old is None else str(old), new))
    return found


def _parts(value: Any, separator: str | None) -> list[Any]:
    if not isinstance(value, str):
        return list(value or ())
    if value.lstrip().startswith("["):
        return list(json.loads(value))
    return [part.strip() for part in (value.split(separator) if separator else [value]) if part.strip()]


def _edits_of_signs(judged: Judged, changes: pd.DataFrame) -> Iterator[Edit]:
    """Yield edits of columns of 0 and 1: a sign is written as that column, or else another one, writes it."""
    signs: dict[str, tuple[Any, dict[bool, int]]] = {}  # by column: what is written, and a row of each sign
    for name in judged.columns:
        found = keys(judged.source, name, judged.source.read([name])[name])
        texts = as_text(found.names).to_pylist()
        first = {SIGNS[text.casefold()]: int(np.argmax(found.codes == code)) for code, text in enumerate(texts)}
        signs[name] = np.array(texts, object)[found.codes], first
    column = dict(zip(judged.sets.classes, judged.columns, strict=True))
    for answer, both in _corrected(judged, changes).items():
        for sign, tags in zip((True, False), both, strict=True):
            for name in (column[tag] for tag in tags):
                like = next((other for other in (name, *judged.columns) if sign in signs[other][1]), None)
                if like is not None and (cell := judged.source.cell(answer, name)) is not None:
                    row = signs[like][1][sign]
                    yield Edit(cell, judged.source.cell(row, like), signs[name][0][answer], signs[like][0][row])


def _corrected(judged: Judged, changes: pd.DataFrame) -> dict[int, tuple[set[str], set[str]]]:
    """Return by answer which classes its set gets, and which it loses."""
    found = dict[int, tuple[set[str], set[str]]]()
    side = {name: at for at, name in enumerate(judged.sets.sides)}
    for answer, label in zip(judged.answer[changes["row"]].tolist(), changes["new_label"].astype(str), strict=True):
        code = side[label]
        found.setdefault(answer, (set(), set()))[1 - code % 2].add(judged.sets.classes[code // 2])
    return found
