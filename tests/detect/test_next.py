"""`pidual next`: which items to ask about again, and whom."""

import contextlib
import io
import json

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_crowd, write_key

from pidual.api.run import Run
from pidual.detect.next_answers import confusion_matrices, gains
from pidual.errors import UsageError

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of a crowd: with who answered (`run`), without (`unknown`), and of 24 classes (`many`)."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"))
    frame = pd.read_csv(folder / "labels.csv")
    frame[["item", "label"]].to_csv(folder / "unknown.csv", index=False)
    rng = np.random.default_rng(0)
    rows = [
        (item, f"c{item % 24 if rng.random() < 0.7 else rng.integers(24):02}", f"w{who}")
        for item in range(96)
        for who in rng.permutation(30)[:2]
    ]
    pd.DataFrame(rows, columns=["item", "label", "annotator"]).to_csv(folder / "many.csv", index=False)
    write_key(folder)
    with contextlib.chdir(folder):
        for table, out in (("labels.csv", "run"), ("unknown.csv", "unknown"), ("many.csv", "many")):
            code, _, err = run_cli(["fit", table, "--no-x", "--quiet", "--out", out])
            assert code == 0, err
    return folder


def pairs(run):
    """Who has answered what."""
    frame = run.predictions.frame
    return set(zip(frame["item"].astype(str), frame["annotator"].astype(str), strict=True))


def test_the_gain_is_that_of_the_run_s_own_numbers(folder):
    run = Run.open(folder / "run")
    listed = run.next_answers(5)
    items = run.items.set_index(run.items["item"].astype(str))
    on_class = run.annotator_classes.astype({"annotator": str, "true_class": str})
    on_class = on_class.set_index(["annotator", "true_class"])["accuracy"]
    transitions = np.array(run.summary.classes.transitions)
    for row in listed.itertuples():
        p = items.loc[str(row.item), ["p_cat", "p_dog", "p_owl"]].to_numpy(float)
        p /= p.sum()
        accuracy = np.array([[on_class[row.annotator, name] for name in ("cat", "dog", "owl")]])
        expected = gains(p[None], confusion_matrices(accuracy, transitions))[0, 0]
        assert row.gain == pytest.approx(expected, rel=1e-4)
        assert row.accuracy == pytest.approx(float(p @ accuracy[0]), rel=1e-4)
        assert row.error == pytest.approx(1 - float(p @ p), rel=1e-4)
        assert 0 < row.gain < row.error


@pytest.mark.parametrize("name", ["run", "many"])
def test_nobody_is_asked_twice_and_the_best_comes_first(folder, name):
    run = Run.open(folder / name)
    listed = run.next_answers(40)
    assert len(listed) == 40
    assert listed["item"].is_unique
    assert listed["gain"].is_monotonic_decreasing
    assert not pairs(run) & set(zip(listed["item"].astype(str), listed["annotator"].astype(str), strict=True))
    pd.testing.assert_frame_equal(run.next_answers(7), listed.head(7))
    assert (listed["gain"] <= listed["error"]).all()


def test_an_annotator_has_no_more_than_the_limit(folder):
    run = Run.open(folder / "run")
    free, limited = run.next_answers(12), run.next_answers(12, per_annotator=3)
    assert free["annotator"].value_counts().max() > 3 == limited["annotator"].value_counts().max()
    assert limited["gain"].sum() < free["gain"].sum()
    assert len(limited) == 12


def test_who_answered_everything_is_not_asked(folder, tmp_path):
    frame = pd.read_csv(folder / "labels.csv")
    names = frame["annotator"].unique()[:3]
    whole = pd.concat([frame.drop_duplicates("item").assign(annotator=name) for name in names])
    whole["label"] = np.where(np.random.default_rng(0).random(len(whole)) < 0.3, "cat", whole["y"])
    whole[["item", "label", "annotator"]].to_csv(tmp_path / "whole.csv", index=False)
    write_key(tmp_path)
    with contextlib.chdir(tmp_path):
        assert run_cli(["fit", "whole.csv", "--no-x", "--quiet", "--out", "run"])[0] == 0
    listed = Run.open(tmp_path / "run").next_answers(5)
    assert len(listed) == 5
    assert listed["annotator"].isna().all()  # somebody new


def test_without_annotators_anybody_answers(folder):
    listed = Run.open(folder / "unknown").next_answers(5)
    assert "annotator" not in listed
    assert (listed["gain"] > 0).all()


def test_the_command_prints_a_table_or_writes_one(folder, tmp_path):
    code, out, err = run_cli(["next", folder / "run", "--budget", 4])
    assert (code, err.startswith("4 of 60 items; ")) == (0, True)
    printed = pd.read_csv(io.StringIO(out))
    expected = Run.open(folder / "run").next_answers(4)
    assert list(printed) == list(expected)
    assert printed["item"].tolist() == expected["item"].tolist()
    assert run_cli(["next", folder / "run", "--budget", 4, "--out", tmp_path / "a.parquet"])[0] == 0
    assert pd.read_parquet(tmp_path / "a.parquet")["item"].tolist() == expected["item"].tolist()
    words = ["next", folder / "run", "--budget", 4, "--table", folder / "labels.csv", "--out", tmp_path / "tasks.json"]
    assert run_cli(words)[0] == 0
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["data"]["pidual_item"] for task in tasks] == expected["item"].astype(str).tolist()
    assert [task["data"]["pidual_ask"] for task in tasks] == expected["annotator"].astype(str).tolist()
    assert "annotator" not in (tmp_path / "tasks.json").read_text()
    assert run_cli([*words[:-1], tmp_path / "named.json", "--names"])[0] == 0
    named = [task["data"]["pidual_ask"] for task in json.loads((tmp_path / "named.json").read_text())]
    answered = pd.read_csv(folder / "labels.csv").groupby("annotator")["item"].agg(set)
    for task, name in zip(tasks, named, strict=True):
        assert int(task["data"]["pidual_item"]) not in answered[name]
    assert "must end in" in run_cli(["next", folder / "run", "--budget", 4, "--out", tmp_path / "a.txt"])[2]


def test_a_budget_of_nothing_is_refused(folder):
    with pytest.raises(UsageError, match="budget must be at least 1, not 0"):
        Run.open(folder / "run").next_answers(0)
