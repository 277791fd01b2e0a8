"""Label Studio's JSON export: tasks with the annotations of everybody.

Choices, taxonomy, rating and pairwise results are labels. An annotation marked as ground truth is the clean label of
its task and no answer; cancelled (skipped) ones are left out. Exports before version 1.0 have `completions`.
"""

from collections.abc import Iterable
from typing import Any

from .answers import Answers
from .records import Json

_KEYS = {"choices": "choices", "taxonomy": "taxonomy", "rating": "rating", "pairwise": "selected"}
_ORIGINS = {"manual": "no", "prediction": "accepted", "prediction-changed": "changed"}


def is_task(record: Json) -> bool:
    """Return whether a record looks like a task of Label Studio."""
    return "data" in record and any(isinstance(record.get(key), list) for key in ("annotations", "completions"))


def read_tasks(records: Iterable[Json], name: str) -> Answers:
    """Read the answers in tasks of Label Studio; messages call the file `name`."""
    answers = Answers(name, "Label Studio", "task", "control")
    for number, task in enumerate(records, 1):
        answers.begin(task.get("id", number))
        answers.record(answers.expect(task.get("data"), dict, "data", "an object"))
        field = "annotations" if "annotations" in task else "completions"
        for annotation in answers.objects(task.get(field), field):
            _read_annotation(annotation, answers)
    return answers


def _read_annotation(annotation: Json, answers: Answers) -> None:
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        answers.left_out["cancelled"] += 1
        return
    found: dict[str, list[Any]] = {}
    origins = []
    for result in answers.objects(annotation.get("result"), "result"):
        labels = _labels(result, answers)
        if labels:
            control = str(result.get("from_name", "label"))
            found.setdefault(control, []).extend(label for label in labels if label not in found.get(control, ()))
            if control not in answers.tags:
                answers.tags[control] = _tags(control, result)
            origins.append(result.get("origin"))
    about: dict[str, Any] = {
        "annotator": _who(annotation.get("completed_by"), answers),
        "seconds": _seconds(annotation.get("lead_time"), answers),
        "created_at": answers.moment(annotation.get("created_at"), "created_at"),
        "pre_annotated": _pre_annotated(annotation.get("parent_prediction"), origins),
    }
    marks = any(str(result.get("type", "")).lower() not in _KEYS for result in annotation.get("result") or ())
    if not found and not marks and not annotation.get("ground_truth"):
        answers.add_empty(None, **about)
    elif not found:
        answers.left_out["without a label"] += 1
    for control, labels in found.items():
        if annotation.get("ground_truth"):
            answers.add_truth(control, labels)
        else:
            answers.add(control, labels, **about)


def _tags(control: str, result: Json) -> dict[str, str]:
    """Return what the project calls its parts, as results name them; those that are missing are left out."""
    found = {"from_name": control, "to_name": result.get("to_name"), "type": str(result.get("type", "")).lower()}
    return {name: value for name, value in found.items() if isinstance(value, str) and value}


def _labels(result: Json, answers: Answers) -> list[Any]:
    """Return the labels of a result; none if it is of another type, such as a rectangle."""
    value = answers.expect(result.get("value"), dict, "result.value", "an object")
    type_ = str(result.get("type", "")).lower()
    key = _KEYS.get(type_) or next((key for key in _KEYS.values() if not type_ and key in value), None)
    if key is None:
        answers.skipped[type_ or "results of an unknown type"] += 1
        return []
    field = f"result.value.{key}"
    given = value.get(key)
    if key == "rating":
        return [answers.expect(given, (int, float), field, "a number")]
    given = [given] if isinstance(given, str) else answers.expect(given, list, field, "a list")
    if key == "taxonomy":
        paths = [answers.expect(path, list, field, "a list of lists") for path in given]
        return [" / ".join(str(answers.expect(part, (str, int), field, "text")) for part in path) for path in paths]
    return [str(answers.expect(label, (str, int, float), field, "a list of texts")) for label in given]


def _who(completed_by: Any, answers: Answers) -> str | None:
    """Return the annotator as text: an e-mail address where it is known, else a number."""
    if isinstance(completed_by, dict):
        completed_by = next((completed_by[key] for key in ("email", "username", "id") if completed_by.get(key)), None)
    who = answers.optional(completed_by, (int, str), "completed_by", "a number, text or object")
    return None if who is None else str(who)


def _seconds(lead_time: Any, answers: Answers) -> float | None:
    seconds = answers.optional(lead_time, (int, float), "lead_time", "a number")
    return None if seconds is None else float(seconds)


def _pre_annotated(parent_prediction: Any, origins: list[Any]) -> str | None:
    """Return whether the annotator began with a prediction: no, accepted, changed, or yes where no more is known."""
    known = [_ORIGINS[origin] for origin in origins if isinstance(origin, str) and origin in _ORIGINS]
    if parent_prediction is None:
        return known[0] if known else None
    return "yes" if not known else "changed" if known[0] == "no" else known[0]
