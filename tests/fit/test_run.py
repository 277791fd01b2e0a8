"""A table and inputs become a run directory, in one go or in several."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import run_cli, start_cli, write_crowd
from PIL import Image
from stored_state import read_state

from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import AnnotationTable, load_inputs, read_table
from pidual.data.datasets.synthetic import make_crowd
from pidual.data.pi import PIEncoder
from pidual.errors import DataError, DataWarning, RunError, UsageError
from pidual.fit.load_model import load_method
from pidual.fit.options import FitOptions, Provenance
from pidual.fit.prepare import prepare
from pidual.fit.record import describe_pi
from pidual.fit.splits import split_rows
from pidual.learn.engine import Progress
from pidual.learn.engine.callbacks import Callback
from pidual.learn.engine.fit import Interrupted
from pidual.learn.engine.session import CHOSEN_OUTSIDE
from pidual.paper.recipes import IMAGENET, IMAGENET_CODEBASE
from pidual.paper.runs import CodeBaseTraining
from pidual.run.predictions import read_frame

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]

EPOCHS = 120
LONG = f"--pi annotator,seconds --method pi_dual --batch-size 64 --epochs {EPOCHS}".split()
LONG += ["--set", "random_pi=2", "--set", "network.dropout=0.1", "--set", "select=best"]
QUICK = FitOptions("pi_dual", options={"epochs": 3, "width": 16, "random_pi": 2})


@pytest.fixture(autouse=True)
def _no_report(request, monkeypatch):
    """The report takes most of the time of a short run and is tested elsewhere."""
    if "small_disk" not in request.fixturenames:
        monkeypatch.setattr("pidual.api.fit.build_report", lambda run: run.path / "report.html")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    return write_crowd(tmp_path_factory.mktemp("crowd"))


@pytest.fixture(scope="module")
def data(crowd):
    return read_table(crowd / "labels.csv", pi=["annotator", "seconds"]), load_inputs(crowd / "x.npy")


def stop_after(steps):
    """Ask to stop at this step."""
    answers = iter([False] * (steps - 1) + [True])
    return lambda: next(answers)


def same_run(a, b):
    """Whether weights, best weights and all that was said about the labels are equal bit for bit."""
    for name in ("model.safetensors", "model-last.safetensors", "items.parquet", "annotators.parquet"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    pd.testing.assert_frame_equal(
        *(read_frame(run / "predictions.parquet") for run in (a, b)), check_exact=True, check_categorical=True
    )
    one, other = ([json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (a, b))
    assert [record | {"seconds": 0} for record in one] == [record | {"seconds": 0} for record in other]
    return True


# --- in one go ---


def test_the_same_seed_gives_the_same_run(data, tmp_path):
    a, b, c = (
        fit_table(*data, tmp_path / name, replace(QUICK, seed=seed)).path
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert same_run(a, b)
    assert (a / "model.safetensors").read_bytes() != (c / "model.safetensors").read_bytes()


def test_the_model_of_a_run_predicts_as_it_did(data, tmp_path):
    table, inputs = data
    run = fit_table(table, inputs, tmp_path / "run", QUICK)
    method, arrays = load_method(run)
    assert not method.training
    assert arrays == {}
    frame = run.predict(inputs.array)
    rows = run.predictions.frame.drop_duplicates("item")
    np.testing.assert_allclose(frame["predicted_probability"], rows["predicted_probability"], rtol=1e-5)


def test_the_code_bases_protocol_for_imagenet_on_images_of_any_size(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for name in range(20):
        pixels = rng.integers(0, 256, (*rng.integers(20, 60, 2), 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{name:02}.png")
    frame = pd.DataFrame(
        {"item": [f"{i:02}.png" for i in range(20)], "label": [0, 1] * 10, "annotator": [1, 1, 2, 2] * 5}
    )
    table = AnnotationTable.from_frame(frame, keep_ids=True)
    inputs = load_inputs(tmp_path / "images", image_size=16, centre_crop=True, max_bytes=0)
    training = {**IMAGENET, **IMAGENET_CODEBASE} | {"epochs": 2, "batch_size": 8, "loader_workers": 0}
    options = FitOptions(
        setting="paper",
        training=CodeBaseTraining,
        options={**training, "width": 8, "pi_weight_decay": True, "network.width": 4, "network.statistics": "unit"},
        network="small_cnn",
    )
    run = fit_table(table, inputs, tmp_path / "run", options)
    method, _ = load_method(run)
    assert method.f.standardize.std.tolist() == [255] * 3
    predicted = run.predict(tmp_path / "images")
    assert predicted["item"].tolist() == frame["item"].tolist()
    expected = run.predictions.frame["predicted_probability"]
    np.testing.assert_allclose(predicted["predicted_probability"], expected, rtol=1e-5)


def test_labels_that_are_numbers_stay_numbers(data, tmp_path):
    table, inputs = data
    frame = table.frame.assign(label=table.label_codes * 10)[["item", "label", "annotator"]]
    run = fit_table(AnnotationTable.from_frame(frame), inputs, tmp_path / "run", QUICK)
    assert run.model.classes == [0, 10, 20]
    assert run.predict(inputs.array)["predicted_label"].isin([0, 10, 20]).all()
    assert run.predictions.frame["given_label"].tolist() == (table.label_codes * 10).tolist()


def test_clean_labels_do_not_change_the_fit(data, tmp_path):
    table, inputs = data
    blind = AnnotationTable(table.frame.drop(columns="y"), table.source, table.pi_columns)
    with_y, without = fit_table(table, inputs, tmp_path / "a", QUICK), fit_table(blind, inputs, tmp_path / "b", QUICK)
    assert without.summary.evaluation is None
    assert (with_y.path / "model.safetensors").read_bytes() == (without.path / "model.safetensors").read_bytes()


def test_pi_that_points_to_single_rows_is_told(tmp_path):
    crowd = make_crowd(
        n_items=93, n_annotators=6, answers_per_item=5, n_classes=5, noise=0.67, spammer_share=0.4, seed=3
    )
    rng = np.random.default_rng(0)
    noise = {f"number_{k}": rng.normal(size=len(crowd.frame)) for k in range(6)}
    crowd.frame.assign(**noise).to_csv(tmp_path / "labels.csv", index=False)
    np.save(tmp_path / "x.npy", crowd.x)
    fit = ["fit", tmp_path / "labels.csv", "--x", tmp_path / "x.npy", "--method", "pi_dual", "--epochs", 40]
    fit += ["--quiet", "--pi"]
    told = "Labels were memorised: the noise network knows"
    code, _, err = run_cli([*fit, ",".join(["annotator", "seconds", *noise]), "--out", tmp_path / "all"])
    assert (code, told in err) == (0, True)
    assert told in Run(tmp_path / "all").summary.warnings[-1]


def test_a_gate_that_ends_closed_is_named(data, tmp_path, monkeypatch):
    table, inputs = data
    words = "PI explained hardly any label: the mean gate ended at 0.0"
    for gate_bias, closed in ((-8.0, True), (0.0, False)):
        options = replace(QUICK, options={**QUICK.options, "gate_bias": gate_bias, "lr": 1e-3})
        run = fit_table(table, inputs, tmp_path / str(gate_bias), options)
        assert any(text.startswith(words) for text in run.summary.warnings) == closed
        assert any("If you expect more than 0.0% wrong labels, try" in each for each in run.summary.warnings) == closed
    monkeypatch.setattr("pidual.fit.judge.CLOSED_GATE", 2.0)  # the default's gate is another one, without random PI
    without = AnnotationTable.from_frame(table.frame[["item", "label"]], pi=[])
    options = replace(QUICK, options={**QUICK.options, "random_pi": 0})
    warned = " ".join(fit_table(without, inputs, tmp_path / "without", options).summary.warnings)
    assert "There is no privileged information" in warned
    assert "hardly any label" not in warned
    default = fit_table(table, inputs, tmp_path / "default", FitOptions())
    assert default.predictions.gate.mean() < 2
    assert not any("hardly any label" in text for text in default.summary.warnings)


# --- splits ---


def splits(item, label=None, split=None, *, fraction=0.25, seed=0, at_most=None):
    label = label if label is not None else [0, 1] * (len(item) // 2)
    columns = {"item": item, "label": label} | ({} if split is None else {"split": split})
    return split_rows(AnnotationTable.from_frame(pd.DataFrame(columns)), fraction, seed, at_most)


def test_all_seeds_can_have_one_split(data):
    def held_out(seed, split_seed=None):
        return prepare(*data, replace(QUICK, seed=seed, split_seed=split_seed)).split

    assert (held_out(0) != held_out(1)).any()
    assert (held_out(0, split_seed=1) == held_out(1)).all()
    assert (held_out(5, split_seed=1) == held_out(1)).all()


def test_validation_rows_are_whole_items():
    item = np.repeat(np.arange(40), 4)
    split = splits(item)
    assert sorted(set(split)) == [0, 1]
    held_out = set(item[split == 1])
    assert len(held_out) == 10
    assert held_out.isdisjoint(item[split == 0])
    assert (splits(item, seed=0) == split).all()
    assert (splits(item, seed=1) != split).any()
    assert (splits(item, fraction=0) == 0).all()
    assert len(set(item[splits(item, at_most=3) == 1])) == 3


def test_validation_comes_from_training_rows_only():
    item = np.repeat(np.arange(40), 2)
    given = np.where(item < 8, "test", "train")
    split = splits(item, split=given)
    assert (split == 2).tolist() == (given == "test").tolist()
    assert (split == 1).sum() == 16
    own = np.where(item < 8, "valid", "train")
    assert (splits(item, split=own) == 1).tolist() == (own == "valid").tolist()


def test_no_class_loses_all_its_training_rows():
    label = ["rare"] * 2 + ["cat", "dog"] * 19
    for seed in range(10):
        split = splits(np.repeat(np.arange(20), 2), label, fraction=0.5, seed=seed)
        assert set(np.array(label)[split == 0]) == {"rare", "cat", "dog"}


def split_warnings(item, label, split, weight=None):
    table = AnnotationTable.from_frame(pd.DataFrame({"item": item, "label": label, "split": split}))
    inputs = load_inputs(pd.DataFrame({"item": sorted(set(item)), "a": 1.0}))
    return prepare(table, inputs, FitOptions(method="ce"), sample_weight=weight).warnings


def test_items_in_two_splits_are_a_warning():
    item, label = [7, 7, 8, 8, 9, 9], ["a", "b"] * 3
    given = ["train", "test", "train", "train", "valid", "train"]
    assert split_warnings(item, label, given) == [
        "2 of the 3 items of table have rows with split 'train' and others with 'valid' or 'test', such as 7; "
        "put all rows of an item in one split."
    ]
    assert split_warnings(item, label, given, np.ones(6)) == []
    assert split_warnings(item, label, ["train"] * 4 + ["valid", "test"]) == []


def test_classes_without_a_training_row_are_a_warning():
    label, given = ["a", "b", "c", "c", "a", "d", "b", "d"], ["train"] * 2 + ["test"] * 2 + ["train", "valid"] * 2
    assert split_warnings(range(8), label, given) == [
        "table has no row with split 'train' and label 'c', 'd', which therefore cannot be learned; "
        "move rows to 'train', or remove these labels."
    ]


def test_splits_that_cannot_be():
    with pytest.raises(UsageError, match="below 1, not 1"):
        splits([0, 0, 1, 1], fraction=1.0)
    with pytest.raises(DataError, match="no row with split 'train'"):
        splits([0, 0, 1, 1], split=["test"] * 4)


# --- in several goes ---


def test_a_run_stopped_anywhere_continues_to_the_same_bits(data, tmp_path):
    options = replace(QUICK, options={**QUICK.options, "epochs": 3, "select": "best"})
    whole = fit_table(*data, tmp_path / "whole", options)
    for steps in (1, 2, 3, 5):
        out = tmp_path / f"stopped{steps}"
        with pytest.raises(Interrupted):
            fit_table(*data, out, options, stop=stop_after(steps))
        with pytest.raises(RunError, match="not finished"):
            Run.open(out)
        assert same_run(fit_table(*data, out, options, resume=True).path, whole.path)


class Threads(Progress):
    """Sees with how many threads each step is done, and every note."""

    def __init__(self):
        self.seen, self.notes = set(), []

    def step(self, epoch, step):
        self.seen.add(torch.get_num_threads())

    def note(self, text):
        self.notes.append(text)


def test_a_callback_ends_training_and_adds_to_the_history(data, tmp_path):
    class Norm(Callback):
        def on_epoch_end(self, trainer, record):
            record["norm"] = sum(weight.norm().item() for weight in trainer.method.f.parameters())
            if record["epoch"] == 0:
                trainer.finish()

    run = fit_table(*data, tmp_path / "run", QUICK, callbacks=[Norm()])
    assert [record["epoch"] for record in run.history] == [0]
    assert run.history[0]["norm"] > 0
    assert run.summary.selected_epoch == 0


@pytest.fixture
def two_cores(monkeypatch):
    """Two cores, of which nobody has said how many to use."""
    for name in CHOSEN_OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_a_run_goes_on_with_the_threads_it_was_started_with(data, tmp_path):
    small, asked = Threads(), Threads()
    with pytest.raises(Interrupted):
        fit_table(*data, tmp_path / "one", QUICK, progress=small, stop=stop_after(2))
    with pytest.raises(Interrupted):
        fit_table(*data, tmp_path / "two", replace(QUICK, threads=2), progress=asked, stop=stop_after(2))
    assert (small.seen, asked.seen) == ({1}, {2})
    assert json.loads((tmp_path / "two" / "config.json").read_text())["hardware"]["threads"] == 2
    again, other = Threads(), Threads()
    shutil.copytree(tmp_path / "two", tmp_path / "other")
    run = fit_table(*data, tmp_path / "two", QUICK, progress=again, resume=True)
    assert (again.seen, again.notes, run.summary.warnings) == ({2}, [], [])
    assert same_run(run.path, fit_table(*data, tmp_path / "whole", replace(QUICK, threads=2)).path)
    fit_table(*data, tmp_path / "other", replace(QUICK, threads=1), progress=other, resume=True)
    assert other.seen == {1}
    assert other.notes == [
        "Warning: The run was started with 2 threads (now 1); its numbers may differ a little from those of a run that "
        "was not interrupted."
    ]


def test_going_on_with_another_version_is_a_warning(data, tmp_path):
    with pytest.raises(Interrupted):
        fit_table(*data, tmp_path / "run", QUICK, stop=stop_after(2))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    now = config["versions"]["torch"]
    config["versions"]["torch"], config["hardware"]["threads"] = "2.0.1", 10_000
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    (warning,) = fit_table(*data, tmp_path / "run", QUICK, resume=True).summary.warnings
    assert warning.startswith(f"The run was started with torch 2.0.1 (now {now}), 10000 threads (now 1); its numbers")


def test_resuming_a_finished_run_changes_nothing(data, tmp_path):
    run = fit_table(*data, tmp_path / "run", QUICK)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    again = fit_table(*data, tmp_path / "run", QUICK, resume=True)
    assert again.summary == run.summary
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before
    with pytest.raises(RunError, match="epochs = 3, and now it is 4"):
        fit_table(*data, tmp_path / "run", replace(QUICK, options={**QUICK.options, "epochs": 4}), resume=True)


def test_resuming_with_other_pi_names_the_columns(data, crowd, tmp_path):
    fit_table(*data, tmp_path / "run", QUICK)
    other = read_table(crowd / "labels.csv", pi=["seconds"])
    with pytest.raises(RunError, match=r"columns \['annotator', 'seconds'\], and now they are \['seconds'\]; resume"):
        fit_table(other, data[1], tmp_path / "run", QUICK, resume=True)


@pytest.mark.parametrize("force", [False, True])
def test_a_config_that_cannot_be_written_leaves_everything_as_it_was(data, tmp_path, force):
    if force:
        fit_table(*data, tmp_path / "run", QUICK)
    before = sorted(tmp_path.rglob("*"))
    for place in (float("inf"), "\udcff", object()):
        with pytest.raises(
            UsageError, match=r"config\.json cannot hold this run|source cannot be kept: x must be text"
        ):
            fit_table(*data, tmp_path / "run", QUICK, provenance=Provenance({"x": place}), force=force)
    with pytest.raises(UsageError, match="source cannot be kept: place is unknown"):
        fit_table(*data, tmp_path / "run", QUICK, provenance=Provenance({"place": "here"}), force=force)
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_written_before_all_is_checked(data, tmp_path):
    with pytest.raises(UsageError, match="no option 'epoch' of training or of the method 'pi_dual'; epochs is one"):
        fit_table(*data, tmp_path / "run", FitOptions("pi_dual", options={"epoch": 3}))
    with pytest.raises(
        UsageError, match=r"There is no 'epochs' to set: .* worked out, not trained\. Leave it out, or name a network"
    ):
        fit_table(*data, tmp_path / "run", FitOptions(options={"epochs": 3}))
    with pytest.raises(UsageError, match="There is nothing to call callbacks in"):
        fit_table(*data, tmp_path / "run", callbacks=[Callback()])
    assert not (tmp_path / "run").exists()


def test_prepare_says_which_item_an_annotation_is_about(data):
    table, inputs = data
    odd = AnnotationTable.from_frame(table.frame[table.frame["item"].astype(int) % 2 == 1], pi=["annotator"])
    job = prepare(odd, inputs, QUICK)
    assert job.rows.x_row.tolist() == odd.frame["item"].tolist()
    assert job.rows.item.tolist() == odd.item_codes.tolist() != job.rows.x_row.tolist()
    assert job.rows.fold.tolist() == np.where(job.split == 0, 0, -1).tolist()
    assert job.spec.n_items == odd.frame["item"][job.split == 0].nunique() == len(job.select(job.train).groups)
    assert job.spec.n_items < odd.frame["item"].nunique()


# --- signals ---


def wait_for(condition, process, seconds=60):
    """Wait until a condition holds, as long as the process is running."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def long_fit(crowd, out, *options):
    return ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--out", out, *LONG, *options]


