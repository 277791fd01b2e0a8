"""What tables, inputs and runs show of themselves: a line, and in notebooks a few numbers, with all text escaped."""

import numpy as np
import pandas as pd
import pytest

import pidual
from pidual import AnnotationTable, FitOptions, Inputs, Run, RunError, UsageError, fit_table, load_dataset, load_inputs
from pidual.data.datasets.synthetic import make_crowd

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def crowd():
    return make_crowd(60, 5, seed=0)


def test_table(crowd):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator", "seconds"], keep_ids=True)
    about = f"{len(table)} annotations of 60 items, {len(table.classes)} classes, 5 annotators"
    assert repr(table) == f"AnnotationTable({about}; PI: annotator, seconds)"
    assert table._repr_html_().startswith("<p>AnnotationTable(")
    hostile = AnnotationTable.from_frame(pd.DataFrame({"item": list("abcd"), "label": ["<script>x", "ok"] * 2}), pi=[])
    assert "<script>" not in hostile._repr_html_()
    assert repr(hostile) == "AnnotationTable(4 annotations of 4 items, 2 classes; PI: none)"


def test_inputs():
    assert repr(Inputs.from_array(np.zeros((7, 3), np.float32))) == "Inputs(7 rows of shape 3, float32, kind 'array')"
    assert "7 rows of shape 3 x 8 x 8, uint8" in Inputs.from_array(np.zeros((7, 3, 8, 8), np.uint8))._repr_html_()


def test_run(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    run = fit_table(
        table, load_inputs(crowd.x.astype(np.float32)), tmp_path / "<b>", FitOptions("ce", options={"epochs": 1})
    )
    status = run.summary.verdict.status
    assert repr(run) == f"Run({str(tmp_path / '<b>')!r}, {status})"
    assert status != "ok"  # one epoch is not enough
    shown = run._repr_html_()
    assert "<b>" not in shown
    assert f"<td>{status}</td>" in shown
    assert repr(Run("nowhere")) == "Run('nowhere', not finished)"
    assert f"<td>{run.summary.n_issues:,}</td>" in shown
    (run.path / "summary.json").write_text("{}")
    assert repr(Run(run.path)).endswith(", not readable)")


def test_datasets(crowd):
    wrong = f"{crowd.noise_rate:.1%} wrong"
    assert repr(crowd) == f"Crowd({len(crowd.frame)} annotations of 60 items by 5 annotators, {wrong})"
    digits = repr(load_dataset("digits_pi:low"))
    assert digits.startswith("DigitsPI('digits_pi:low', 1,")
    assert digits.endswith("; PI: annotator, confidence, annotator_accuracy, annotator_size)")
    assert len(digits) < 160


def test_judgement(crowd):
    judged = pidual.judge(crowd.frame[["item", "label", "annotator"]])
    issues = judged.predictions["is_label_issue"].sum()
    status = judged.summary.verdict.status
    about = "" if status == "ok" else f", {status}"
    assert repr(judged) == f"Judgement({len(crowd.frame)} annotations of 60 items, {issues} issues{about})"


def test_a_run_is_named_by_text_and_has_two_sets_of_weights(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    inputs = load_inputs(crowd.x.astype(np.float32))
    fit_table(table, inputs, tmp_path / "run", FitOptions("ce", options={"epochs": 1}))
    run = Run(str(tmp_path / "run"))
    assert run.config.method == "ce"
    with pytest.raises(UsageError, match="weights must be one of selected, last, not 'best'"):
        run.load("best")
    with pytest.raises(UsageError, match="The cut-off 'x' is not between 0 and 1"):
        run.detect(cutoff="x")


def test_errors_on_directories_speak_python_too(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    inputs, options = load_inputs(crowd.x.astype(np.float32)), FitOptions("ce", options={"epochs": 1})
    fit_table(table, inputs, tmp_path, options)
    with pytest.raises(RunError, match=r"already holds a run; .*\(resume=True or force=True in Python\)"):
        fit_table(table, inputs, tmp_path, options)
    with pytest.raises(UsageError, match=r"force=True in Python.*resume=True"):
        fit_table(table, inputs, tmp_path, options, force=True, resume=True)


def test_arguments_of_another_kind_are_refused(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    with pytest.raises(UsageError, match="table must be an AnnotationTable, not DataFrame; make it with read_table"):
        fit_table(crowd.frame, load_inputs(crowd.x), tmp_path / "run")
    with pytest.raises(UsageError, match="inputs must be Inputs, not ndarray; make them with load_inputs"):
        fit_table(table, crowd.x, tmp_path / "run")
    with pytest.raises(UsageError, match=r"callbacks must be a list of objects of pidual\.Callback, not \["):
        fit_table(table, load_inputs(crowd.x), tmp_path / "run", callbacks=[3])
    assert not (tmp_path / "run").exists()


def test_the_package_lists_its_public_names_only():
    assert dir(pidual) == sorted([*pidual.__all__, "__version__"])
