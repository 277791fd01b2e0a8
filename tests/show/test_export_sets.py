"""Sets of labels leave a run as they came, corrected: cells, tasks, records, soft labels; classes are reviewed."""

import contextlib
import itertools
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_key

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from pidual import read_table
from pidual.api.run import Run
from pidual.run.decisions import Store
from pidual.show.export import decide
from pidual.show.review.app import make_app

pytestmark = pytest.mark.shapes_unchecked
CLASSES = ["ant", "bee", "cod"]


def answers(n=40, seed=0):
    """Four sets for each of n items: three careful people and one who ticks everything; some sets are empty."""
    random = np.random.default_rng(seed)
    true = random.random((n, 3)) < [0.5, 0.3, 0.2]
    rows = []
    for item in range(n):
        for who in range(4):
            ticks = np.where(random.random(3) < 0.93, true[item], ~true[item]) if who < 3 else random.random(3) < 0.95
            rows.append((f"i{item:02d}", f"p{who}", sorted(np.array(CLASSES)[ticks])))
    return pd.DataFrame(rows, columns=["item", "annotator", "tags"])


FRAME = answers()


def written(folder, form):
    """Write the frame in one form; return the file, and how it is read."""
    frame, sets = FRAME.copy(), FRAME["tags"]
    if form == "text":
        frame["tags"] = [" bee; ant" if one == ["ant", "bee"] else "; ".join(one) for one in sets]
        frame.to_csv(folder / "t.csv", index=False)
        return "t.csv", ["--label", "tags", "--label-separator", ";"]
    if form == "signs":
        signs = {f"t_{name}": ["yes" if name in one else "no" for one in sets] for name in CLASSES}
        frame.drop(columns="tags").assign(**signs).to_parquet(folder / "t.parquet")
        return "t.parquet", ["--labels", "t_*"]
    if form == "lists":
        frame.to_json(folder / "t.jsonl", orient="records", lines=True)
        return "t.jsonl", ["--label", "tags"]
    by_item = list(frame.groupby("item"))
    if form == "argilla":
        tasks = [
            {"id": item, "fields": {"text": f"of {item}"}}
            | {"responses": [{"user_id": who, "values": {"tags": {"value": one}}} for _, who, one in of.to_numpy()]}
            for item, of in by_item
        ]
    else:
        tasks = [
            {
                "id": int(item[1:]),
                "data": {"text": f"of {item}"},
                "annotations": [choices(*row) for row in of.to_numpy()],
            }
            for item, of in by_item
        ]
    (folder / "t.json").write_text(json.dumps(tasks))
    return "t.json", ["--multi-label"]


def choices(_, who, tags):
    result = {"from_name": "tags", "to_name": "text", "type": "choices", "value": {"choices": tags}}
    return {"completed_by": who, "result": [result] if tags else []}


@pytest.fixture(scope="module", params=["text", "signs", "lists", "studio", "argilla"])
def fitted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    table, how = written(folder, request.param)
    call(folder, "fit", table, *how, "--no-x", "--keep-ids", "--out", "run", "--quiet")
    return folder, request.param, how


def call(folder, *words):
    write_key(folder)
    with contextlib.chdir(folder):
        code, out, err = run_cli([*words])
    assert code == 0, err
    return out


def wanted(run):
    """The corrected sets, by what `decide` says of each class of an answer."""
    sets = [set(one) for one in FRAME["tags"]]
    frame = run.predictions.frame
    names = FRAME.groupby(["item", "annotator"]).ngroup()
    place = dict(zip(names, range(len(names)), strict=True))
    assert list(place.values()) == list(range(len(names)))
    changes = decide(run)
    assert len(changes) > 50
    items = frame["tagged_item"].astype(str).str.removeprefix("i").astype(int).to_numpy()
    people = frame["annotator"].astype(str).str[1:].astype(int).to_numpy()
    for row, label in zip(changes["row"], changes["new_label"].astype(str), strict=True):
        of = sets[4 * items[row] + people[row]]
        (of.discard if label.startswith("no ") else of.add)(label.removeprefix("no "))
    return [sorted(one) for one in sets]


