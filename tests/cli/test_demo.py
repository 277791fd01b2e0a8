"""`pidual demo` and the table of its results in docs/paper/datasets.md."""

import json
import re
from pathlib import Path

import pytest
from command_line import run_cli

from pidual.cli import cli
from pidual.cli.demo import fit_digits
from pidual.data.datasets.digits import load_digits_pi
from pidual.learn.engine import Progress

pytestmark = pytest.mark.shapes_unchecked

PAGE = (Path(__file__).parents[2] / "docs" / "paper" / "datasets.md").read_text()


def published():
    """Accuracy and AUC on the page, by rounded share of wrong labels and method."""
    rows = re.findall(r"^\| (\d+)% \| `(\w+)` \| ([\d.]+)% \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    return {(int(noise), method): (float(accuracy) / 100, float(auc)) for noise, method, accuracy, auc in rows}


def test_one_fit_of_the_demo(tmp_path):
    run = fit_digits(load_digits_pi("high"), tmp_path / "run", "latent_truth", 0, Progress())
    assert run.summary.evaluation.detection_auc == pytest.approx(published()[73, "latent_truth"][1], abs=0.005)
    page = (run.path / "report.html").read_text()
    assert "data:image/png" in page
    assert "· Digits-PI, 73% wrong</title>" in page


def test_the_table_is_for_reading(tmp_path, monkeypatch):
    row = {"dataset": "digits_pi_low", "noise_rate": 0.44, "method": "ce", "test_accuracy": 0.82, "detection_auc": 0.9}
    rows = [row | {"gate_auc": None, "seconds": 3.2}]
    monkeypatch.setitem(cli.commands["demo"].callback.__globals__, "run_demo", lambda *options: rows)
    code, out, _ = run_cli(["demo", "--out", tmp_path])
    assert code == 0
    shown = next(line for line in out.splitlines() if "digits_pi_low" in line)
    assert re.findall(r"[\w.%]+(?: s)?", shown) == ["digits_pi_low", "44.0%", "ce", "82.0%", "0.900", "3 s"]
    assert out.endswith(f"Report: {tmp_path / 'digits-low-latent_truth' / 'report.html'}\n")


@pytest.mark.slow
def test_the_demo_gives_what_the_page_says(tmp_path):
    code, out, _ = run_cli(["demo", "--out", tmp_path, "--json", "--quiet"])
    assert code == 0
    rows = json.loads(out)
    assert len(rows) == len(published()) == 6
    for row in rows:
        accuracy, auc = published()[round(100 * row["noise_rate"]), row["method"]]
        assert row["test_accuracy"] == pytest.approx(accuracy, abs=0.01)
        assert row["detection_auc"] == pytest.approx(auc, abs=0.005)
