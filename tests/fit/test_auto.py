"""The default method, through the command line: what it says, writes and takes, on tables of every shape."""

import io
import json
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_crowd, write_key
from stored_state import read_state, write_state

from pidual import CrowdClassifier
from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import load_inputs, read_table
from pidual.errors import RunError
from pidual.fit.load_model import load_method
from pidual.fit.splits import assign_folds
from pidual.learn.engine import Interrupted, Progress
from pidual.run.predictions import read_frame

pytestmark = pytest.mark.shapes_unchecked

CHOICE = "Method latent_truth: 60 items with 3.0 answers each by 6 annotators are judged together."
FILES = ("model.safetensors", "model.json", "predictions.parquet", "items.parquet", "annotators.parquet")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A crowd's files, ten of its items for testing, and in `run` what the default makes of them."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"))
    frame = pd.read_csv(folder / "labels.csv")
    frame.assign(split=np.where(frame["item"] < 10, "test", "train")).to_csv(folder / "split.csv", index=False)
    code, out, err = fit(folder, "--pi", "annotator,seconds", table="split.csv")
    assert code == 0, err
    (folder / "stdout").write_text(out)
    (folder / "stderr").write_text(err)
    return folder


def fit(folder, *options, table="labels.csv", out="run"):
    return run_cli(["fit", folder / table, "--x", folder / "x.npy", "--out", folder / out, *map(str, options)])


def read_json(path):
    return json.loads(path.read_text())


def of_predict(run, x):
    """What `pidual predict` prints, as a table."""
    code, out, err = run_cli(["predict", run, x])
    assert code == 0, err
    return pd.read_csv(io.StringIO(out))


# --- what is chosen, and said ---


def test_the_choice_is_one_sentence_and_in_the_config(crowd):
    assert (crowd / "stderr").read_text().splitlines()[0] == CHOICE
    config = read_json(crowd / "run" / "config.json")
    assert (config["method"], config["method_choice"]) == ("latent_truth", CHOICE)
    assert (config["valid_fraction"], config["pi_kinds"]) == (0, {})


def test_what_was_asked_for_is_in_the_config_and_a_method_that_is_named_needs_no_reason(crowd, tmp_path):
    options = ["--method", "ce", "--pi", "annotator,seconds:number", "--valid-fraction", "0.25", "--epochs", 2]
    code, _, err = fit(crowd, *options, out=tmp_path / "run")
    assert code == 0, err
    assert err.startswith("Training")
    config = Run(tmp_path / "run").config
    assert (config.valid_fraction, config.pi_kinds) == (0.25, {"seconds": "number"})
    assert config.method_choice == ""


def test_the_setting_of_the_paper_is_pi_dual(crowd, tmp_path):
    code, _, err = fit(crowd, "--setting", "paper", "--set", "width=16", "--epochs", 2, out=tmp_path / "run")
    assert code == 0
    assert err.startswith("Method pi_dual, which the setting 'paper' is for.\n")
    config = read_json(tmp_path / "run" / "config.json")
    assert (config["method"], config["setting"]) == ("pi_dual", "paper")
    assert config["method_choice"] == "Method pi_dual, which the setting 'paper' is for."


def test_the_estimator_has_the_same_default():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    model = CrowdClassifier().fit(x, y)
    assert type(model.method_).__name__ == "FittedTruth"
    assert sum(model.model_selection_[0].kernels.values()) == pytest.approx(1)


# --- what it writes ---


def test_labels_are_judged_and_what_was_chosen_is_written(crowd):
    predictions = read_frame(crowd / "run" / "predictions.parquet")
    assert predictions["label_quality"].between(0, 1).all()
    assert predictions["gate"].between(0, 1).all()
    assert "noise_label" not in predictions
    (selection,) = read_json(crowd / "run" / "summary.json")["model_selection"]
    assert sum(selection["kernels"].values()) == pytest.approx(1)
    assert 0 < selection["explained"] < 1
    assert "The inputs explain" in (crowd / "stdout").read_text()
    votes = read_json(crowd / "run" / "summary.json")["consensus"]["votes"]
    assert 0 < votes <= 3 / (1 + 0.4 * 2)
    assert f"3.0 answers to an item count as {votes:.1f} independent ones" in (crowd / "stdout").read_text()