@pytest.fixture(scope="module")
def whole_run(crowd, tmp_path_factory):
    """The long run without a break."""
    out = tmp_path_factory.mktemp("whole") / "run"
    code, _, err = run_cli(long_fit(crowd, out))
    assert code == 0, err
    return out


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_the_run_in_order(crowd, whole_run, tmp_path, number):
    out = tmp_path / "run"
    process = start_cli(long_fit(crowd, out))
    assert process.stderr.readline() == f"Training: {EPOCHS} epochs of 2 steps.\n"
    assert process.stderr.readline().startswith("epoch 1/")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    last = stderr.splitlines()[-1]
    assert last.startswith("Interrupted: stopped in epoch ")
    assert last.endswith("continue with --resume.")
    assert "Traceback" not in stderr
    position = read_state(out / "state" / "state.safetensors")[1]["position"]
    assert 0 < position["epoch"] < EPOCHS
    code, _, err = run_cli(long_fit(crowd, out, "--resume"))
    assert code == 0, err
    assert same_run(out, whole_run)


def test_a_killed_run_continues_to_the_same_bits(crowd, whole_run, tmp_path):
    out = tmp_path / "run"
    process = start_cli(long_fit(crowd, out, "--save-every", "0.1"))
    wait_for((out / "state" / "state.safetensors").exists, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    code, _, err = run_cli(long_fit(crowd, out, "--resume"))
    assert code == 0, err
    assert "done before" in err
    assert same_run(out, whole_run)


# --- a full disk ---


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def fill(place, leave):
    """Fill a disk except for so many bytes."""
    free = os.statvfs(place)
    (place / "ballast").write_bytes(b"\0" * max(0, free.f_bavail * free.f_bsize - leave))


def sizes(run):
    """Bytes each file of a run takes on a disk with blocks of 4 kB."""
    return {path.name: -(-path.stat().st_size // 4096) * 4096 for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("full_at", ["config.json", "second state", "report.html"])
def test_a_full_disk_is_said_and_the_run_can_go_on(crowd, small_disk, tmp_path, full_at):
    options = ["--pi", "annotator,seconds", "--method", "pi_dual", "--epochs", "4", "--save-every", "0", "--quiet"]
    options += ["--set", "width=64", "--set", "network.width=64"]
    args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", *options]
    assert run_cli([*args, "--out", tmp_path / "whole"])[0] == 0
    need = sizes(tmp_path / "whole")
    state, report = need["state.safetensors"], need["report.html"]
    room = {
        "config.json": 0,
        "second state": state * 3 // 2,
        "report.html": sum(need.values()) - report // 2,
    }
    fill(small_disk, room[full_at])
    code, out, err = run_cli([*args, "--out", small_disk / "run"])
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")
    assert str(small_disk / "run") in err
    assert "No space left on device" in err
    assert "--resume" in err or full_at == "config.json"
    (small_disk / "ballast").unlink()
    assert not list(small_disk.rglob("*.tmp"))
    code, _, err = run_cli([*args, "--out", small_disk / "run", "--resume"])
    assert code == 0, err
    assert same_run(small_disk / "run", tmp_path / "whole")


def test_pi_is_described_in_its_own_units():
    frame = pd.DataFrame(
        {
            "label": [0, 1] * 3,
            "seconds": ["1", "2", "oops", "4", "300", None],
            "at": pd.date_range("2024-01-01", periods=6, freq="D"),
            "score": [1.0, 2, 3, 1, 2, 3],
            "tool": ["pen", "pen", "mouse", None, "pen", "mouse"],
        }
    )
    table = AnnotationTable.from_frame(frame, pi=["seconds", "at", "score", "tool"])
    with pytest.warns(DataWarning, match="'oops'"):
        encoder = PIEncoder({"seconds": "duration"}).fit(table)
    seconds, at, score, tool = (describe_pi(column, table.frame[column.name]) for column in encoder.columns_)
    assert seconds.to_json() == {"name": "seconds", "kind": "duration", "n_missing": 2, "median": 3.0}
    assert at.to_json() == {"name": "at", "kind": "number", "n_missing": 0} | {
        "first": "2024-01-01 00:00:00",
        "last": "2024-01-06 00:00:00",
    }
    assert (score.mean, score.n_missing) == (2.0, 0)
    assert tool.to_json() == {"name": "tool", "kind": "category", "n_missing": 1, "n_categories": 3}
