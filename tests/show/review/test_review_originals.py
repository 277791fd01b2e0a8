"""What the page shows of items that the run keeps nothing of: read from the inputs, and from nothing else."""

import base64
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli
from msgspec.structs import replace
from PIL import Image

from pidual.api.run import Run
from pidual.detect.unusual import Usual
from pidual.run.records.config import Source
from pidual.show.review.originals import Originals

N = 40
FIT = ["--method", "ce", "--epochs", "2", "--set", "network.width=4", "--keep-going", "--quiet", "--out", "run"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two answers to each of 40 items, and inputs of every kind, each with a run."""
    folder, rng = tmp_path_factory.mktemp("originals"), np.random.default_rng(0)
    y = np.arange(N) % 2
    names = [f"{'cats' if c else 'dogs'}/{i:02}.png" for i, c in enumerate(y)]
    item = np.repeat(np.arange(N), 2)
    labels = pd.DataFrame({"item": item, "label": np.array(["no", "yes"])[y[item]]})
    labels["annotator"] = [f"person{i}@example.org" for i in rng.integers(0, 4, 2 * N)]
    labels["text"] = [f"{'bill money' if y[i] else 'door key'} {i} by joe{i}@corp.example\nend" for i in item]
    labels["size"] = rng.normal(size=N)[item] + 5 * y[item]
    labels["weight"] = rng.normal(size=N)[item]
    labels.to_csv(folder / "labels.csv", index=False)
    for name, c in zip(names, y, strict=True):
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 100, (12, 16, 3)).astype(np.uint8) + 100 * np.uint8(c)).save(
            folder / "images" / name
        )
    by_path = labels[["item", "label", "annotator"]].assign(item=np.array(names)[item])
    by_path.to_csv(folder / "paths.csv", index=False)
    by_path["item"] = by_path["item"].map(lambda name: Path(name).stem)
    by_path.to_csv(folder / "stems.csv", index=False)
    np.save(folder / "flat.npy", rng.normal(size=(N, 5)).astype(np.float32) + y[:, None])
    np.save(folder / "square.npy", rng.normal(size=(N, 1, 8, 9)).astype(np.float32) + y[:, None, None, None])
    return folder


def fit(folder, where, table, *options):
    """A run of a copy of the data, and the review's view of it; the copy may be changed."""
    shutil.copytree(folder, where, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        code, _, err = run_cli(["fit", table, *options, *(FIT if "--no-x" not in options else FIT[-4:])])
    assert code == 0, err
    run = Run.open(where / "run")
    return run, run.predictions.frame["item"].astype(str)


def decoded(seen):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(seen["picture"]))).convert("RGB"))


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_texts_of_the_table(folder, inside):
    run, items = fit(folder, inside, "labels.csv", "--x-text", "text")
    seen = Originals(run).show(7, items[7])
    assert seen["text"] == "bill money 3 by (e-mail address)\nend"
    assert (seen["note"], seen["picture"], seen["columns"]) == (None, None, [])
    assert [Originals(run).show(row, items[row])["text"].split()[2] for row in (0, 79)] == ["0", "39"]


def test_texts_that_have_changed_or_gone(folder, inside):
    run, items = fit(folder, inside, "labels.csv", "--x-text", "text")
    whole = (inside / "labels.csv").read_text()
    moved = inside / "moved.csv"
    moved.write_text(whole)
    (inside / "labels.csv").write_text(whole.replace("bill money 3", "another text"))
    seen = Originals(run).show(7, items[7])
    assert seen["text"] is None
    assert "has changed since the run was made" in seen["note"]
    (inside / "labels.csv").write_text(whole.replace(",yes,", ",no,", 1))
    assert "no longer has the labels of the run" in Originals(run).show(7, items[7])["note"]
    (inside / "labels.csv").write_text("\n")
    assert "cannot be read as it was" in Originals(run).show(7, items[7])["note"]
    (inside / "labels.csv").unlink()
    assert "is not where it was" in Originals(run).show(7, items[7])["note"]
    assert str(inside) not in Originals(run).show(7, items[7])["note"]
    assert Originals(run, moved).show(7, items[7])["text"].startswith("bill money 3 ")


