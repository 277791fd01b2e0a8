"""`pidual demo` and the table of its results in README.md."""

import json
import re
from pathlib import Path

import pytest
from command_line import run_cli

from pidual import demo

README = (Path(__file__).parents[1] / "README.md").read_text()


def published():
    """Accuracy and AUC in README.md, by rounded share of wrong labels and method."""
    rows = re.findall(r"^\| (\d+)% \| `(\w+)` \| ([\d.]+)% \| ([\d.]+) \|$", README, re.MULTILINE)
    return {(int(noise), method): (float(accuracy) / 100, float(auc)) for noise, method, accuracy, auc in rows}


def check_rows(rows):
    for row in rows:
        accuracy, auc = published()[round(100 * row["noise_rate"]), row["method"]]
        assert row["test_accuracy"] == pytest.approx(accuracy, abs=0.01)
        assert row["detection_auc"] == pytest.approx(auc, abs=0.005)


def test_one_fit_of_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "NOISE_LEVELS", ("high",))
    monkeypatch.setattr(demo, "METHODS", ("pi_dual",))
    code, out, err = run_cli(["demo", "--out", tmp_path, "--json", "--quiet"])
    assert (code, err) == (0, "")
    check_rows(json.loads(out))
    assert "data:image/png" in (tmp_path / "digits-high-pi_dual" / "report.html").read_text()


def test_the_table_is_for_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "NOISE_LEVELS", ("low",))
    monkeypatch.setattr(demo, "METHODS", ("ce",))
    monkeypatch.setattr(demo, "TRAINING", {"epochs": 2})
    code, out, _ = run_cli(["demo", "--out", tmp_path])
    assert code == 0
    assert re.search(r"digits_pi_low +. +44\.\d% +. ce ", out)
    assert out.splitlines()[-1] == f"Report: {tmp_path / 'digits-low-ce' / 'report.html'}"


@pytest.mark.slow
def test_the_demo_gives_what_readme_says(tmp_path):
    code, out, _ = run_cli(["demo", "--out", tmp_path, "--json", "--quiet"])
    assert code == 0
    rows = json.loads(out)
    assert len(rows) == len(published()) == 6
    check_rows(rows)
