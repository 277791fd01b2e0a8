"""Tasks for Label Studio: every item with the consensus as a prediction, doubtful ones first; and records of Argilla.

Tasks are imported as they are. Nobody's id is in them: answers are given as labels, not as annotations. What reviewers
decided is a ground-truth annotation, which belongs to whoever imports it; such tasks come last. Records, for
`dataset.records.from_json`, have the corrected responses, and the consensus as a suggestion.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...data import as_text, keys
from ...data.exports.label_studio import connected
from ...data.reopen import item_columns
from ...data.roles import Roles
from ...data.sources import Source
from ...errors import DataError, UsageError
from ...errors.messages import quoted
from ...files import replacing
from ...run.files import RunFiles
from .decide import reviewed_labels
from .label_sets import by_answer, consensus_sets


def write_tasks(tasks: Iterable[dict[str, Any]], out: Path) -> None:
    """Write tasks to a JSON file."""
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, made in enumerate(tasks):
            file.write(",\n " if number else "\n ")
            json.dump(made, file, ensure_ascii=False, allow_nan=False)
        file.write("\n]\n")


def push_tasks(run: RunFiles, table: tuple[Source, Roles], url: str, project: int, key: str) -> dict[str, int]:
    """Write predictions, and what reviewers decided, to the tasks that a run was made of; count what was done.

    What an earlier push of the run wrote is not written again; neither is a ground truth where a task has one.
    """
    tags = table[0].tags
    if not tags or run.summary.label_sets is not None:
        what = "Only a run with one class per item, fitted on the JSON of a project (`pidual data pull`), can be pushed"
        raise UsageError(f"{what}: nothing else says which tasks its items are.")
    with connected(url, project, key) as (client, content):
        there = {str(task["id"]): task for task in json.loads(content)}
        tasks = {str(task["data"]["pidual_item"]): task for task in tasks_of(run, table)}
        found = {item: task for item, task in tasks.items() if item in there}
        if not found:
            raise UsageError(f"Project {project} has none of the tasks that the run was made of; check --project.")
        known = {(each.task, each.model_version) for each in client.predictions.list(project=project)}
        new = [{"task": int(item), **task["predictions"][0]} for item, task in found.items()]
        new = [each for each in new if (each["task"], each["model_version"]) not in known]
        batches = (new[start : start + 500] for start in range(0, len(new), 500))
        taken = sum(client.projects.import_predictions(project, request=batch).created for batch in batches)
        truths = {item: task["annotations"][0]["result"] for item, task in found.items() if "annotations" in task}
        truths = {i: t for i, t in truths.items() if not any(a.get("ground_truth") for a in there[i]["annotations"])}
        for item, result in truths.items():
            client.annotations.create(id=int(item), result=result, ground_truth=True)
    if taken != len(new):
        what = f"Label Studio took {taken:,} of {len(new):,} predictions: not all classes of the run are choices of"
        raise DataError(f"{what} {quoted(tags['from_name'])} in project {project} any more; add them there.")
    counts = {"predictions_written": taken, "predictions_already_there": len(found) - len(new)}
    return counts | {"ground_truths_written": len(truths), "tasks_deleted": len(tasks) - len(found)}


def tasks_of(
    run: RunFiles, table: tuple[Source, Roles], only: Sequence[str] | None = None, more: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a task for each item of a run.

    `run`, `table`: a finished run, and its table.
    `only`: the items, in this order, instead of all.
    `more`: further fields of these items, by name.
    """
    source, roles = table
    rows, of_sets = run.predictions.frame.sort_values("row"), run.summary.label_sets is not None
    each = rows.groupby(rows["tagged_item" if of_sets else "item"].astype(str), sort=False)
    about = each.agg(row=("row", "first"), quality=("label_quality", "min"))
    if of_sets:
        source, roles = by_answer(source, roles)
        about = _about_sets(run, source, roles, about["quality"])
    else:
        about["given"] = each["given_label"].agg(lambda labels: ", ".join(map(str, labels)))
        items = run.items.set_index(run.items["item"].astype(str))
        about = about.join(items[["consensus_label", "consensus_quality"]])
        about["reviewed"] = reviewed_labels(run)
    about = about.assign(is_reviewed=about["reviewed"].notna()).sort_values(["is_reviewed", "quality"], kind="stable")
    if only is not None:
        about = about.loc[list(only)]
    fields = fields_of(source, roles, about["row"].to_numpy())
    tags = tags_of(source, list(fields))
    version = f"pidual {run.config.method} {run.summary.run_id}"
    for number, (item, task) in enumerate(zip(about.index, about.to_dict("records"), strict=True)):
        data = {name: values[number] for name, values in fields.items()}
        data |= {"pidual_item": item, "label_quality": round(float(task["quality"]), 4)}
        data |= {"given_labels": task["given"], **{name: values[number] for name, values in (more or {}).items()}}
        score = round(float(task["consensus_quality"]), 4)
        result = result_of("consensus", tags, task["consensus_label"])
        prediction = {"model_version": version, "score": score, "result": [result]}
        made: dict[str, Any] = {"data": data, "predictions": [prediction]}
        if task["is_reviewed"]:
            result = result_of("reviewed", tags, task["reviewed"])
            made["annotations"] = [{"result": [result], "ground_truth": True, "was_cancelled": False}]
        yield made


