"""Write records of Argilla, for `dataset.records.from_json`: corrected responses, and the consensus as a suggestion."""

import json
from pathlib import Path

import pandas as pd

from ...data.roles import Roles
from ...data.sources import Source
from ...files import replacing
from ...run.files import RunFiles
from .label_sets import by_answer, consensus_sets
from .label_studio import fields_of, tags_of


def write_records(run: RunFiles, source: Source, roles: Roles, frame: pd.DataFrame, out: Path) -> None:
    """Write a record for each item of a run.

    `run`: a finished run.
    `source`, `roles`: its table.
    `frame`: item, annotator and label of each answer, corrected: a class, or a list.
    `out`: the JSON file.
    """
    of_sets = run.summary.label_sets is not None
    found = consensus_sets(run) if of_sets else run.items.set_index(run.items["item"].astype(str))
    source, roles = by_answer(source, roles)
    items = frame["item"].astype(str)
    first = items.drop_duplicates()
    names = first.tolist()
    fields = fields_of(source, roles, first.index.to_numpy())
    question, by_item = tags_of(source, list(fields))["from_name"], frame.groupby(items)
    place = {name: at for at, name in enumerate(found.index)}
    labels, scores = (found[column].tolist() for column in ("consensus_label", "consensus_quality"))
    agent, records = f"pidual {run.config.method} {run.summary.run_id}", []
    for number, name in enumerate(names):
        own, at = by_item.get_group(name), place[name]
        people = own["annotator"] if "annotator" in own else [None] * len(own)
        value = labels[at] if of_sets else str(labels[at])
        suggested = {"value": value, "score": round(scores[at], 4), "agent": agent}
        given = [
            {"value": label if of_sets else str(label), "user_id": None if pd.isna(who) else str(who)}
            | {"status": "submitted"}
            for label, who in zip(own["label"], people, strict=True)
        ]
        record = {"id": name, "fields": {field: values[number] for field, values in fields.items()}}
        records.append(record | {"suggestions": {question: suggested}, "responses": {question: given}})
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(records, ensure_ascii=False, indent=1, allow_nan=False), encoding="utf-8")
