"""What a user gets wrong: one sentence on stderr that says what and where, no traceback, and nothing written."""

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import change, fit, refused, refused_and_nothing_written, run_cli, write_crowd, write_pictures

from pidual.run.predictions import read_frame

pytestmark = pytest.mark.shapes_unchecked

FIT = ("--quiet",)


# --- the table ---


def test_no_such_file(crowd_files):
    answer = fit(crowd_files, table="nothing.csv")
    refused_and_nothing_written(crowd_files, answer, 2, crowd_files / "nothing.csv", "does not exist", "check the path")
    answer = fit(crowd_files, x="nothing.npy")
    refused_and_nothing_written(crowd_files, answer, 2, crowd_files / "nothing.npy", "does not exist", "check the path")


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda frame: frame.assign(split="test"), ["no row with split 'train'"]),
        (lambda frame: frame.assign(item=frame["item"] + 55), ["no input for 55 of the 60 items", ": 60, 61, 62"]),
    ],
)
def test_contents_that_cannot_be_used(crowd_files, function, parts):
    change(crowd_files, function)
    refused_and_nothing_written(crowd_files, fit(crowd_files), 1, crowd_files / "labels.csv", *parts)


# --- the inputs ---


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--x-columns", "a,b"], ["x.npy has no columns", "--x-columns"]),
        (["--x-text", "note"], ["x.npy has no columns", "--x-text"]),
        (["--image-size", "8"], ["x.npy is not a folder of images", "--image-size"]),
        (["--image-size", "0"], ["--image-size", "0 is not in the range"]),
    ],
)
def test_options_that_mean_nothing_for_an_array(crowd_files, options, parts):
    refused_and_nothing_written(crowd_files, fit(crowd_files, *options), 2, *parts)


# --- options ---


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--method", "pidual"], ["no method 'pidual'", "ce", "pi_dual"]),
        (["--set", "width"], ["'width' is not of the form KEY=VALUE"]),
        (["--set", "lr=abc"], ["lr must be a number", "'abc'"]),
        (["--set", "epochs=0"], ["epochs must be at least 1", "0"]),
        (["--set", "batch_size=1.5"], ["batch_size must be a whole number", "1.5"]),
        (["--set", "schedule=cosin"], ["schedule must be cosine or steps or constant", "'cosin'"]),
        (["--set", "clip=-1"], ["clip must be above 0 or none", "-1"]),
        (["--set", "seed=3"], ["--seed"]),
        (["--set", "lr=0.1", "--lr", "0.2"], ["lr is given twice", "--lr", "--set"]),
        (["--seed", "-1"], ["seed must be a whole number of at least 0", "-1"]),
        (["--epochs", "-2"], ["epochs must be a whole number of at least 0", "-2"]),
        (["--epochs", "two"], ["--epochs", "'two' is not a valid integer"]),
        (["--setting", "papr"], ["'papr' is not one of 'default', 'paper'"]),
        (["--valid-fraction", "1"], ["valid_fraction must be at least 0 and below 1", "1.0"]),
        (["--save-every", "-1"], ["--save-every", "-1"]),
        (["--lable", "label"], ["No such option", "--lable"]),
        (["--force", "--resume"], ["--force", "--resume", "one of them"]),
    ],
)
def test_options_that_cannot_be(crowd_files, options, parts):
    refused_and_nothing_written(crowd_files, fit(crowd_files, *options), 2, *parts)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--network", "mpl"], ["no network 'mpl'", "mlp, small_cnn"]),
        (["--network", "small_cnn"], ["'small_cnn'", "images"]),
        (["--set", "widht=3"], ["no option 'widht'"]),
        (["--set", "network.widht=3"], ["no option 'widht'", "width"]),
        (["--set", "clip=abc"], ["clip", "'abc'"]),
        (["--set", "milestones=3"], ["milestones", "3"]),
        (["--method", "pi_dual", "--set", "width=-3"], ["width", "-3"]),
        (["--method", "pi_dual", "--set", "pi_weight_decay=maybe"], ["pi_weight_decay", "'maybe'"]),
        (["--set", "random_pi=4"], ["'latent_truth' has no option 'random_pi'", "folds"]),
        (["--set", "folds=0"], ["folds", "from 1 to 100", "0"]),
        (["--set", "network.width=-3"], ["width", "-3"]),
        (["--set", "network.dropout=2.5"], ["dropout", "2.5"]),
        (["--set", "precision=33"], ["precision", "33"]),
        (["--accelerator", "abacus"], ["accelerator", "abacus", "cpu"]),
    ],
)
def test_options_of_networks_and_devices_that_cannot_be(crowd_files, options, parts):
    trained = [] if {"--network", "--method"} & {*options} else ["--network", "mlp"]
    refused_and_nothing_written(crowd_files, fit(crowd_files, *trained, *options), 2, *parts)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--epochs", "2"], "epochs"),
        (["--batch-size", "8"], "batch_size"),
        (["--lr", "0.1"], "lr"),
        (["--set", "folds=3"], "folds"),
        (["--set", "network.width=8"], "network.width"),
        (["--set", "widht=3"], "widht"),
    ],
)
def test_options_of_training_where_nothing_is_trained(crowd_files, options, name):
    parts = (f"no '{name}' to set", "worked out, not trained", "--network mlp")
    refused_and_nothing_written(crowd_files, fit(crowd_files, *options), 2, *parts)