def read_sets(path, words):
    options = {"--label": "label", "--label-separator": "label_separator", "--labels": "labels"}
    how = {options[word]: value for word, value in itertools.pairwise(words) if word in options}
    how |= {"labels": [how["labels"]]} if "labels" in how else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = read_table(path, keep_ids=True, multi_label="--multi-label" in words, **how)
    said = table.sets.said.toarray()
    found = {
        (f"i{int(str(item).removeprefix('i')):02d}", who): [CLASSES[at] for at in np.flatnonzero(row)]
        for item, who, row in zip(table.frame["item"], table.frame["annotator"], said, strict=True)
    }
    return [found[item, who] for item, who in zip(FRAME["item"], FRAME["annotator"], strict=True)]


def test_a_table_comes_back_in_its_form_with_corrected_sets(fitted):
    folder, form, how = fitted
    to = {"text": "csv", "signs": "parquet", "lists": "jsonl", "studio": "csv", "argilla": "argilla"}[form]
    call(folder, "export", "run", "out.json" if to == "argilla" else f"out.{to}", "--to", to, "--force")
    again = ["--label-separator", "|"] if form == "studio" else how
    run = Run.open(folder / "run")
    path = folder / ("out.json" if to == "argilla" else f"out.{to}")
    assert read_sets(path, again) == wanted(run)
    if form == "text":
        before, after = ((folder / name).read_text().splitlines() for name in ("t.csv", "out.csv"))
        changed = set(decide(run)["row"].map(run.predictions.frame["table_row"]))
        assert [
            row for row, pair in enumerate(zip(before[1:], after[1:], strict=True)) if len(set(pair)) > 1
        ] == sorted(changed)
    if form == "argilla":
        record = json.loads(path.read_text())[0]
        assert record["fields"] == {"text": "of i00"}
        assert set(record["suggestions"]["tags"]["value"]) <= set(CLASSES)


def test_tasks_have_the_whole_set_and_soft_labels_a_row_for_each_item(fitted):
    folder, form, _ = fitted
    call(folder, "export", "run", "tasks.json", "--to", "label-studio", "--force")
    tasks = json.loads((folder / "tasks.json").read_text())
    call(folder, "export", "run", "soft.parquet", "--to", "parquet", "--soft", "--force")
    soft = pd.read_parquet(folder / "soft.parquet").set_index("item")
    assert len(tasks) == len(soft) == 40
    chosen = {one["data"]["pidual_item"]: one["predictions"][0]["result"][0]["value"]["choices"] for one in tasks}
    assert {item: list(labels) for item, labels in soft["consensus_label"].items()} == chosen
    for name in CLASSES:
        assert [p >= 0.5 for p in soft[f"p_{name}"]] == [name in labels for labels in soft["consensus_label"]]
    if form == "studio":
        assert set(tasks[0]["data"]) == {"text", "pidual_item", "label_quality", "given_labels"}
    listed = folder / "next.json"
    call(folder, "next", "run", "--budget", "3", "--out", str(listed))
    assert all(one["data"]["pidual_ask_about"] in CLASSES for one in json.loads(listed.read_text()))
    listed.unlink()


def test_a_reviewer_adds_or_drops_a_class_and_nothing_else(fitted):
    folder, *_ = fitted
    run = Run.open(folder / "run")
    store, own = Store(run), "http://127.0.0.1:8123"
    client = TestClient(make_app(run, store, "t0ken"), base_url=own)
    client.headers.update({"Authorization": "Bearer t0ken", "Origin": own})
    assert client.get("/api/about").json()["of_sets"]
    label = client.get("/api/next", params={"reviewer": "ann"}).json()["label"]
    body = {"reviewer": "ann", "request": "r", "row": label["row"]}
    other = {"decision": "change", "label": (label["given"] + 2) % 6}
    answer = client.post("/api/decide", json=body | other)
    assert answer.status_code == 400
    assert "same class" in answer.json()["error"]
    assert client.post("/api/decide", json=body | {"decision": "keep", "label": None}).status_code == 200
    store.close()
    assert label["row"] not in set(decide(run)["row"])
    call(folder, "export", "run", "soft.jsonl", "--to", "jsonl", "--soft", "--force")
    soft = pd.read_json(folder / "soft.jsonl", lines=True, dtype=False).set_index("item")
    item, tag = label["item"].split(" · ")
    assert soft.loc[item, f"p_{tag}"] == label["given"] % 2
    (folder / "run/reviews.sqlite").unlink()
