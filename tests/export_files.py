"""Exports of labelling tools, written as their documentation says they look."""

import csv
import json

import numpy as np

GOOD, BAD = ["great", "love", "happy", "wonderful", "superb"], ["awful", "hate", "sad", "terrible", "boring"]
FILLER = [
    *("the", "film", "was", "a", "story", "about", "people", "in"),
    *("town", "that", "we", "saw", "with", "friends", "last", "week"),
]


def write_json(path, value, *, lines=False):
    """Write JSON, or JSON Lines."""
    if lines:
        path.write_text("".join(json.dumps(record) + "\n" for record in value), encoding="utf-8")
    else:
        path.write_text(json.dumps(value), encoding="utf-8")
    return path


def result(label, *, control="sentiment", type_="choices", key=None, **more):
    """One result of an annotation in Label Studio."""
    value = {key or type_: label if type_ in ("rating", "pairwise") else [label] if isinstance(label, str) else label}
    return {"value": value, "id": "Dx_aB9", "from_name": control, "to_name": "text", "type": type_, **more}


def annotation(label, who=1, **more):
    """One annotation in Label Studio: of a label, or of the results given."""
    results = label if isinstance(label, list) else [result(label, origin="manual")]
    return {
        "id": 1001,
        "completed_by": who,
        "result": results,
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2024-05-01T10:00:00.513742Z",
        "updated_at": "2024-05-01T10:00:09.513742Z",
        "lead_time": 4.288,
        "prediction": {},
        "result_count": 0,
        "task": 1,
        "parent_prediction": None,
        "parent_annotation": None,
        **more,
    }


def task(number, annotations, **data):
    """One task of Label Studio."""
    return {
        "id": number,
        "annotations": annotations,
        "file_upload": "3ae3f3c9-reviews.csv",
        "drafts": [],
        "predictions": [],
        "data": data or {"text": f"this is the text of task {number}"},
        "meta": {},
        "created_at": "2024-04-30T21:52:49.513742Z",
        "updated_at": "2024-05-01T22:16:08.746926Z",
        "inner_id": number,
        "project": 83,
        "updated_by": 10,
    }


def review_tasks(n=60, seed=0):
    """Tasks of a text classification: six people, three answers to each text, one of the six often wrong."""
    rng = np.random.default_rng(seed)
    tasks = []
    for number in range(1, n + 1):
        good = bool(rng.random() < 0.5)
        words = [*rng.choice(FILLER, 7, replace=False), *rng.choice(GOOD if good else BAD, 3, replace=False)]
        annotations = []
        for who in rng.choice(6, 3, replace=False).tolist():
            right = rng.random() > (0.45 if who == 5 else 0.08)
            person = {"id": who, "email": f"person{who}@example.org", "first_name": "", "last_name": ""}
            annotations.append(
                annotation(
                    "Positive" if good == right else "Negative",
                    person,
                    created_at=f"2024-05-{1 + number % 28:02}T{8 + who:02}:{number % 60:02}:00.000000Z",
                    lead_time=round(float(rng.gamma(2, 3)), 3),
                )
            )
        if number % 10 == 0:
            annotations.append(annotation("Positive" if good else "Negative", 9, ground_truth=True))
            annotations.append(annotation("Positive", 9, was_cancelled=True))
        tasks.append(task(number, annotations, text=" ".join(rng.permutation(words))))
    return tasks


def write_min(path, tasks, *, control="sentiment"):
    """The same tasks as Label Studio writes them to JSON_MIN, or to CSV by the ending."""
    rows = []
    for each in tasks:
        for given in each["annotations"]:
            if given["was_cancelled"]:
                continue
            who = given["completed_by"]
            rows.append(
                {
                    **each["data"],
                    "id": each["id"],
                    control: given["result"][0]["value"]["choices"][0],
                    "annotator": who["email"] if isinstance(who, dict) else who,
                    "annotation_id": len(rows) + 1,
                    "created_at": given["created_at"],
                    "updated_at": given["updated_at"],
                    "lead_time": given["lead_time"],
                }
            )
    if path.suffix == ".json":
        return write_json(path, rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, sorted(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def prodigy_tasks(n=60):
    """The reviews of `review_tasks` as Prodigy has them: each answer is a line, with the text again."""
    found = []
    for each in review_tasks(n):
        options = [{"id": name, "text": name} for name in ("Positive", "Negative")]
        for number, given in enumerate(each["annotations"]):
            if given["ground_truth"] or given["was_cancelled"]:
                continue
            who = f"films-person{given['completed_by']['id']}"
            task_ = {"text": each["data"]["text"], "_input_hash": -each["id"], "_task_hash": 7 * each["id"]}
            task_ |= {
                "options": options,
                "_view_id": "choice",
                "config": {"choice_style": "single"},
                "answer": "accept",
            }
            task_ |= {
                "accept": given["result"][0]["value"]["choices"],
                "_timestamp": 1714557600 + 60 * each["id"] + number,
            }
            found.append(task_ | {"_session_id": who, "_annotator_id": who})
    return found
