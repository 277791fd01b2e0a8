"""Potato's output: the folder with what each annotator did, or JSON Lines that it writes there or exports.

Version 2 has `NAME/user_state.json`: the answers, and the behaviour of the annotator at each item (time, changes,
events). Version 1 has `NAME/annotated_instances.jsonl`; `potato export` writes `annotations.jsonl`, without behaviour.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...errors.messages import first_line
from ..paths import File
from .answers import Answers
from .judgements import number, objects, part
from .records import Json, JsonRecords

_STATE, _LINES = "user_state.json", "annotated_instances.jsonl"
_LABELS, _BEHAVIOUR = "instance_id_to_label_to_value", "instance_id_to_behavioral_data"
_MENUS = ("select-one", "selection")  # labels whose value is the class
_SPENT = re.compile(r"(\d+)d (\d+)h (\d+)m (\d+)s")  # a time in version 1
_DECISIONS = {"accepted": "accepted", "partial": "changed", "rejected": "changed"}  # on what a model suggested


def is_record(record: Json) -> bool:
    """Return whether a record looks like the answers of an annotator to an item."""
    return "label_annotations" in record or {"instance_id", "user_id", "labels"} <= record.keys()


def files_of(folder: Path) -> list[Path]:
    """Return the files of the annotators in a folder of Potato; none in any other folder."""
    return next((found for name in (_STATE, _LINES) if (found := sorted(folder.glob(f"*/{name}")))), [])


def read_records(records: Iterable[Json], name: str) -> Answers:
    """Read the answers in records of Potato; messages call the file `name`."""
    answers = Answers(name, "Potato", "instance", "schema")
    for record in answers.by_item(records, ("instance_id", "id"), lambda each: {"text": each.get("displayed_text")}):
        _read_record(record, answers)
    return answers


def records_of(file: Path) -> Iterator[Json]:
    """Yield a record for each item that an annotator has answered."""
    if file.name == _LINES:
        yield from ({"user_id": file.parent.name} | record for record in JsonRecords(File(str(file), str(file))))
        return
    try:
        state = json.loads(file.read_bytes())
        for item, given in state[_LABELS].items():
            labels: dict[str, Json] = defaultdict(dict)
            for label, value in given:
                labels[label["schema"]][label["name"]] = value
            behaviour = part(state, _BEHAVIOUR, item)
            yield {"instance_id": item, "user_id": state["user_id"], "labels": labels, "behavioral_data": behaviour}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"does not hold the answers of an annotator ({type(error).__name__}: {first_line(error)})"
        raise DataError(f"{file} {what}; copy the folder from Potato again.") from None


def _read_record(record: Json, answers: Answers) -> None:
    field = "label_annotations" if "label_annotations" in record else "labels"
    who = answers.who(record.get("user_id"), "user_id")
    for schema, given in answers.expect(record.get(field), dict, field, "an object").items():
        classes = _classes(schema, answers.expect(given, dict, f"{field}.{schema[:30]}", "an object"))
        if classes:
            answers.add(schema, classes, annotator=who, **_about(record.get("behavioral_data"), schema, answers))
        elif given:
            answers.skipped[f"answers to {schema[:30]} that are not labels"] += 1


def _classes(schema: str, given: Json) -> list[str]:
    """Return the classes that were chosen: their value is true, their name or, in version 1, a number."""
    if menus := [value for name in _MENUS if isinstance(value := given.get(name), str)]:
        return menus
    return [
        name
        for name, value in given.items()
        if str(value) in ("True", "true", name, f"{schema}:::{name}") or (isinstance(value, str) and value.isdecimal())
    ]


def _about(behaviour: Any, schema: str, answers: Answers) -> Json:
    """Return what is known about an answer: time, changes of the answer, events, and whether a model helped."""
    if old := _SPENT.search(str(part(behaviour, "time_string"))):
        days, hours, minutes, seconds = map(int, old.groups())
        return {"seconds": ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds}
    if part(behaviour, "annotation_changes") is None:
        return {}
    spent = number(behaviour, "total_time_ms")
    usage = [each.get("decision") for each in objects(behaviour, "ai_usage") if each.get("schema_name") == schema]
    return {
        "seconds": spent / 1000 if spent else None,  # early releases of version 2 write 0
        "changes": sum(each.get("schema_name") == schema for each in objects(behaviour, "annotation_changes")),
        "interactions": len(objects(behaviour, "interactions")),
        "pre_annotated": next((_DECISIONS[each] for each in reversed(usage) if each in _DECISIONS), "no"),
        "created_at": answers.moment(part(behaviour, "session_end"), "session_end"),
    }
