"""Nothing of the user's is removed, one process writes at a time, and a kill leaves a run to go on with."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import environment, run_cli, start_cli, write_crowd
from stored_state import read_state, write_state
from threadpoolctl import threadpool_limits

from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import load_inputs, read_table
from pidual.errors import RunError
from pidual.files import write_text
from pidual.fit.options import FitOptions
from pidual.learn.engine.fit import Interrupted
from pidual.run.lifecycle import RUN_FILES, finish_exchange, is_run, locked, promote, settle

pytestmark = pytest.mark.shapes_unchecked

QUICK = FitOptions("ce", options={"epochs": 2, "guard": "off", "network.width": 8})
OTHER = FitOptions("ce", options={"epochs": 1, "guard": "off", "network.width": 8}, seed=3)
ARGS = ("--method", "ce", "--epochs", 2, "--set", "network.width=8", "--quiet")


@pytest.fixture(autouse=True)
def _no_report(request, monkeypatch):
    """The report takes most of the time of a short run and is tested elsewhere."""

    def build(run):
        write_text(run.path / "report.html", "")
        return run.path / "report.html"

    monkeypatch.setattr("pidual.api.fit.build_report", build)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    return write_crowd(tmp_path_factory.mktemp("crowd"))


@pytest.fixture(scope="module")
def data(crowd):
    return read_table(crowd / "labels.csv"), load_inputs(crowd / "x.npy")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A finished run; not to be changed."""
    out = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pidual.api.fit.build_report", lambda run: write_text(run.path / "report.html", ""))
        return fit_table(*data, out, QUICK).path


@pytest.fixture
def out(finished, tmp_path):
    """A copy of the run that a test may change."""
    return shutil.copytree(finished, tmp_path / "run")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stop_at_once():
    return True


# --- what is replaced, and when ---


def test_force_replaces_the_run_and_leaves_everything_else(data, out):
    (out / "my_notes.txt").write_text("notes")
    (out / "thesis").mkdir()
    (out / "thesis" / "main.tex").write_text("years of work")
    (out / "state" / "mine.txt").write_text("mine")
    (out / "annotators.parquet").write_bytes(b"of the old run")
    run = fit_table(*data, out, OTHER, force=True)
    assert run.config.seed == 3
    assert {path.name for path in out.iterdir()} <= {*RUN_FILES, "state", "my_notes.txt", "thesis"}
    assert (out / "thesis" / "main.tex").read_text() == "years of work"
    assert (out / "state" / "mine.txt").read_text() == "mine"
    assert len(run.annotators) == 6


def test_the_old_run_stays_until_the_new_one_is_finished(data, out):
    before = contents(out)
    with pytest.raises(Interrupted):
        fit_table(*data, out, OTHER, force=True, stop=stop_at_once)
    assert {path: content for path, content in contents(out).items() if path.parts[0] != ".new"} == before
    assert Run.open(out).config.seed == 0
    run = fit_table(*data, out, OTHER, resume=True)
    assert run.config.seed == 3
    assert not (out / ".new").exists()


def test_a_fit_that_fails_leaves_the_run_it_was_to_replace(crowd, out):
    before = contents(out)
    args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--out", out, *ARGS, "--force"]
    code, _, err = run_cli([*args, "--lr", "1e30", "--set", "guard=off"])
    assert code == 1, err
    assert {path: content for path, content in contents(out).items() if path.parts[0] != ".new"} == before
    assert run_cli(["detect", out])[0] == 0
    assert run_cli(args)[0] == 0
    assert not (out / ".new").exists()


def test_a_new_run_that_was_begun_gives_way_to_the_next(data, out):
    with pytest.raises(Interrupted):
        fit_table(*data, out, OTHER, force=True, stop=stop_at_once)
    assert fit_table(*data, out, FitOptions(**{**vars(OTHER), "seed": 5}), force=True).config.seed == 5