def test_rows_of_a_table(folder, inside):
    run, items = fit(folder, inside, "labels.csv", "--x-columns", "size,weight")
    frame, table = run.predictions.frame, pd.read_csv("labels.csv")
    seen = Originals(run).show(9, items[9])
    assert seen["columns"] == [
        {"column": name, "value": f"{np.float32(table[name][9]):.6g}"} for name in ("size", "weight")
    ]
    likely = (frame["consensus_label"] == frame["given_label"][9]).groupby(table["item"]).first()
    usual = Usual.of(table.groupby("item")[["size", "weight"]].first()[likely].to_numpy())
    first = table[["size", "weight"]].iloc[9].to_numpy()
    assert [each["column"] for each in seen["unusual"]] == [
        ("size", "weight")[at] for at, _ in usual.most_unusual(first)
    ]


def test_what_the_table_says_where_there_are_no_inputs(folder, inside):
    run, items = fit(folder, inside, "labels.csv", "--no-x")
    seen = Originals(run).show(7, items[7])
    assert [each["column"] for each in seen["columns"]] == ["text", "size", "weight"]  # nobody's name
    assert seen["columns"][0]["value"] == "bill money 3 by (e-mail address)\nend"
    assert "person" not in str(seen)


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_columns_of_lists_and_objects_are_left_out(folder, inside, ending):
    """Of the page, and of tasks for Label Studio."""
    frame = pd.read_csv(folder / "labels.csv")
    frame["tags"] = [["a", "b"][: 1 + i % 2] for i in frame["item"]]
    frame["more"] = [{"k": i} for i in frame["item"]]
    path = inside / f"labels.{ending}"
    frame.to_parquet(path) if ending == "parquet" else frame.to_json(path, orient="records", lines=True)
    run, items = fit(folder, inside, path.name, "--no-x")
    assert {each["column"] for each in Originals(run).show(7, items[7])["columns"]} == {"text", "size", "weight"}
    code, _, err = run_cli(["export", "run", "tasks.json", "--to", "label-studio"])
    assert code == 0, err
    assert {*json.loads(Path("tasks.json").read_text())[0]["data"]} >= {"text", "size", "weight"}


def test_pictures_of_a_folder(folder, inside):
    for table in ("paths.csv", "stems.csv"):
        run, items = fit(folder, inside / table, table, "--x", "images")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(inside / table)
            seen = Originals(run).show(7, items[7])
        assert (decoded(seen) == np.asarray(Image.open(folder / "images" / "cats" / "03.png"))).all()
        assert (seen["note"], seen["picture_type"], seen["pixelated"]) == (None, "image/png", True)


def test_pictures_that_have_changed_gone_or_lie_elsewhere(folder, inside):
    run, items = fit(folder, inside, "paths.csv", "--x", "images")
    path, originals = inside / "images" / items[7], Originals(run)
    Image.new("RGB", (2000, 1000)).save(path)
    os.utime(path, (2e9, 2e9))
    seen = originals.show(7, items[7])
    assert decoded(seen).shape == (320, 640, 3)
    assert "newer than the run" in seen["note"]
    path.write_bytes(b"no picture")
    assert "no longer be read" in originals.show(7, items[7])["note"]
    secret = inside / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)
    path.unlink()
    path.symlink_to(secret)
    assert originals.show(7, items[7])["picture"] is None
    path.unlink()
    assert "picture of this item is no longer" in originals.show(7, items[7])["note"]
    (inside / "images" / "out").symlink_to(inside)
    for name in ("../secret.png", str(secret), "out/secret.png", "a\0.png", "x" * 5000 + ".png", "", ".", "/"):
        assert originals.show(7, name)["picture"] is None, name


def test_arrays(folder, inside):
    run, items = fit(folder, inside / "flat", "labels.csv", "--x", str(folder / "flat.npy"))
    seen = Originals(run).show(6, items[6])
    assert [each["column"] for each in seen["columns"]] == [f"column {number}" for number in range(5)]
    run, items = fit(folder, inside / "square", "labels.csv", "--x", str(folder / "square.npy"))
    seen = Originals(run).show(6, items[6])
    assert decoded(seen).shape == (8, 9, 3)
    x = np.load(folder / "square.npy")[3, 0]
    assert (decoded(seen)[:, :, 0] == ((x - x.min()) * (255 / (x.max() - x.min()))).round()).all()


def test_data_in_memory_is_not_looked_for(whole_run):
    run = Run(whole_run)
    assert "is not where it was" in Originals(run).show(0, "0")["note"]
    run = Run.holding(run.path, config=replace(run.config, source=Source()))
    seen = Originals(run).show(0, "0")
    assert "fitted on data in memory" in seen["note"]
