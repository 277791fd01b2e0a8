"""doccano's JSON and JSON Lines: a text or file name with a list of labels.

The labels are in `label` or `labels`, in `cats` (a list, or an object with a number for each class as spaCy has it), or
in `annotations` with the user who gave each.
"""

from collections.abc import Iterable
from typing import Any

from .answers import Answers
from .records import Json

_LABELS = ("label", "labels", "cats")
_WHO = ("annotator", "user", "username", "annotation_approver")
_CONTENT = ("text", "data", "filename")
_LEFT = (*_LABELS, *_WHO, "id", "annotations", "Comments", "comments", "entities", "relations")


def is_example(record: Json) -> bool:
    """Return whether a record looks like an example of doccano."""
    if not any(isinstance(record.get(key), str) for key in _CONTENT):
        return False
    listed = any(isinstance(record.get(key), list) for key in (*_LABELS, "annotations"))
    return listed or isinstance(record.get("cats"), dict)


def read_examples(records: Iterable[Json], name: str) -> Answers:
    """Read the labels of examples of doccano; messages call the file `name`.

    Where the examples of every annotator are in a file of its own, their `annotator` says who.
    """
    answers = Answers(name, "doccano", "example", "field")
    for number, example in enumerate(records, 1):
        answers.begin(example.get("id", number))
        answers.record({key: value for key, value in example.items() if key not in _LEFT})
        _read_example(example, answers)
    return answers


def _read_example(example: Json, answers: Answers) -> None:
    who = next((example[key] for key in _WHO if example.get(key) is not None), None)
    found = False
    for field in _LABELS:
        if example.get(field) is not None:
            labels = _labels(example[field], field, answers)
            found = found or bool(labels)
            if labels:
                answers.add(field, labels, annotator=answers.who(who, "annotator"))
    for given in answers.objects(example.get("annotations"), "annotations"):
        label = answers.expect(given.get("label"), (str, int), "annotations.label", "a number or text")
        answers.add("label", [label], annotator=answers.who(given.get("user", who), "annotator"))
        found = True
    if not found:
        answers.left_out["without a label"] += 1


def _labels(value: Any, field: str, answers: Answers) -> list[Any]:
    """Return the classes an example was given; spans of text are none."""
    if isinstance(value, dict):
        numbers = {
            name: answers.expect(given, (int, float), field, "numbers of classes") for name, given in value.items()
        }
        largest = max(numbers.values(), default=0)
        return [name for name, given in numbers.items() if given > 0 and given == largest]
    if isinstance(value, str | int | float):
        return [value]
    for given in answers.expect(value, list, field, "a list"):
        if isinstance(given, list):
            answers.skipped["spans of text"] += 1
            return []
        answers.expect(given, (str, int), field, "a list of classes")
    return list(value)
