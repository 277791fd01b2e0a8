"""Any table, inputs and options: a result that holds together, or one sentence; never a traceback.

Forty cases are read by the readers alone, which is where most of what may go wrong goes wrong, and eight go
through every command. Of those, one draws figures; no figure holds text from the data.
"""

import csv
import html.parser
import io
import itertools
import json
import re
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from command_line import run_cli, write_key
from fuzzing import cases
from hypothesis import HealthCheck, Phase, given, settings

from pidual.data import load_inputs, read_table
from pidual.errors import DataWarning, PidualError
from pidual.run.predictions import read_frame

pytestmark = [pytest.mark.runs_first, pytest.mark.draws_figures, pytest.mark.shapes_unchecked]

# Without shrinking: a case that fails is printed as it is, in seconds; to shrink it, add Phase.shrink.
OFTEN = {"deadline": None, "database": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}
COUNT = itertools.count()


@settings(max_examples=40, derandomize=True, **OFTEN)
@given(cases())
def test_forty_cases_of_the_readers(case):
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        case.write(Path(name))
        table = read(lambda: read_table(Path(name) / case.table, keep_ids=True))
        assert table is None or case.rows is None or len(table) <= case.rows
        inputs = read(lambda: load_inputs(Path(name) / case.x)) if case.x else None
        assert inputs is None or case.inputs is None or len(inputs) == case.inputs


def read(reader):
    """What a reader gives, or None where it refuses it in one sentence."""
    try:
        return reader()
    except PidualError as error:
        said = str(error)
    assert "\n" not in said
    assert said.endswith((".", "?")), said
    assert len(said) < 2_000
    return None


@settings(max_examples=8, derandomize=True, **OFTEN)
@given(cases())
def test_eight_cases(case):
    figures = mock.patch("pidual.show.report.figures._svg", return_value="<svg></svg>")
    if next(COUNT) % 10:
        with figures:
            check(case)
    else:
        check(case)


def check(case):
    """Fit, list issues, build the report again and predict; what each says must be right."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case.write(folder)
        write_key(folder)
        words = [folder / word if word == case.x else word for word in case.words]
        answer = run_cli(["fit", folder / case.table, "--out", folder / "run", *words])
        if not accepted(answer):
            return
        n = check_run(folder / "run", case.rows)
        if "--json" in words:
            issues = read_frame(folder / "run" / "predictions.parquet")["is_label_issue"]
            assert json.loads(answer[1])["n_issues"] == issues.sum()
        words = [folder / word if word.endswith(ENDINGS) else word for word in case.detect]
        detected = run_cli(["detect", folder / "run", *words])
        if accepted(detected):
            check_issues(folder, case.detect, detected[1], n)
        assert accepted(run_cli(["report", folder / "run"]))
        check_run(folder / "run", case.rows)
        predicted = run_cli(["predict", folder / "run", folder / (case.x or case.table)])
        if accepted(predicted):
            check_predictions(predicted[1], case.inputs)


ENDINGS = ("o.csv", "o.parquet", "o.txt")


def accepted(answer):
    """Whether a command succeeded; if not, it must have said one sentence."""
    code, out, err = answer
    assert code in (0, 1, 2, 3)
    assert "Traceback" not in err
    lines = err.splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    if code in (0, 3):
        assert not errors
        return True
    assert len(errors) == 1, err
    assert lines[-1] == errors[0]
    assert len(errors[0]) < 2_000
    assert errors[0].endswith((".", "?")) or lines[0].startswith("Usage: "), err  # some of click's own end without
    assert all(line.startswith(("Warning: ", "Usage: ", "Try ", "Error: ")) or not line for line in lines), err
    assert out == ""
    return False


def check_run(run, rows):
    """Check that the files of a run agree, and return its number of rows."""
    summary, config = (json.loads((run / name).read_text()) for name in ("summary.json", "config.json"))
    predictions = read_frame(run / "predictions.parquet")
    n = config["data"]["n_rows"]
    assert len(predictions) == n
    found = [re.search(r": ([\d,]+) rows? without a label", text) for text in summary["warnings"]]
    skipped = sum(int(match[1].replace(",", "")) for match in found if match)
    assert rows is None or n + skipped == rows
    assert predictions["row"].tolist() == list(range(n))
    for name in ("label_quality", "predicted_probability", *({"gate"} & {*predictions})):
        assert predictions[name].between(0, 1).all()
    assert predictions["is_label_issue"].sum() == summary["n_issues"]
    assert (predictions.loc[predictions["is_label_issue"], "reason"] != "").all()
    assert len(read_frame(run / "items.parquet")) == config["data"]["n_items"]
    page = Page()
    page.feed((run / "report.html").read_text())
    page.close()
    assert page.open == []
    assert f"{n:,}" in page.text
    return n


def check_issues(folder, options, out, n):
    """Check what `detect` printed or wrote against the run."""
    predictions = read_frame(folder / "run" / "predictions.parquet")
    issues = int(predictions["is_label_issue"].sum())
    if "--json" in options:
        found = json.loads(out)
        assert (found["n_issues"], found["n_rows"]) == (issues, n)
        listed = found["n_listed"]
    elif "--out" not in options:
        header, *rows = csv.reader(io.StringIO(out, newline=""))
        listed = len(rows)
        assert all(len(row) == len(header) for row in rows)
    else:
        return
    if "--budget" in options:
        last = len(options) - 1 - options[::-1].index("--budget")
        assert listed == min(n, int(options[last + 1]))
    elif "--cutoff" not in options:
        assert listed == issues


def check_predictions(out, inputs):
    _, *rows = csv.reader(io.StringIO(out, newline=""))
    assert inputs is None or len(rows) == inputs
    probabilities = np.array([[float(cell) for cell in row[3:]] for row in rows])
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-4)


class Page(html.parser.HTMLParser):
    """A page whose elements must be closed in the order in which they were opened."""

    EMPTY = ("meta", "br", "hr", "img", "input", "link", "col", "path", "use", "rect", "line", "circle")

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