@pytest.mark.parametrize("which", ["table", "x", "key"])
def test_a_run_that_holds_the_data_is_not_replaced(crowd, out, which):
    for name in ("labels.csv", "x.npy", ".pidual.key"):
        shutil.copy(crowd / name, out / name)
    places = {"table": crowd / "labels.csv", "x": crowd / "x.npy", "key": crowd / ".pidual.key"}
    places[which] = out / places[which].name
    before = contents(out)
    args = ["fit", places["table"], "--x", places["x"], "--key-file", places["key"], "--out", out, "--force", *ARGS]
    code, _, err = run_cli(args)
    assert code == 1
    assert f"{places[which]} is in {out}, which would be replaced" in err
    assert contents(out) == before


@pytest.mark.parametrize("config", ['{"requirements": ["pidual"]}', '["pidual"]', "{", '{"pidual": 1, "data": {}}'])
def test_a_folder_that_only_names_pidual_is_no_run(data, tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "main.py").write_text("print()")
    assert not is_run(tmp_path)
    for how in ({"force": True}, {"resume": True}, {}):
        with pytest.raises(RunError, match="not a run directory"):
            fit_table(*data, tmp_path, QUICK, **how)
    assert contents(tmp_path) == {Path("config.json"): config.encode(), Path("main.py"): b"print()"}


def test_links_are_not_followed_when_a_run_is_replaced(data, out, tmp_path):
    other = shutil.copytree(out, tmp_path / "other")
    before = contents(other)
    (out / ".new").symlink_to(other)
    shutil.rmtree(out / "state")
    (out / "state").symlink_to(other / "state")
    fit_table(*data, out, OTHER, force=True)
    assert contents(other) == before
    assert not (out / "state").is_symlink()


# --- one writer at a time ---


def test_a_second_writer_is_refused(crowd, data, out, tmp_path):
    before = contents(out)
    for folder in (out, tmp_path / "fresh"):
        with locked(folder):
            for options in ([], ["--resume"], ["--force"]):
                args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--out", folder, *ARGS, *options]
                code, _, err = run_cli(args)
                assert code == 1
                known = "already holds a run" if folder == out and not options else "Another process is writing to"
                assert known in err
    with locked(out):
        code, _, err = run_cli(["report", out])
        assert code == 1
        assert "Another process is writing to" in err
        assert run_cli(["detect", out, "--budget", 3])[0] == 0  # reads only
    assert contents(out) == before
    assert [path.name for path in (tmp_path / "fresh").iterdir()] == []
    fit_table(*data, tmp_path / "fresh", QUICK)


def test_the_lock_of_a_killed_process_holds_nobody_up(data, tmp_path):
    code = "import os, sys; from pathlib import Path; from pidual.run.lifecycle import locked\n"
    code += "with locked(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, tmp_path / "run"], env=environment(), check=False)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    fit_table(*data, tmp_path / "run", QUICK)
    assert not (tmp_path / "run" / ".lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [[], ["--force"], ["--resume"]])
def test_two_fits_into_one_directory_never_mix(crowd, tmp_path, mode):
    runs = {}
    for seed in (0, 1):
        runs[seed] = tmp_path / f"alone{seed}"
        args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", *ARGS, "--seed", seed, "--out", runs[seed]]
        assert run_cli(args)[0] == 0
    for attempt in range(10):
        both = tmp_path / f"both{attempt}"
        args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", *ARGS, "--out", both, *mode]
        pair = [start_cli([*args, "--seed", seed]) for seed in (0, 1)]
        codes = [process.wait(timeout=600) for process in pair]
        errors = [process.communicate()[1] for process in pair]
        assert 0 in codes, errors
        assert all(code == 0 or "Error: " in error for code, error in zip(codes, errors, strict=True))
        winner = Run.open(both).config.seed
        for name in ("model.safetensors", "predictions.parquet", "items.parquet", "annotators.parquet"):
            assert (both / name).read_bytes() == (runs[winner] / name).read_bytes(), (attempt, name)


# --- a kill at any moment ---


def test_a_kill_in_the_very_first_write_leaves_a_directory_for_every_mode(data, tmp_path):
    for number, how in enumerate(({}, {"resume": True}, {"force": True})):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / ".config.json.0123abcd.tmp").write_text('{"pidual"')
        (folder / ".lock").touch()
        fit_table(*data, folder, QUICK, **how)
        assert not list(folder.glob(".*"))


