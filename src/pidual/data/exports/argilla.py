"""Argilla's JSON: records with the responses of every user.

Version 1 has a list of responses, each with the answers to all questions; version 2 a list of responses to each
question, or flat columns (`mood.responses`, `mood.responses.users`), as its datasets on disk have. Drafts and discarded
responses are left out.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from .answers import Answers
from .records import Json

_RESPONSES = ".responses"


def is_record(record: Json) -> bool:
    """Return whether a record looks like one of Argilla."""
    return is_flat(record) or (
        isinstance(record.get("fields"), dict) and isinstance(record.get("responses"), list | dict)
    )


def is_flat(columns: Collection[str]) -> bool:
    """Return whether these are the columns of flat records."""
    return any(f"{name}.users" in columns for name in columns if name.endswith(_RESPONSES))


def read_responses(records: Iterable[Json], name: str) -> Answers:
    """Read the responses in records of Argilla; messages call the file `name`."""
    answers = Answers(name, "Argilla", "record", "question")
    for number, record in enumerate(records, 1):
        if is_flat(record):
            record = _unflattened(record)
        item = record.get("external_id") or record.get("id") or number
        answers.begin(item)
        answers.record(_fields(record, answers))
        suggested = _suggestions(record.get("suggestions"), answers)
        for question, response in _responses(record.get("responses"), answers):
            _read_response(question, response, suggested, answers)
    return answers


def _unflattened(record: Json) -> Json:
    """Return a flat record as version 2 has it otherwise."""
    questions = [name.removesuffix(_RESPONSES) for name in record if name.endswith(_RESPONSES)]
    about = tuple(f"{question}.{part}" for question in questions for part in ("responses", "suggestion"))
    known = {name for name in record if name.startswith(about)} | {"id", "status", "_server_id"}
    responses, suggestions = {}, {}
    for question in questions:
        parts = [record.get(f"{question}.responses{part}") for part in ("", ".users", ".status")]
        given = itertools.zip_longest(*(part if isinstance(part, list) else [] for part in parts))
        responses[question] = [{"value": value, "user_id": who, "status": status} for value, who, status in given]
        if record.get(f"{question}.suggestion") is not None:
            suggestions[question] = {"value": record[f"{question}.suggestion"]}
    fields = {name: value for name, value in record.items() if name not in known}
    return {"id": record.get("id"), "fields": fields, "responses": responses, "suggestions": suggestions}


def _fields(record: Json, answers: Answers) -> Json:
    found: Json = {}
    for part in ("fields", "metadata", "vectors"):
        values = record.get(part)
        if part == "fields" or values is not None:
            found = {**answers.expect(values, dict, part, "an object"), **found}
    return found


def _responses(responses: Any, answers: Answers) -> Iterator[tuple[str, Json]]:
    """Yield question and response, with the response's value, user and status, of all responses."""
    if isinstance(responses, dict):
        for question, given in responses.items():
            field = f"responses.{question}"
            for response in answers.objects(answers.expect(given, list, field, "a list"), field):
                yield question, response
        return
    for response in answers.objects(responses, "responses"):
        values = response.get("values")
        for question, value in answers.expect(values or {}, dict, "responses.values", "an object").items():
            yield question, response | answers.expect(value, dict, f"responses.values.{question}", "an object")


def _read_response(question: str, response: Json, suggested: Json, answers: Answers) -> None:
    status = response.get("status")
    if status not in (None, "submitted"):
        answers.left_out[str(answers.expect(status, str, "responses.status", "text"))[:20]] += 1
        return
    value = response.get("value")
    labels = _labels(value)
    if labels is None:
        answers.skipped[f"answers to {question[:30]} that are not labels"] += 1
        return
    begun = None if question not in suggested else "accepted" if suggested[question] == value else "changed"
    about: dict[str, Any] = {
        "annotator": answers.who(response.get("user_id"), "user_id"),
        "created_at": answers.optional(response.get("inserted_at"), str, "inserted_at", "text"),
        "pre_annotated": begun or "no",
    }
    if labels:
        answers.add(question, labels, **about)
    elif value is not None:
        answers.add_empty(question, **about)
    else:
        answers.left_out["without a label"] += 1


def _labels(value: Any) -> list[Any] | None:
    """Return the labels of a response; None where it is something else, such as a ranking or spans."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return values if all(isinstance(label, str | int | float) for label in values) else None


def _suggestions(suggestions: Any, answers: Answers) -> Json:
    if isinstance(suggestions, list):  # version 1
        pairs = answers.objects(suggestions, "suggestions")
        return {str(each.get("question_name")): each.get("value") for each in pairs}
    found = answers.expect(suggestions or {}, dict, "suggestions", "an object").items()
    return {
        name: answers.expect(each, dict, f"suggestions.{name}", "an object").get("value")
        for name, each in found
        if each is not None
    }
