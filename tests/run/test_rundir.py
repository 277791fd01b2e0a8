import html
import io
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

from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import load_inputs, read_table
from pidual.detect.evaluate import evaluation
from pidual.fit.options import FitOptions

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run; not to be changed."""
    folder = write_crowd(tmp_path_factory.mktemp("finished"))
    options = FitOptions()
    table = read_table(folder / "labels.csv", pi=["annotator", "seconds"])
    return fit_table(table, load_inputs(folder / "x.npy"), folder / "run", options)


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the run that a test may change."""
    return Run.open(shutil.copytree(finished.path, tmp_path / "run"))


def contents(path):
    """Every file of a folder by its path."""
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def times(path):
    """When each file was last written."""
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


def test_a_run_is_read_again(finished):
    run = Run.open(str(finished.path))
    assert run == Run(finished.path)
    assert (run.config.network.name, run.config.network.options) == ("closed_form", {})
    assert run.model.network.options["n_landmarks"] == 60
    assert run.model.classes == ["cat", "dog", "owl"]
    assert len(run.predictions) == 180
    assert run.predictions.pi_columns == ["seconds"]
    assert len(run.items) == 60
    assert len(run.annotators) == 6
    assert run.summary.n_issues == run.predictions.n_issues


def test_files_are_read_once_until_they_change(run):
    before = run.summary
    assert run.summary is before
    assert run.predictions is run.predictions
    assert run.items is run.items
    assert run.annotators is run.annotators
    assert run.history is run.history
    assert {record["epoch"] for record in run.history} >= {0, 1}
    run.forget()
    assert run.summary is not before
    assert run.summary == before


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


def test_what_predicts_is_loaded_once(finished, monkeypatch):
    run = Run.open(finished.path)
    x = np.load(finished.path.parent / "x_test.npy")
    before = run.predict(x)
    monkeypatch.setattr("pidual.fit.load_model.load_method", None)
    assert run.predict(x).equals(before)
    run.forget()
    with pytest.raises(TypeError):
        run.predict(x)


def test_a_run_is_read_and_listed_without_torch(run):
    code = "import sys; from pidual.api.run import Run; assert len(Run.open(sys.argv[1]).detect(budget=3)) == 3\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, run.path], env=environment(), check=True)


@pytest.mark.parametrize(
    "options", [{}, {"cutoff": 0.9}, {"budget": 100}, {"per_class": 5}, {"classes": ["cat"], "budget": 3}]
)
def test_detect_and_report_leave_the_run_as_it_is(run, options):
    run.report()  # names the place of this copy
    before, written = contents(run.path), times(run.path)
    issues = run.detect(**options)
    assert times(run.path) == written
    run.report()
    assert contents(run.path) == before
    stored = run.predictions.frame.iloc[issues["row"]]
    assert (issues["is_label_issue"].to_numpy() == stored["is_label_issue"].to_numpy()).all()


def test_the_command_in_the_report_lists_what_the_report_shows(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run.open(shutil.copytree(finished.path, "anna's runs/first  try & more"))
    page = run.report().read_text()
    words = re.search(r"As a table: <code.*?>(.*?)</code>", page)[1]
    command = shlex.split(html.unescape(re.sub("<.*?>", "", words)))
    assert command == ["pidual", "detect", "anna's runs/first  try & more"]
    code, out, _ = run_cli(command[1:])
    listed, read = run.detect(), pd.read_csv(io.StringIO(out))
    assert (code, list(read)) == (0, list(listed))
    assert list(read)[2:5] == ["text", "given_label", "consensus_label"]
    assert read["row"].tolist() == listed["row"].tolist()
    np.testing.assert_allclose(read["label_quality"], listed["label_quality"], atol=5.1e-5)
    assert not re.search(r",\d(\.\d+)?e-\d", out)


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
    found = evaluation(predictions)
    assert (found.issue_precision, found.issue_recall) == (hits / len(flagged), hits / len(wrong))


def test_a_finished_run_without_a_report_gets_one_on_resuming(run, finished):
    (run.path / "report.html").unlink()
    before = times(run.path)
    folder = finished.path.parent
    table = read_table(folder / "labels.csv", pi=["annotator", "seconds"])
    fit_table(table, load_inputs(folder / "x.npy"), run.path, FitOptions(), resume=True)
    after = times(run.path)
    assert after.pop(run.path / "report.html")
    assert after == before
