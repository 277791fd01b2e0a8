"""Label Studio: its exports, JSON with all annotations, JSON_MIN and CSV with a row for each; and its server.

Of JSON, choices, taxonomy, rating and pairwise results are labels. An annotation marked as ground truth is the clean
label of its task and no answer; cancelled (skipped) ones are left out. Exports before version 1.0 have `completions`.

JSON_MIN and CSV have a column for each field and control, and do not say which is the control. The fields of a task are
the same in all of its rows, and the answers are not: where one column alone differs within tasks it holds the labels,
else the one with few different values does.

A server is asked through Label Studio's own SDK (extra `label-studio`). The API key is in no message and no file.
"""

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from ...errors.messages import first_line, quoted
from ...files import without_passwords
from ..columns import keys
from ..people import listed, shown
from ..sources.base import Source
from ..sources.in_arrow import InArrow
from .answers import Answers
from .long_table import finished
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


_BOOKKEEPING = ("annotation_id", "updated_at", "updated_by", "agreement", "inner_id", "file_upload", "drafts", "meta")
_KNOWN = ("id", "annotator", "created_at", "lead_time", *_BOOKKEEPING)
_JSON = ("choices", "taxonomy", "rating", "selected")  # what holds the labels of a result
_MOST = 100  # classes that are looked for


def is_annotation_table(columns: Collection[str]) -> bool:
    """Return whether the columns are those that Label Studio writes beside fields and controls."""
    return {"id", "annotation_id", "annotator", "lead_time"} <= set(columns)


def read_annotation_table(source: Source, label: str | None) -> Source:
    """Read the answers in a flat export of Label Studio; `label` is the control, found where only one can be it."""
    missing = [name for name in ("id", "annotator") if name not in source]
    if missing:
        raise UsageError(
            f"{source.name} has no column {quoted(missing[0])}, so it is not a flat export of Label Studio; leave "
            f"--format out. Its columns: {listed(source.columns)}."
        )
    data = source.read(list(dict.fromkeys(source.columns)))
    fields = [name for name in data if name not in _KNOWN]
    if label in data:
        column = str(label)
    elif label not in (None, "label"):
        raise UsageError(f"{source.name} has no column {quoted(label)}; it has {listed(fields)}.")
    else:
        column = _find_label(source, data, fields)
    labels, rows = _answers(source, column, data[column])
    own = {"item": data["id"].take(pa.array(rows)), "label": labels}
    named = {"annotator": "annotator", "seconds": "lead_time", "created_at": "created_at"}
    own |= {name: data[theirs].take(pa.array(rows)) for name, theirs in named.items() if theirs in data}
    rest = {name: data[name] for name in fields if name != column}
    of = InArrow(source.name, rest, source.place)
    of.vectors = source.vectors
    of.decimal, of.marks_formulas = source.decimal, source.marks_formulas
    long = finished(of, rows, own, {column: "label"})
    long.found_in = source, column
    return long


def _find_label(source: Source, data: dict[str, pa.ChunkedArray], fields: list[str]) -> str:
    item = keys(source, "id", data["id"]).codes
    _, first = np.unique(item, return_index=True)
    few, varies = [], []
    for name in fields:
        codes = keys(source, name, data[name]).codes
        n_values = len(np.unique(codes[codes >= 0]))
        if 1 < n_values <= _MOST and 2 * n_values <= max(4, len(codes)):
            few.append(name)
        if item.min() >= 0 and (codes != codes[first[item]]).any():
            varies.append(name)
    found = [name for name in few if name in varies] or few
    if len(found) != 1:
        why = "several columns that may be the label" if found else "no column that looks like a label"
        raise UsageError(f"{source.name} has {why}: {listed(found or fields)}; name the control with label= (--label).")
    return found[0]


def _answers(source: Source, name: str, column: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return a label for every row, and the row of the file it stands in; a cell with several is several rows.

    Cells with no answer are left out: the annotator skipped that control.
    """
    parsed: dict[str | None, list[str]] = {None: []}
    found: list[tuple[str, int]] = []
    for row, cell in enumerate(column.cast(pa.large_string()).to_pylist()):
        if cell not in parsed:
            parsed[cell] = _parsed(source, name, cell, row)
        found += [(label, row) for label in parsed[cell]]
    if not found:
        raise DataError(f"{source.name}, column {quoted(name)} holds no answer; name another control with --label.")
    labels, rows = zip(*found, strict=True)
    return pa.chunked_array([pa.array(labels, pa.large_string())]), np.array(rows)


def _parsed(source: Source, name: str, cell: str, row: int) -> list[str]:
    """Return the labels in a cell: text as it is, or JSON, as several choices, taxonomies and ratings are."""
    if cell.lstrip()[:1] not in ("[", "{"):
        return [cell.strip()] if cell.strip() else []
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return [cell.strip()]  # a class may be called [other]
    found = []
    for part in value if isinstance(value, list) else [value]:
        given = part if not isinstance(part, dict) else next((part[key] for key in _JSON if key in part), None)
        for label in given if isinstance(given, list) else [given]:
            if isinstance(label, list):
                label = " / ".join(map(str, label))
            if isinstance(label, dict) or label is None:
                raise DataError(
                    f"{source.place(row)}, column {quoted(name)}: {shown(name, cell, 40)} is not a class; name another "
                    "control with label= (--label)."
                )
            found.append(str(label))
    return list(dict.fromkeys(found))


def read_key(file: Path | None = None) -> str:
    """Return the API key, from a file or the environment."""
    try:
        key = (os.environ.get("LABEL_STUDIO_API_KEY", "") if file is None else file.read_text("utf-8")).strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{file} cannot be read as a file with an API key; check --api-key-file.") from None
    if not key.isascii() or not key.isprintable() or len(key.split()) != 1:
        what = f"The API key {'is not one word of plain characters' if key else 'is missing'}; copy it from Account &"
        raise UsageError(f"{what} Settings in Label Studio into LABEL_STUDIO_API_KEY, or a file for --api-key-file.")
    return key


@contextlib.contextmanager
def connected(url: str, project: int, key: str) -> Iterator[tuple[Any, bytes]]:
    """Yield the SDK's client and the JSON export of a project; what goes wrong until the end is one sentence."""
    try:
        import httpx
        from label_studio_sdk.client import LabelStudio
        from label_studio_sdk.core.api_error import ApiError
    except ImportError as error:
        what = f"Label Studio's server needs its SDK ({error}); `pip install 'pidual[label-studio]'` installs it."
        raise UsageError(what) from None
    try:
        with httpx.Client(timeout=60, follow_redirects=True) as http:
            client = LabelStudio(base_url=url.rstrip("/"), api_key=key, httpx_client=http)
            client.projects.get(project)
            yield client, client.projects.exports.as_file(project).read()
        return
    except ApiError as error:
        status = error.status_code if isinstance(error.body, dict) else None  # a page of another program is text
        what = f"does not answer as Label Studio does (status {error.status_code}); give the address of its start page"
        if status in (401, 403):
            what = "refuses the API key; copy it again from Account & Settings, or ask for access to the project"
        elif status == 404:
            what = f"has no project {project} that this key may see; its number is in its address (/projects/N)"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = f"cannot be reached ({first_line(error) or type(error).__name__}); check the address, and that it runs"
    raise DataError(without_passwords(f"{url} {what}.").replace(key, "***"))