def test_an_exchange_cut_short_anywhere_is_finished_later(out, finished, tmp_path, monkeypatch):
    """Both runs are complete; the exchange fails at its first, second, ... change of a file, and is then finished."""
    (out / "annotators.parquet").unlink()
    old, new = contents(out), contents(finished)
    steps = 0
    while True:
        steps += 1
        folder = shutil.copytree(out, tmp_path / f"cut{steps}")
        shutil.copytree(finished, folder / ".new")
        left = iter(range(steps - 1))
        for name in ("rename", "replace", "unlink", "rmdir"):
            change = getattr(Path, name)

            def failing(path, *args, change=change, left=left, **options):
                if path.name != ".lock" and next(left, None) is None:
                    raise InterruptedError
                return change(path, *args, **options)

            monkeypatch.setattr(Path, name, failing)
        try:
            promote(folder, folder / ".new")
            whole = True
        except InterruptedError:
            whole = False
        monkeypatch.undo()
        if (folder / ".new").exists():  # the exchange has not begun
            assert {path: value for path, value in contents(folder).items() if path.parts[0] != ".new"} == old
        else:
            settle(folder)
            assert contents(folder) == new
        if whole:
            break
    assert steps > 2 * len(RUN_FILES)
    finish_exchange(folder)  # nothing left to do
    assert contents(folder) == new


def test_a_config_that_could_not_be_read_again_is_not_written(crowd, tmp_path):
    args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--out", tmp_path / "run", *ARGS]
    code, _, err = run_cli([*args, "--seed", 10**22])
    assert code == 2, err
    assert "seed" in err
    assert not (tmp_path / "run").exists()


def test_the_run_before_a_stopped_one_can_be_kept(data, out):
    with pytest.raises(Interrupted):
        fit_table(*data, out, OTHER, force=True, stop=stop_at_once)
    with pytest.raises(RunError, match=r"remove .*\.new to keep the run before it"):
        fit_table(*data, out, QUICK, resume=True)
    shutil.rmtree(out / ".new")
    assert fit_table(*data, out, QUICK, resume=True).config.seed == 0