def _about_sets(run: RunFiles, source: Source, roles: Roles, quality: "pd.Series[Any]") -> pd.DataFrame:
    """Return the same of sets; decisions are in the consensus, as reviewers have seen single classes of an item."""
    sets = source.sets.sets  # type: ignore[attr-defined]
    said, names = sets.said.tocsr(), np.array(sets.classes, object)
    texts = [", ".join(names[part]) for part in np.split(said.indices, said.indptr[1:-1])]
    rows = pd.DataFrame({"item": names_of(source, roles), "row": range(len(texts)), "given": texts})
    about = rows.groupby("item", sort=False).agg(row=("row", "first"), given=("given", " | ".join))
    found = consensus_sets(run)[["consensus_label", "consensus_quality"]]
    return about.join(quality).join(found).fillna({"quality": 1.0}).assign(reviewed=None)


def names_of(source: Source, roles: Roles) -> Any:
    """Return the item of every row."""
    name = roles.item or ""
    held = keys(source, name, source.read([name])[name])
    return np.array(as_text(held.names).to_pylist(), object)[held.codes]


def result_of(name: str, tags: Mapping[str, str], given: Any) -> dict[str, Any]:
    """Write a label, or a list of some, as a result of the control that it belongs to."""
    labels = given if isinstance(given, list) else [str(given)]
    label, value = "".join(labels[:1]), dict[str, Any](choices=labels)
    if tags["type"] == "taxonomy":
        value = {"taxonomy": [one.split(" / ") for one in labels]}
    elif tags["type"] == "rating":
        value = {"rating": int(float(label)) if float(label).is_integer() else float(label)}
    elif tags["type"] == "pairwise":
        value = {"selected": label}
    return {"id": name, **tags, "value": value}


def fields_of(source: Source, roles: Roles, rows: Any) -> dict[str, list[Any]]:
    """Return what is known about the items, each by one of its rows."""
    return {
        called: [_plain(value) for value in pd.Series(source.read([name])[name].to_pandas()).astype(object).iloc[rows]]
        for called, name in item_columns(source, roles)
    }


def _plain(value: Any) -> Any:
    """Write a value as JSON has it; what is missing, or no number, is null."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value is pd.NaT or (isinstance(value, float) and not np.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)


def tags_of(source: Source, fields: list[str]) -> dict[str, str]:
    """Find the control that the labels belong to, what it is about, and its type."""
    control = next((name for name, column in source.aliases.items() if column == "label"), "label")
    guess = source.guess
    shown = next((name for name in (guess and guess.text, guess and guess.image, *fields) if name), "text")
    return {"from_name": control, "to_name": shown.removeprefix("data_"), "type": "choices", **source.tags}


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