def test_predict_says_of_test_items_what_the_fit_said(crowd):
    """Items that it was fitted to are judged by fits without them; the fit to all of them predicts."""
    rows = read_frame(crowd / "run" / "predictions.parquet").drop_duplicates("item").set_index("item").sort_index()
    test = (rows["split"] == "test").to_numpy()
    frame = of_predict(crowd / "run", crowd / "x.npy")
    assert frame["predicted_label"][test].tolist() == rows["predicted_label"][test].tolist()
    np.testing.assert_allclose(
        frame["predicted_probability"][test], rows["predicted_probability"][test], rtol=1e-5, atol=1e-7
    )
    assert (frame["predicted_probability"][~test] != rows["predicted_probability"].to_numpy()[~test]).all()


def test_a_run_is_read_back(crowd, tmp_path):
    table, inputs = read_table(crowd / "split.csv", pi=["annotator", "seconds"]), load_inputs(crowd / "x.npy")
    run = fit_table(table, inputs, tmp_path / "run")
    method, _ = load_method(run)
    assert method.learned.judge.temper.tau == run.summary.model_selection[0].tau
    assert method.learned.design.n_annotators >= 6
    selected, last = (run.predict(inputs.array, weights=which) for which in ("selected", "last"))
    pd.testing.assert_frame_equal(selected, last)
    pd.testing.assert_frame_equal(selected, type(run).open(crowd / "run").predict(inputs.array))


@pytest.mark.parametrize("stops", [1, 2])
def test_a_stopped_run_goes_on_to_the_same_bits(crowd, tmp_path, stops):
    table, inputs = read_table(crowd / "split.csv", pi=["annotator", "seconds"]), load_inputs(crowd / "x.npy")
    answers = iter([False] * (stops - 1) + [True])
    with pytest.raises(Interrupted):
        fit_table(table, inputs, tmp_path / "run", stop=lambda: next(answers))
    progress = Mock(spec=Progress)
    run = fit_table(table, inputs, tmp_path / "run", resume=True, progress=progress)
    progress.start.assert_called_once_with(8, 1, stops, "closed_form")
    for name in FILES:
        assert (run.path / name).read_bytes() == (crowd / "run" / name).read_bytes(), name
    code, _, err = fit(crowd, "--pi", "annotator,seconds", "--resume", "--quiet", table="split.csv")  # it is finished
    assert (code, err) == (0, "")


@pytest.mark.parametrize("damage", ["another shape", "a name"])
def test_a_state_that_is_not_of_this_fit_is_refused_in_a_sentence(crowd, tmp_path, damage):
    table, inputs = read_table(crowd / "split.csv", pi=["annotator", "seconds"]), load_inputs(crowd / "x.npy")
    with pytest.raises(Interrupted):
        fit_table(table, inputs, tmp_path / "run", stop=lambda: True)
    path = tmp_path / "run" / "state" / "state.safetensors"
    tensors, values = read_state(path)
    if damage == "another shape":
        tensors["q"] = tensors["q"][1:]
    else:
        tensors["p"] = tensors.pop("q")
    write_state(path, tensors, values)
    with pytest.raises(RunError, match=r"state\.safetensors does not fit this run: .*; the state is damaged"):
        fit_table(table, inputs, tmp_path / "run", resume=True)


@pytest.mark.parametrize("options", [["--seed", 7], ["--threads", 2], ["--seed", 3, "--threads", 1]])
def test_any_seed_and_number_of_threads_give_the_same_bytes(crowd, tmp_path, options):
    code, _, err = fit(crowd, "--pi", "annotator,seconds", *options, table="split.csv", out=tmp_path / "run")
    assert code == 0, err
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (crowd / "run" / name).read_bytes(), name


