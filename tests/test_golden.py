"""benchmarks/golden.py gives the same digests of the same code, and notices what is different."""

import copy
import json

import pytest


@pytest.fixture
def golden(benchmark, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)  # as golden.py has it
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "COLUMNS", "NO_COLOR", "MPLBACKEND", "PIDUAL_DATA"):
        monkeypatch.setenv(name, "1")  # so that what golden.py sets does not outlive the test
    return benchmark("golden")


def test_two_runs_are_equal_and_a_change_is_noticed(golden, tmp_path, capsys):
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    for path in (a, b):
        golden.run(path, ["one label", "judge"])
    assert golden.compare(a, b, 0.0, False) == 0
    said = json.loads(a.read_text())
    assert list(said["cases"]) == ["one label each", "judge"]
    outputs = said["cases"]["one label each"]
    assert outputs["$ pidual detect run"]["exit code"] == 0
    assert {"run/predictions.parquet", "run/report.html", "run/summary.json"} < set(outputs)

    changed = copy.deepcopy(said)
    column = changed["cases"]["one label each"]["run/predictions.parquet"]["column label_quality"]
    column["sample"][3] *= 1 + 1e-6
    column["bits"] = "other"
    b.write_text(json.dumps(changed))
    capsys.readouterr()
    assert golden.compare(a, b, 0.0, False) == 1
    assert "run/predictions.parquet [column label_quality]: 1 of 60 values differ" in capsys.readouterr().out
    assert golden.compare(a, b, 1e-5, False) == 0

    changed["cases"]["one label each"]["$ pidual detect run"]["stdout"] += "\nmore"
    del changed["cases"]["judge"]
    b.write_text(json.dumps(changed))
    capsys.readouterr()
    assert golden.compare(a, b, 1e-5, False) == 1
    out = capsys.readouterr().out
    assert "+more" in out
    assert "only before" in out


def test_every_method_and_command_has_a_case(golden):
    from golden_cases import CASES

    from pidual import METHODS

    lines = [line for steps in CASES.values() for line in steps if isinstance(line, str)]
    helped = {line.removesuffix(" --help") for line in lines if line.endswith(" --help")}
    functions = {"data relabel", "review"}  # have cases that are functions
    left_out = {"data", "data pull", "demo", "doctor"}  # a group, needs a server, the main job once more, the machine
    assert {f"method {name}" for name in METHODS} <= set(CASES)
    used = {
        name for name in helped if any(f"{line} ".startswith(f"{name} ") and "--help" not in line for line in lines)
    }
    assert helped - used - left_out == functions
