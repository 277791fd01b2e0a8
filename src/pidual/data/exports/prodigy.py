"""Prodigy's JSON Lines (`prodigy db-out`): a task with an answer per line, several of one input where several answered.

The interface `choice` has its options in `accept`. In `classification` the question is whether `label` fits: a class
`spam` where it was accepted, `no spam` where it was rejected. Ignored tasks and rejected choices are left out.
"""

from collections.abc import Iterable

from .answers import Answers
from .judgements import part
from .records import Json

_ANSWERS = ("accept", "reject", "ignore")
# of a task, what does not belong to its input
_LEFT = ("answer", "accept", "label", "options", "config", "spans", "tokens", "meta", "score", "priority", "versions")


def is_task(record: Json) -> bool:
    """Return whether a record looks like a task of Prodigy that was answered."""
    return record.get("answer") in _ANSWERS and ("_input_hash" in record or "_task_hash" in record)


def read_tasks(records: Iterable[Json], name: str) -> Answers:
    """Read the answers in tasks of Prodigy; messages call the file `name`."""
    answers = Answers(name, "Prodigy", "input", "label")
    for task in answers.by_item(records, ["_input_hash"], lambda task: _fields(task, answers)):
        _read_task(task, answers)
    return answers


def _fields(task: Json, answers: Answers) -> Json:
    """Return what is known about the input: its fields, and those of `meta`; pictures within the file are left out."""
    meta = answers.expect(task.get("meta") or {}, dict, "meta", "an object")
    fields = {name: value for name, value in task.items() if name not in _LEFT and not name.startswith("_")}
    fields |= {f"meta_{name}": value for name, value in meta.items() if name not in _LEFT}
    return {name: each for name, each in fields.items() if not (isinstance(each, str) and each.startswith("data:"))}


def _read_task(task: Json, answers: Answers) -> None:
    answer, chosen, asked = task.get("answer"), task.get("accept"), task.get("label")
    if answer not in _ANSWERS:
        raise answers.error("answer", f"this is not one of {', '.join(_ANSWERS)}")
    is_choice = chosen is not None or "options" in task
    field = "_session_id" if task.get("_annotator_id") is None else "_annotator_id"
    who, moment = answers.who(task.get(field), field), answers.moment(task.get("_timestamp"), "_timestamp")
    if answer == "ignore" or (answer == "reject" and is_choice):
        answers.left_out["ignored" if answer == "ignore" else "rejected"] += 1
    elif is_choice:
        labels = answers.expect(chosen or [], list, "accept", "a list")
        for label in labels:
            answers.expect(label, (str, int, float), "accept", "a list of labels")
        if labels or part(task, "config", "choice_style") == "multiple":  # where none is an answer, too: the empty set
            answers.add("accept", labels or [None], annotator=who, created_at=moment)
        else:
            answers.left_out["without a label"] += 1
    elif isinstance(asked, str):
        answers.add(asked, [asked if answer == "accept" else f"no {asked}"], annotator=who, created_at=moment)
    else:
        answers.skipped["answers that give spans or text" if task.get("spans") else "answers without a label"] += 1