# --- tables of every shape ---


def answers(n_items=24, each=3, n_classes=3, n_annotators=4):
    """Answers of a crowd that is right three times in four, and x."""
    rng = np.random.default_rng(0)
    y = np.arange(n_items) % n_classes
    item = np.repeat(np.arange(n_items), each)
    right = rng.random(len(item)) < 0.75
    label = np.where(right, y[item], rng.integers(0, n_classes, len(item)))
    frame = pd.DataFrame({"item": item, "label": label, "annotator": rng.integers(0, n_annotators, len(item))})
    x = rng.normal(size=(n_items, 5)) + 2 * np.eye(n_classes, 5)[y]
    return frame, x.astype(np.float32)


def all_equal():
    frame, x = answers()
    return frame.assign(label=frame["item"] % 3), x


def one_answer_each():
    frame, x = answers()
    return frame.assign(annotator=np.arange(len(frame))), x


def crowded_item():
    frame, x = answers()
    many = pd.DataFrame({"item": 0, "label": np.arange(400) % 3, "annotator": np.arange(400) % 7})
    return pd.concat([frame, many]), x


def nobody():
    frame, x = answers()
    return frame.drop(columns="annotator"), x


SHAPES = {
    "all answers to an item are equal": all_equal,
    "annotators have one answer each": one_answer_each,
    "an item has hundreds of answers": crowded_item,
    "two classes": lambda: answers(n_classes=2),
    "50 classes": lambda: answers(n_items=100, n_classes=50),
    "no annotator": nobody,
    "one answer per item": lambda: answers(each=1, n_items=40),
    "two items": lambda: answers(n_items=2, n_classes=2),
    "one annotator": lambda: answers(n_annotators=1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tables_of_every_shape_can_be_fitted(shape, tmp_path, monkeypatch):
    monkeypatch.setattr("pidual.api.fit.build_report", lambda run: run.path / "report.html")
    frame, x = SHAPES[shape]()
    write_key(tmp_path)
    frame.to_csv(tmp_path / "labels.csv", index=False)
    np.save(tmp_path / "x.npy", x)
    code, out, err = fit(tmp_path)
    assert code == 0, err
    assert f"{len(frame):,} labels of {len(x)} items; " in out
    assert err.startswith("Method latent_truth: ")
    predictions = read_frame(tmp_path / "run" / "predictions.parquet")
    assert len(predictions) == len(frame)
    assert np.isfinite(predictions[["label_quality", "gate", "predicted_probability"]]).all(axis=None)
    n_classes = frame["label"].nunique()
    p = of_predict(tmp_path / "run", tmp_path / "x.npy").filter(regex="^p_")
    assert p.shape == (len(x), n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-4)


# --- what must not go wrong ---


def test_an_item_with_rows_in_two_splits_is_judged_by_members_that_have_not_seen_it():
    items, trained = np.array([0, 0, 1, 1, 2, 2]), np.array([False, True, True, True, False, False])
    fold = assign_folds(items, trained, 2, 0)
    assert fold[0] == fold[1] >= 0
    assert fold[2] == fold[3] >= 0
    assert fold[4] == fold[5] == -1


def test_a_crowd_of_mostly_one_label_has_not_collapsed(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.1).astype(int)
    np.save(tmp_path / "x.npy", rng.normal(size=(200, 5)) + 0.3 * y[:, None])
    item = np.repeat(np.arange(200), 3)
    label = np.where(rng.random(600) < 0.05, 1 - y[item], y[item])
    frame = pd.DataFrame({"item": item, "annotator": [f"a{k}" for k in rng.integers(0, 8, 600)], "label": label})
    frame.to_csv(tmp_path / "labels.csv", index=False)
    write_key(tmp_path)
    code, _, err = run_cli(["fit", tmp_path / "labels.csv", "--x", tmp_path / "x.npy", "--out", tmp_path / "run"])
    assert code == 0, err
    assert read_json(tmp_path / "run" / "summary.json")["guard"]["events"] == []
