import html
import json
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import environment, run_cli, write_crowd

from pidual.data import load_inputs, read_table
from pidual.errors import RunError, UsageError
from pidual.run import FitOptions, Run, fit_table
from pidual.run.evaluate import evaluate_issues
from pidual.schemas import sealed


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run; not to be changed."""
    folder = write_crowd(tmp_path_factory.mktemp("finished"))
    options = FitOptions(options={"epochs": 4})
    table = read_table(folder / "labels.csv", pi=["annotator", "seconds"])
    return fit_table(table, load_inputs(folder / "x.npy"), folder / "run", options)


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the run that a test may change."""
    return Run.open(shutil.copytree(finished.path, tmp_path / "run"))


def times(path):
    """When each file was last written."""
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


def test_a_run_is_read_again(finished):
    run = Run.open(str(finished.path))
    assert run == Run(finished.path)
    assert run.config["training"]["epochs"] == 4
    assert run.model["classes"] == ["cat", "dog", "owl"]
    assert len(run.predictions) == 180
    assert run.predictions.pi_columns == ["seconds"]
    assert len(run.items) == 60
    assert len(run.annotators) == 6
    assert run.summary["n_issues"] == run.predictions.n_issues


def test_files_are_read_once_until_they_change(run):
    before = run.summary
    assert run.summary is before
    assert run.predictions is run.predictions
    assert run.items is run.items
    assert run.annotators is run.annotators
    assert run.history is run.history
    assert {record["epoch"] for record in run.history} == {0, 1, 2, 3}
    run.detect(budget=3)
    assert (run.summary["n_issues"], run.predictions.n_issues, run.annotators["num_issues"].sum()) == (3, 3, 3)
    assert before["n_issues"] != 3


def test_a_run_predicts_and_gives_its_method(finished):
    x = np.load(finished.path.parent / "x_test.npy")
    run = Run.open(finished.path)
    assert repr(run) == f"Run('{finished.path}')"
    found = run.predict(x)
    assert list(found) == ["item", "predicted_label", "predicted_probability", "p_cat", "p_dog", "p_owl"]
    last = run.predict(finished.path.parent / "x_test.npy", weights="last", accelerator="cpu")
    assert len(found) == len(last) == len(x)
    method = run.load()
    assert not method.training
    logits = method.logits(torch.from_numpy(x).float())
    assert (np.array(["cat", "dog", "owl"])[logits.argmax(1)] == found["predicted_label"]).all()


def test_a_run_is_read_and_marked_without_torch(run):
    code = "import sys; from pidual.run import Run; Run.open(sys.argv[1]).detect(budget=3)\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, run.path], env=environment(), check=True)
    assert run.summary["n_issues"] == 3


def test_what_is_no_finished_run(run, tmp_path):
    with pytest.raises(RunError, match=r"nothing is not a run directory.*pidual fit"):
        Run.open(tmp_path / "nothing")
    (run.path / "summary.json").unlink()
    with pytest.raises(RunError, match=r"not finished.*--resume"):
        Run.open(run.path)


