"""Out of Label Studio, through a fit and a review, and back: every field of what it imports, and nobody's address."""

import contextlib
import json
import math
import sqlite3

import pandas as pd
import pytest
from command_line import run_cli, write_key
from export_files import annotation, result, review_tasks, write_json
from review_server import TOKEN, Client

from pidual.api.run import Run
from pidual.data import open_source, read_table
from pidual.errors import DataWarning
from pidual.run.decisions import Store
from pidual.show.export import label_studio

pytest.importorskip("httpx")
pytest.importorskip("starlette")
from pidual.show.review.app import make_app

N = 40
SECRET = "example.org"  # the end of everybody's address
CONTROL = {"from_name": "sentiment", "to_name": "text", "type": "choices"}
CONFIG = """<View><Text name="text" value="$text"/><Choices name="sentiment" toName="text">
<Choice value="Positive"/><Choice value="Negative"/></Choices></View>"""


@pytest.fixture(scope="module")
def trip(tmp_path_factory):
    """The whole way: export.json, a run of it, decisions through HTTP, and what is exported."""
    folder = tmp_path_factory.mktemp("round-trip")
    tasks = review_tasks(N)
    tasks[2]["data"]["reviewer"] = f"someone@{SECRET}"  # a field of people
    write_json(folder / "export.json", tasks)
    write_key(folder)
    words = ["--method", "ce", "--epochs", "3", "--set", "network.width=8", "--keep-going", "--quiet", "--out", "run"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, _, err = run_cli(["fit", "export.json", *words])
        assert code == 0, err
        decided, seen = review(folder)
        for to, name in (("label-studio", "tasks.json"), ("csv", "clean.csv")):
            code, out, err = run_cli(["export", "run", name, "--to", to])
            assert code == 0, err
            assert to == "csv" or out == f"tasks.json: one task for each of {N} items, doubtful ones first\n"
    return folder, tasks, decided, seen


def review(folder):
    """Decide as the page does; the decisions by row, and all that the application has sent."""
    run, decided, seen = Run.open(folder / "run"), {}, []
    with contextlib.closing(Store(run)) as store:
        client = Client(make_app(run, store, TOKEN))
        client.http.event_hooks["response"].append(lambda answer: seen.append(answer.read()))
        for path in ("/", "/review.js", "/review.css"):
            client.http.get(path)
        classes = client.ask("about")["classes"]
        for decision in ("keep", "change", "change", "unsure", "keep"):
            label = client.ask()["label"]
            assert client.ask("item", row=label["row"])["text"]
            code = 1 - label["given"] if decision == "change" else None
            client.decide(label["row"], decision, code)
            right = {"keep": label["given"], "change": code, "unsure": None}[decision]
            decided[label["row"]] = (decision, label["item"], None if right is None else classes[right])
        client.ask("annotators", text="a")
    return decided, seen


def test_cancelled_and_ground_truth_annotations(trip):
    folder, tasks, _, _ = trip
    answers = [
        (task["id"], given)
        for task in tasks
        for given in task["annotations"]
        if not given["was_cancelled"] and not given["ground_truth"]
    ]
    frame = Run.open(folder / "run").predictions.frame
    assert frame["item"].astype(str).tolist() == [str(item) for item, _ in answers]
    assert frame["given_label"].tolist() == [given["result"][0]["value"]["choices"][0] for _, given in answers]
    truth = {
        task["id"]: given["result"][0]["value"]["choices"][0]
        for task in tasks
        for given in task["annotations"]
        if given["ground_truth"]
    }
    with pytest.warns(DataWarning, match="left out: 4 cancelled"):
        y = read_table(folder / "export.json", key_file=folder / ".pidual.key").frame["y"]
    assert y.astype(object).where(y.notna(), None).tolist() == [truth.get(item) for item, _ in answers]


def test_every_field_is_as_label_studio_documents_it(trip):
    folder, tasks, decided, _ = trip
    made = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    assert isinstance(made, list)
    texts = {str(task["id"]): task["data"]["text"] for task in tasks}
    assert sorted(task["data"]["pidual_item"] for task in made) == sorted(texts)
    items = Run.open(folder / "run").items
    consensus = dict(zip(items["item"].astype(str), items["consensus_label"], strict=True))
    reviewed = {item: label for _, item, label in decided.values() if label is not None}
    for task in made:
        item = task["data"]["pidual_item"]
        assert set(task) == {"data", "predictions"} | ({"annotations"} if item in reviewed else set())
        check_data(task["data"], texts[item])
        (prediction,) = task["predictions"]
        assert set(prediction) == {"model_version", "score", "result"}
        assert prediction["model_version"].startswith("pidual ce ")
        assert 0 <= prediction["score"] <= 1
        check_result(prediction["result"], consensus[item])
        for given in task.get("annotations", ()):
            assert set(given) == {"result", "ground_truth", "was_cancelled"}  # and nobody's completed_by
            assert (given["ground_truth"], given["was_cancelled"]) == (True, False)
            check_result(given["result"], reviewed[item])
    order = [("annotations" in task, task["data"]["label_quality"]) for task in made]
    assert order == sorted(order)  # doubtful ones first, and those that are decided last


def check_data(data, text):
    assert set(data) == {"text", "pidual_item", "label_quality", "given_labels"}
    assert data["text"] == text
    assert isinstance(data["pidual_item"], str)
    assert math.isfinite(data["label_quality"])
    assert 0 <= data["label_quality"] <= 1
    given = data["given_labels"].split(", ")
    assert len(given) == 3
    assert set(given) <= {"Positive", "Negative"}


def check_result(found, label):
    (one,) = found
    assert isinstance(one["id"], str)
    assert one == {"id": one["id"], **CONTROL, "value": {"choices": [label]}}


def test_label_studio_itself_takes_it(trip):
    sdk = pytest.importorskip("label_studio_sdk.label_interface", reason="needs label-studio-sdk")
    folder, *_ = trip
    interface = sdk.LabelInterface(CONFIG)
    for task in json.loads((folder / "tasks.json").read_text(encoding="utf-8")):
        interface.validate_task({"data": task["data"]})
        assert all(map(interface.validate_prediction, task["predictions"]))
        assert all(map(interface.validate_annotation, task.get("annotations", ())))


def test_what_label_studio_exports_after_the_import_is_read_again(trip, tmp_path):
    folder, _, decided, _ = trip
    made = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    for number, task in enumerate(made):  # as an export has them, answered by two more people
        own = [given | {"completed_by": 1, "id": number} for given in task.get("annotations", ())]
        task |= {"id": number, "annotations": [*own, annotation("Positive", 2), annotation("Negative", 3)]}
    table = read_table(write_json(tmp_path / "again.json", made), keep_ids=True).frame
    assert len(table) == 2 * N
    assert table["y"].notna().sum() == 2 * len({item for _, item, label in decided.values() if label is not None})


def test_the_table_has_the_decisions_and_who_gave_the_labels(trip):
    folder, tasks, decided, _ = trip
    clean, changes = pd.read_csv(folder / "clean.csv"), pd.read_csv(folder / "clean.changes.csv").set_index("row")
    answers = [
        (given["completed_by"]["email"], given["result"][0]["value"]["choices"][0])
        for task in tasks
        for given in task["annotations"]
        if not given["was_cancelled"] and not given["ground_truth"]
    ]
    assert clean["annotator"].tolist() == [who for who, _ in answers]
    assert changes["annotator"].tolist() == [answers[row][0] for row in changes.index]
    expected = [label for _, label in answers]
    for row, change in changes.iterrows():
        expected[row] = change["new_label"]
    assert clean["label"].tolist() == expected
    for row, (decision, _, label) in decided.items():
        assert (row in changes.index) == (decision == "change")
        assert decision != "change" or (changes.loc[row, "new_label"], changes.loc[row, "source"]) == (
            label,
            "reviewed",
        )


def test_nobodys_address_is_in_anything_but_the_owners_table(trip):
    folder, _, _, seen = trip
    owners = {"export.json", "clean.csv", "clean.changes.csv"}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in owners]
    assert {"reviews.sqlite", "report.html", "config.json", "predictions.parquet", "tasks.json", ".pidual.key"} <= {
        path.name for path in files
    }
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
        assert SECRET.encode("utf-16-le") not in path.read_bytes(), path
        if path.suffix == ".parquet":
            assert SECRET not in pd.read_parquet(path).astype(str).to_csv(), path
    with sqlite3.connect(folder / "run" / "reviews.sqlite") as db:
        assert SECRET not in "\n".join(db.iterdump())
    db.close()
    assert len(seen) > 10
    assert not any(SECRET.encode() in content for content in seen)
    for name in ("clean.csv", "clean.changes.csv"):
        assert SECRET in (folder / name).read_text(encoding="utf-8")


RATED = {
    "rating": ([3, 4], {"rating": 4}),
    "taxonomy": ([["animal", "cat"], ["animal", "dog"]], {"taxonomy": [["animal", "dog"]]}),
    "pairwise": (["left", "right"], {"selected": "right"}),
}


@pytest.mark.filterwarnings("ignore:.*left out:pidual.errors.DataWarning")
@pytest.mark.parametrize("kind", RATED)
def test_other_controls_get_results_of_their_own_type(tmp_path, kind):
    labels, expected = RATED[kind]
    key = "selected" if kind == "pairwise" else None
    tasks = review_tasks(20)
    for number, task in enumerate(tasks):
        label = [labels[number % 2]] if kind == "taxonomy" else labels[number % 2]
        for given in task["annotations"]:
            given["result"] = [result(label, control="mine", type_=kind, key=key) | {"to_name": "shown"}]
    path = write_json(tmp_path / "export.json", tasks)
    classes = read_table(path, keep_ids=True).classes
    made = label_studio.result_of("consensus", label_studio.tags_of(open_source(path), ["text"]), str(classes[1]))
    assert made == {"id": "consensus", "from_name": "mine", "to_name": "shown", "type": kind, "value": expected}