# --- the run directory ---


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """labels.csv, x.npy and a finished run of them; not to be changed."""
    folder = write_crowd(tmp_path_factory.mktemp("finished"))
    with contextlib.chdir(folder):
        code, _, err = fit(Path(), *FIT)
    assert code == 0, err
    return folder


@pytest.fixture
def own(finished, tmp_path, monkeypatch):
    """The current folder, with a copy of `finished` that a test may change."""
    monkeypatch.chdir(shutil.copytree(finished, tmp_path / "own"))
    return Path()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_is_there_is_not_overwritten(own):
    before = contents(own / "run")
    refused(fit(own, *FIT), 1, own / "run", "already holds a run", "--resume", "--force", "--out")
    assert contents(own / "run") == before


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("name", ["run", "run/thesis.txt", "run/config.json"])
def test_what_is_no_run_is_not_touched(crowd_files, force, name):
    (crowd_files / name).parent.mkdir(exist_ok=True)
    (crowd_files / name).write_text('{"model_type": "bert"}')
    before = contents(crowd_files)
    refused(fit(crowd_files, *force), 1, crowd_files / "run", "not a run directory", "--out")
    assert contents(crowd_files) == before


def test_a_place_that_cannot_be_written(crowd_files):
    (crowd_files / "file").write_text("a file")
    args = ["fit", crowd_files / "labels.csv", "--x", crowd_files / "x.npy"]
    refused(run_cli([*args, "--out", crowd_files / "file" / "run"]), 1, "Cannot write", "Not a directory", "--out")
    if os.geteuid() == 0:  # nothing is closed to root but what the kernel keeps
        refused(run_cli([*args, "--out", "/proc/run"]), 1, "Cannot write to /proc/run", "--out")
    else:
        (crowd_files / "closed").mkdir(mode=0o500)
        refused(run_cli([*args, "--out", crowd_files / "closed" / "run"]), 1, "Cannot write", "Permission denied")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--seed", "4"], ["seed", "0", "4"]),
        (["--method", "ce"], ["method", "'latent_truth'", "'ce'"]),
        (["--network", "mlp"], ["was started with", "and now it is"]),
        (["--setting", "paper"], ["method", "'latent_truth'", "'pi_dual'"]),
        (["--method", "latent_truth", "--setting", "paper"], ["setting", "'default'", "'paper'"]),
        (["--valid-fraction", "0.3"], ["n_train"]),
        (["--pi", "seconds"], []),
    ],
)
def test_resume_with_other_options(own, options, parts):
    before = contents(own / "run")
    refused(fit(own, "--quiet", "--resume", *options), 1, own / "run", "resume with the data and", *parts)
    assert contents(own / "run") == before


def test_resume_with_other_data(own):
    before = contents(own / "run")
    labels = (own / "labels.csv").read_bytes()
    change(own, lambda frame: frame.iloc[::-1])
    refused(fit(own, "--resume", *FIT), 1, own / "run", "resume with the data and")
    (own / "labels.csv").write_bytes(labels)
    np.save(own / "x.npy", np.load(own / "x.npy") + 1)
    refused(fit(own, "--resume", *FIT), 1, own / "run", "resume with the data and")
    assert contents(own / "run") == before


def test_resume_of_a_damaged_run(own):
    (own / "run" / "config.json").write_text('{"pidual": "0.1.0", ')
    refused(fit(own, "--resume", *FIT), 1, own / "run" / "config.json", "damaged")
    assert (own / "run" / "predictions.parquet").exists()


def test_resume_from_a_damaged_state(own):
    (own / "run" / "summary.json").unlink()  # a finished run needs no state
    (own / "run" / "state" / "state.safetensors").write_bytes(b"123")
    code, out, err = fit(own, "--resume", *FIT)
    warning, *error = err.splitlines(keepends=True)
    assert "not used: seconds" in warning
    refused((code, out, "".join(error)), 1, "state.safetensors", "damaged")