KILLED_AT_EACH_WRITE = """
import os, signal, sys
from unittest import mock
import torch
torch.set_num_threads(1)
import pidual.cli, pidual.api.fit, pidual.show.report
from pathlib import Path

arguments, out, first = sys.argv[4:], Path(sys.argv[1]), sys.argv[2] == "force"
replace, rename = Path.replace, Path.rename

def run(folder, extra, kill_at=None):
    writes = 0
    def killing(change):
        def changed(path, target):
            nonlocal writes
            writes += 1
            if writes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(path, target)
        return changed
    process = os.fork()
    if process == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")
        sys.argv = ["pidual", "fit", *arguments, "--out", str(folder), *extra]
        code = 99
        try:
            with mock.patch.multiple(Path, replace=killing(replace), rename=killing(rename)):
                pidual.cli.main()
        except SystemExit as leaving:
            code = leaving.code or 0
        finally:
            os._exit(code)
    status = os.waitpid(process, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

killed, at = 0, 0
while True:
    at += 1
    folder = out / f"killed{at}"
    if first:
        assert run(folder, ["--seed", "1"]) == 0
    code = run(folder, ["--force"] if first else [], at)
    if code == 0:
        break
    assert code == -9, (at, code)
    killed += 1
    mode = ["--resume", "--force"][at % 2]
    code = run(folder, [mode])
    assert code == 0, (at, mode, code)
    assert not [path.name for path in folder.glob(".*")], (at, mode)
print(killed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["new", "force"])
def test_a_kill_at_each_atomic_write_is_got_over(crowd, tmp_path, first):
    args = [
        crowd / "labels.csv",
        "--x",
        crowd / "x.npy",
        "--method",
        "elr",
        "--epochs",
        3,
        "--quiet",
        "--save-every",
        0,
    ]
    whole = tmp_path / "whole"
    assert run_cli(["fit", *args, "--out", whole])[0] == 0
    command = [sys.executable, "-c", KILLED_AT_EACH_WRITE, tmp_path, first, "--", *map(str, args)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > (20 if first == "force" else 10)
    for folder in tmp_path.glob("killed*"):
        for name in ("model.safetensors", "predictions.parquet", "items.parquet", "annotators.parquet"):
            assert (folder / name).read_bytes() == (whole / name).read_bytes(), (folder, name)


# --- names in files are data ---


def test_a_state_cannot_name_files_elsewhere(data, tmp_path):
    victims = [tmp_path / "victim.txt", tmp_path / "victim2.txt"]
    for victim in victims:
        victim.write_text("mine")
    options = FitOptions("elr", options={"epochs": 2, "guard": "off", "network.width": 8})
    with pytest.raises(Interrupted):
        fit_table(*data, tmp_path / "run", options, stop=stop_at_once)
    state = tmp_path / "run" / "state" / "state.safetensors"
    tensors, values = read_state(state)
    (name,) = values["memories"]
    more = {"zz": str(victims[0]), "yy": "../../victim2.txt"}
    for place in (str(victims[0]), "../../victim2.txt", None, 7):
        write_state(state, tensors, values | {"memories": {name: place}})
        with pytest.raises(RunError, match=r"state\.safetensors"):
            fit_table(*data, tmp_path / "run", options, resume=True)
    write_state(state, tensors, values | {"memories": values["memories"] | more})
    fit_table(*data, tmp_path / "run", options, resume=True, save_every=0)
    assert [victim.read_text() for victim in victims] == ["mine", "mine"]


# --- who may read what ---


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o027, 0o640), (0o022, 0o644)])
def test_files_are_as_open_as_the_umask_says(data, out, tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        run = fit_table(*data, tmp_path / "new", QUICK)
        assert run_cli(["detect", out, "--out", tmp_path / "issues.csv"])[0] == 0
        write_text(tmp_path / "text.txt", "text")
    finally:
        os.umask(before)
    for path in (tmp_path / "issues.csv", tmp_path / "text.txt", *run.path.rglob("*")):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == mode, path


def test_passwords_reach_no_file(crowd, tmp_path):
    pytest.importorskip("optuna")
    url = "postgresql://bob:SuperSecret/Pw@localhost:1/db?password=Other5ecret"
    args = ["sweep", crowd / "labels.csv", "--x", crowd / "x.npy", "--search", "lr=0.01,0.1", "--out", tmp_path / "s"]
    code, out, err = run_cli([*args, "--storage", url, "--epochs", 1])
    assert code in (1, 2)
    everything = out + err + "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "SuperSecret" not in everything
    assert "Other5ecret" not in everything


@pytest.mark.parametrize("kept", [True, False])
def test_ids_cannot_be_kept_or_hidden_later(crowd, tmp_path, kept):
    args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--out", tmp_path / "run", *ARGS]
    assert run_cli([*args, *(["--keep-ids"] if kept else [])])[0] == 0
    code, _, err = run_cli([*args, "--resume", *([] if kept else ["--keep-ids"])])
    assert code == 1
    assert f"was started {'with' if kept else 'without'} --keep-ids" in err


# --- text ---


def test_text_is_the_same_input_with_any_number_of_threads(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(600)]
    frame = pd.DataFrame({"item": range(300), "text": [" ".join(rng.choice(words, 30)) for _ in range(300)]})
    frame.to_csv(tmp_path / "text.csv", index=False)
    read = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            read.append(load_inputs(tmp_path / "text.csv", text="text"))
    assert np.array_equal(read[0].array, read[1].array)
    assert read[0].digest() == read[1].digest()
    frame.loc[0, "text"] += " more"
    frame.to_csv(tmp_path / "text.csv", index=False)
    assert load_inputs(tmp_path / "text.csv", text="text").digest() != read[0].digest()