def test_a_damaged_file_is_named(run):
    (run.path / "model.json").write_text("{")
    with pytest.raises(RunError, match=r"model\.json is not the file.*damaged"):
        _ = run.model
    (run.path / "predictions.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match=r"predictions\.parquet"):
        _ = run.predictions


def test_detect_marks_all_files_alike(run):
    issues = run.detect(budget=9)
    assert len(issues) == 9
    assert issues["label_quality"].is_monotonic_increasing
    predictions = run.predictions
    assert set(np.flatnonzero(predictions.is_issue)) == set(issues["row"])
    assert (predictions.frame["reason"][~predictions.is_issue] == "").all()
    assert (predictions.frame["reason"][predictions.is_issue] != "").all()
    assert run.annotators["num_issues"].sum() == 9
    assert run.summary["n_issues"] == 9
    assert run.summary["cutoff"]["kind"] == "budget"
    assert run.summary["selected_epoch"] == 3  # the rest of the summary stays


def test_detect_goes_back_to_the_first_cutoff(run, finished):
    run.detect(cutoff=0.9)
    run.detect()
    pd.testing.assert_frame_equal(run.predictions.frame, finished.predictions.frame)
    assert run.summary == finished.summary


def test_detect_with_the_same_cutoff_writes_nothing(run):
    before = times(run.path)
    run.detect()
    assert times(run.path) == before


@pytest.mark.parametrize("options", [{"cutoff": 0.0}, {"cutoff": 0.1}, {"budget": 100}])
def test_detect_evaluates_the_issues_it_marks(run, finished, options):
    issues = run.detect(**options)
    frame = run.predictions.frame
    n_wrong = sum(given != y for given, y in zip(frame["given_label"], frame["y"], strict=True))
    hits = sum(given != y for given, y in zip(issues["given_label"], issues["y"], strict=True))
    expected = {"issue_precision": hits / len(issues) if len(issues) else None, "issue_recall": hits / n_wrong}
    assert run.summary["evaluation"] == finished.summary["evaluation"] | expected
    assert run.summary["evaluation"] != finished.summary["evaluation"]
    page = (run.path / "report.html").read_text()
    assert ("Precision" in page) == (len(issues) > 0)
    recall = re.search(r"Recall</dt>\s*<dd>\s*<strong>(.*?)%", page)[1]
    assert float(recall) == round(100 * hits / n_wrong, 1)


def test_detect_puts_an_outdated_evaluation_right(run, finished):
    summary = run.summary
    summary["evaluation"]["issue_recall"] = 0.123
    (run.path / "summary.json").write_text(json.dumps(sealed(summary)))
    run.detect()
    assert run.summary == finished.summary


def test_issues_are_evaluated_where_the_truth_is_known_and_not_on_test_rows(finished):
    predictions = finished.predictions
    frame = predictions.frame
    frame.loc[:59, "split"] = "test"
    frame.loc[40:99, "y"] = None
    rows = frame.to_dict("records")[100:]
    flagged = {row["row"] for row in rows if row["is_label_issue"]}
    wrong = {row["row"] for row in rows if row["given_label"] != row["y"]}
    hits = len(flagged & wrong)
    assert hits
    expected = {"issue_precision": hits / len(flagged), "issue_recall": hits / len(wrong)}
    assert evaluate_issues(predictions) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, []),
        ({"budget": 7}, ["--budget", "7"]),
        ({"cutoff": 0.3}, ["--cutoff", "0.3"]),
        ({"cutoff": 1e-5 + 0.1 + 0.2}, ["--cutoff", "0.30001"]),
    ],
)
def test_the_command_in_the_report_lists_what_the_report_shows(finished, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    run = Run.open(shutil.copytree(finished.path, "anna's runs/first  try & more"))
    issues = run.detect(**options)
    page = run.report().read_text()
    command = shlex.split(html.unescape(re.search("<code>(.*?)</code>", page)[1]))
    assert command == ["pidual", "detect", "anna's runs/first  try & more", *words]
    before = times(run.path)
    assert run_cli(command[1:]) == (0, issues.to_csv(index=False), "")
    assert times(run.path) == before


def test_a_cutoff_that_cannot_be_leaves_the_run_alone(run, finished):
    with pytest.raises(UsageError, match="between 0 and 1"):
        run.detect(cutoff=1.5)
    assert run.summary == finished.summary


def test_detect_repairs_a_summary_without_cutoff(run):
    summary = run.summary
    del summary["cutoff"]
    (run.path / "summary.json").write_text(json.dumps(sealed(summary)))
    run.detect()
    assert run.summary["cutoff"]["kind"] == "auto"


def test_report_without_thumbnails(run):
    (run.path / "report.html").unlink()
    (run.path / "thumbnails.parquet").unlink()
    assert run.report() == run.path / "report.html"
    assert run.report().exists()


def test_a_finished_run_without_a_report_gets_one_on_resuming(run, finished):
    (run.path / "report.html").unlink()
    before = times(run.path)
    folder = finished.path.parent
    table = read_table(folder / "labels.csv", pi=["annotator", "seconds"])
    fit_table(table, load_inputs(folder / "x.npy"), run.path, FitOptions(options={"epochs": 4}), resume=True)
    after = times(run.path)
    assert after.pop(run.path / "report.html")
    assert after == before