@pytest.mark.parametrize("command", [["predict", "RUN", "X"], ["detect", "RUN"], ["report", "RUN"]])
def test_commands_on_what_is_no_finished_run(own, command):
    def run(path):
        return run_cli([path if word == "RUN" else own / "x.npy" if word == "X" else word for word in command])

    refused(run(own), 1, own, "not a run directory", "pidual fit")
    refused(run(own / "nothing"), 1, own / "nothing", "not a run directory", "pidual fit")
    (own / "run" / "summary.json").unlink()
    refused(run(own / "run"), 1, own / "run", "not finished", "--resume")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("config.json", ["detect", "RUN"]),
        ("model.json", ["predict", "RUN", "X"]),
        ("model.safetensors", ["predict", "RUN", "X"]),
        ("predictions.parquet", ["detect", "RUN"]),
        pytest.param("predictions.parquet", ["report", "RUN"]),
        ("summary.json", ["report", "RUN"]),
    ],
)
def test_commands_on_a_damaged_run(own, name, command):
    words = [own / "run" if word == "RUN" else own / "x.npy" if word == "X" else word for word in command]
    (own / "run" / name).write_bytes(b"{")
    refused(run_cli(words), 1, own / "run", name)


# --- predict and detect ---


def test_inputs_of_another_width(finished, tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((5, 7), np.float32))
    answer = run_cli(["predict", finished / "run", tmp_path / "wide.npy"])
    refused(answer, 1, tmp_path / "wide.npy", "7 features", "trained with 4")
    refused(run_cli(["predict", finished / "run", tmp_path / "no.npy"]), 2, tmp_path / "no.npy", "does not exist")


@pytest.mark.parametrize(
    ("name", "content", "exit_code", "parts"),
    [
        ("y.csv", "y\ncat\ndog\n", 1, ["2 labels for 60 inputs"]),
        ("y.csv", "item,y\n1,cat\n2,dog\n", 1, ["no label for 58 of 60 inputs", "'0'"]),
        ("y.csv", "item,y\n1,cat\n1,dog\n", 1, ["more than one clean label", "'1'"]),
        ("y.csv", "clean\n" + "cat\n" * 60, 2, ["no column 'y' or 'label'", "clean"]),
        ("y.csv", "y,z\n,1\n" + "cat,1\n" * 59, 1, ["no label in row 0"]),
        ("y.npy", "", 2, ["'.npy'", ".csv"]),
        ("", "", 2, ["y.csv does not exist"]),
    ],
)
def test_clean_labels_that_cannot_be_used(finished, tmp_path, name, content, exit_code, parts):
    path = tmp_path / (name or "y.csv")
    if name:
        path.write_text(content)
    answer = run_cli(["predict", finished / "run", finished / "x.npy", "--y", path])
    refused(answer, exit_code, path, *parts)


@pytest.mark.parametrize("command", [["predict", "run", "x.npy"], ["detect", "run"]])
def test_results_that_cannot_be_written(own, tmp_path, command):
    before = contents(own / "run")
    endings = ".csv, .parquet or .json" if command[0] == "detect" else ".csv or .parquet"
    refused(run_cli([*command, "--out", tmp_path / "p.xlsx"]), 2, f"p.xlsx must end in {endings}")
    refused(run_cli([*command, "--out", tmp_path / "no" / "p.csv"]), 1, tmp_path / "no" / "p.csv", "Cannot write")
    assert contents(own / "run") == before


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--cutoff", "abc"], ["--cutoff takes auto, reviewed or a number between 0 and 1", "'abc'"]),
        (["--cutoff", "2"], ["'2'", "between 0 and 1"]),
        (["--cutoff", "nan"], ["nan", "between 0 and 1"]),
        (["--budget", "0"], ["--budget", "0 is not in the range"]),
        (["--budget", "3", "--cutoff", "0.2"], ["cutoff and budget both choose what to list"]),
        (["--per-class", "0"], ["--per-class", "20", "5%", "'0'"]),
        (["--per-class", "2.5"], ["--per-class", "'2.5'"]),
        (["--per-class", "100%"], ["--per-class", "'100%'"]),
        (["--by", "nobody"], ["no annotator 'nobody'"]),
        (["--out", "issues.txt"], [".csv, .parquet or .json"]),
        (["--fail-over", "many"], ["--fail-over", "5% or 0.05", "'many'"]),
        (["--fail-over", "5"], ["--fail-over", "5% or 0.05", "'5'"]),
    ],
)
def test_cutoffs_that_cannot_be(own, options, parts):
    before = contents(own / "run")
    refused(run_cli(["detect", own / "run", *options]), 2, *parts)
    assert contents(own / "run") == before


def test_a_refused_fit_leaves_the_forced_run_in_place(own):
    predictions = read_frame(own / "run" / "predictions.parquet")
    for options in (["--force", "--set", "lr=abc"], ["--force", "--label", "lable"], ["--force", "--set", "width=-3"]):
        refused(fit(own, *options), 2)
    pd.testing.assert_frame_equal(read_frame(own / "run" / "predictions.parquet"), predictions)


def test_batches_too_small_for_batch_normalisation(tmp_path):
    write_pictures(tmp_path, size=1)
    answer = fit(tmp_path, "--batch-size", 1, "--epochs", 1, "--quiet", table="pictures.csv", x="pictures")
    refused(answer, 2, "too small", "--batch-size")
