"""benchmarks/make_results.py makes every result file, once, and goes on where it was stopped."""

import json
import sys
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture
def made(benchmark, tmp_path, monkeypatch):
    """Two steps in a folder of their own: `one` writes one.json, `two` fails while there is a file `broken`."""
    module = benchmark("make_results")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")
    monkeypatch.setattr(module, "_called", lambda command: [sys.executable, "-c", command])
    (tmp_path / "results").mkdir()
    for name in ("one", "two"):
        (tmp_path / "results" / f"{name}.json").write_text("old")
    line = "import os, sys; p = {!r}; assert not os.path.exists(p + 'results/{}.json'); "
    line += "sys.exit(3) if {!r} and os.path.exists(p + 'broken') else open(p + 'results/{}.json', 'w').write('new')"
    steps = {
        name: module.Step((line.format(f"{tmp_path}/", name, name == "two", name),), (f"{name}.json",), 0.1)
        for name in ("one", "two")
    }
    monkeypatch.setattr(module, "STEPS", steps)
    return module


def call(module, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["make_results.py", "--only", "one,two", *words])
    module.main()


def test_old_files_are_kept_aside_and_a_second_run_does_only_what_failed(made, tmp_path, monkeypatch, capsys):
    (tmp_path / "broken").touch()
    with pytest.raises(SystemExit, match="failed: two"):
        call(made, monkeypatch)
    assert (tmp_path / "results" / "one.json").read_text() == "new"
    assert not (tmp_path / "results" / "two.json").exists()
    assert (tmp_path / "build" / "before" / "two.json").read_text() == "old"
    done = json.loads((tmp_path / "build" / "done.json").read_text())
    assert "seconds" in done["one"]
    assert done["two"]["failed"].endswith("ended with 3")

    (tmp_path / "broken").unlink()
    capsys.readouterr()
    call(made, monkeypatch)
    assert capsys.readouterr().out.startswith("1 of 2 steps, about 0.1 hours on one core\ntwo: ")
    assert (tmp_path / "results" / "two.json").read_text() == "new"
    call(made, monkeypatch, "--list")
    assert capsys.readouterr().out.endswith("0 of 2 steps, about 0.0 hours on one core\n")


def test_starting_over_makes_all_again(made, tmp_path, monkeypatch, capsys):
    call(made, monkeypatch)
    call(made, monkeypatch, "--start-over")
    assert (tmp_path / "build" / "before" / "one.json").read_text() == "new"
    assert capsys.readouterr().out.count("one: ") == 2


def test_every_result_file_is_made_by_one_step(benchmark):
    steps = benchmark("make_results").STEPS
    for path in (path for path in RESULTS.rglob("*") if path.is_file() and path.name != "tables.md"):
        name = path.relative_to(RESULTS)
        makers = [step for step, made in steps.items() if any(name.match(pattern) for pattern in made.files)]
        assert len(makers) == 1, f"{name}: {makers}"


def test_every_script_of_a_step_exists(benchmark):
    module = benchmark("make_results")
    scripts = {command.split()[0] for step in module.STEPS.values() for command in step.commands} - {"pidual"}
    assert [name for name in sorted(scripts) if not (RESULTS.parent / name).is_file()] == []
    assert [step.page for step in module.STEPS.values() if not (RESULTS.parents[1] / "docs" / step.page).exists()] == []
