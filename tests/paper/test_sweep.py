"""A sweep tries each point once, whatever happens to its workers, and looks at noisy validation rows only."""

import contextlib
import json
import shlex
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import numpy as np
import optuna
import pandas as pd
import pytest
from command_line import run_cli, start_cli, write_crowd
from optuna.trial import TrialState

from pidual.cli.options import parse_value
from pidual.cli.sweep import print_sweep
from pidual.data import AnnotationTable, load_inputs
from pidual.data.datasets.synthetic import make_crowd
from pidual.errors import RunError, UsageError
from pidual.fit.options import FitOptions
from pidual.learn.engine import Interrupted, Progress
from pidual.paper import sweep as sweep_module
from pidual.paper.search import choose_search, plain
from pidual.paper.sweep import POINT, Sweep, Worker, enqueue, opened, put_back, run_sweep

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]

FILES = {"best.json", "state", "study.sqlite", "trials.csv"}
CE = FitOptions(method="ce", options={"epochs": 2}, accelerator="cpu")
LRS = {"lr": [0.01, 0.03, 0.1]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_crowd(tmp_path_factory.mktemp("crowd"))


@pytest.fixture(scope="module")
def data():
    crowd = make_crowd(40, 6, 3, 3, 4, noise=0.3, spammer_share=0.2, n_test=4, seed=3)
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    return table, load_inputs(crowd.x)


def sweep(folder, out, *options, epochs=2):
    """Exit code, stdout and stderr of a sweep of cross-entropy with few epochs."""
    args = ["sweep", folder / "labels.csv", "--x", folder / "x.npy", "--method", "ce", "--out", out]
    return run_cli([*args, "--epochs", epochs, *options])


def search(**values):
    return [word for name, options in values.items() for word in ("--search", f"{name}={options}")]


def study_of(out):
    """The study as Optuna has it; the connections are closed."""
    with opened(f"sqlite:///{out / 'study.sqlite'}") as storage:
        study = optuna.load_study(study_name="sweep", storage=storage)
        return SimpleNamespace(trials=study.get_trials(), user_attrs=study.user_attrs)


def trials_of(out):
    """All trials of the study, those that were put back among them."""
    return study_of(out).trials


def each_point_is_complete_once(trials, n_points):
    complete = [tuple(trial.params.values()) for trial in trials if trial.state == TrialState.COMPLETE]
    busy = [trial for trial in trials if trial.state in (TrialState.RUNNING, TrialState.WAITING)]
    return len(complete) == len({*complete}) == n_points and not busy


def fails(*args, **kwargs):
    raise AssertionError("nothing is left to fit")


# --- what comes out ---


def test_a_grid_is_tried_in_full_and_the_best_can_be_fitted(folder, tmp_path):
    out = tmp_path / "sweep"
    code, stdout, err = sweep(folder, out, "--set", "select=best", *search(lr="0.01,0.1", weight_decay="0.0001,0.01"))
    assert code == 0, err
    assert {path.name for path in out.iterdir()} == FILES
    assert list((out / "state").iterdir()) == []
    frame = pd.read_csv(out / "trials.csv")
    assert list(frame)[:5] == ["trial", "state", "lr", "weight_decay", "valid_accuracy"]
    assert {*zip(frame["lr"], frame["weight_decay"], strict=True)} == {
        (lr, decay) for lr in (0.01, 0.1) for decay in (0.0001, 0.01)
    }
    assert (frame["state"] == "complete").all()
    best = json.loads((out / "best.json").read_text())
    row = frame.sort_values(["valid_accuracy", "valid_loss"], ascending=[False, True]).iloc[0]
    assert best["options"] == {"lr": row["lr"], "weight_decay": row["weight_decay"]}
    assert (best["valid_accuracy"], best["trial"], best["n_valid"]) == (row["valid_accuracy"], row["trial"], 18)
    assert stdout.splitlines()[-1] == best["command"]
    assert "Trial 3: noisy validation" in err
    words = shlex.split(best["command"])
    assert words[words.index("--out") + 1] == "runs/labels-ce"  # beside a first fit of the table
    code, stdout, err = run_cli([*words[1:], "--out", tmp_path / "run", "--quiet", "--json"])
    assert code == 0, err
    summary = json.loads(stdout)
    assert summary["valid_accuracy"] == best["valid_accuracy"]
    assert summary["selected_epoch"] == best["selected_epoch"]


def test_clean_labels_have_no_part_in_it(folder, tmp_path):
    frame = pd.read_csv(folder / "labels.csv")
    frame["y"] = np.random.default_rng(0).permutation(frame["y"])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "x.npy").write_bytes((folder / "x.npy").read_bytes())
    found = []
    for where in (folder, tmp_path):
        out = tmp_path / f"sweep{len(found)}"
        assert sweep(where, out, "-q", *search(lr="0.01,0.1,0.3"))[0] == 0
        best = json.loads((out / "best.json").read_text())
        found.append((best["options"], best["valid_accuracy"], pd.read_csv(out / "trials.csv").drop(columns="seconds")))
    assert found[0][:2] == found[1][:2]
    pd.testing.assert_frame_equal(found[0][2], found[1][2])


def test_the_grid_of_the_paper_without_what_is_fixed():
    options = FitOptions(method="elr", options={"lr": 0.05, "lam": 3.0})
    assert choose_search(options) == {"weight_decay": [1e-4, 1e-3], "beta": [0.5, 0.7, 0.9]}
    assert choose_search(options, own={"beta": [0.1]}) == {"beta": [0.1]}
    assert choose_search(options, "imagenet_pi", {"beta": [0.1]}) == {"weight_decay": [1e-5, 1e-4], "beta": [0.1]}


def test_a_sweep_is_of_a_method_that_is_named(data, folder, tmp_path):
    with pytest.raises(UsageError, match="options of one method; name it"):
        choose_search(FitOptions())
    with pytest.raises(UsageError, match="options of one method; name it"):
        run_sweep(*data, tmp_path / "sweep", FitOptions(), LRS)
    code, _, err = sweep(folder, tmp_path / "sweep", "--method", "latent_truth")
    assert (code, "latent_truth chooses among its settings itself; there is nothing to sweep." in err) == (2, True)
    code, _, err = sweep(folder, tmp_path / "sweep", "--method", "auto", *search(lr="0.01,0.1"))
    assert (code, err.count("\n")) == (2, 1)
    assert "name it, such as --method pi_dual" in err
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("value", [0.1, 1e-5, 3, True, None, "none", "best", "true", "1", [1, 2], "a b", [], "[1"])
def test_values_in_commands_are_read_as_they_were(value):
    assert parse_value(plain(value)) == value
    assert type(parse_value(plain(value))) is type(value)


# --- again, and together ---


def test_a_finished_sweep_is_not_repeated(folder, tmp_path, monkeypatch):
    out, choices = tmp_path / "s", search(lr="0.01,0.1")
    assert sweep(folder, out, "-q", *choices)[0] == 0
    before = (out / "trials.csv").read_text()
    code, _, err = sweep(folder, out, "-q", *choices)
    assert (code, err.count("\n")) == (1, 1)
    assert "already holds a sweep; continue or join it with --resume" in err
    monkeypatch.setattr("pidual.paper.sweep.train", fails)
    code, stdout, err = sweep(folder, out, "--resume", *choices)
    assert code == 0, err
    assert "2 of 2 points of lr; done before: 2\n" in err
    assert "Best of 2" in stdout
    assert (out / "trials.csv").read_text() == before


def test_more_trials_later(data, tmp_path):
    table, inputs = data
    options = {"lr": [0.01, 0.1], "momentum": [0.0, 0.5, 0.9]}
    first = run_sweep(table, inputs, tmp_path / "s", CE, options, trials=2)
    assert len(first.trials) == 2
    second = run_sweep(table, inputs, tmp_path / "s", CE, options, trials=4, resume=True)
    assert len(second.trials) == 4
    pd.testing.assert_frame_equal(second.trials.head(2), first.trials, check_dtype=False)
    assert not second.trials.duplicated(["lr", "momentum"]).any()


@pytest.fixture
def soon_silent(monkeypatch):
    """Workers that are given up after two seconds without a sign of life."""
    monkeypatch.setattr("pidual.paper.sweep.HEARTBEAT_SECONDS", 1)
    monkeypatch.setattr("pidual.paper.sweep.GRACE_SECONDS", 2)


def quick_fit(worker, point):
    time.sleep(0.05)
    return {"selected_epoch": 0, "valid_accuracy": 0.5, "valid_loss": 1.0, "seconds": 0.1}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_points_that_two_workers_add_at_the_same_moment_are_tried_once(data, tmp_path, monkeypatch):
    """As from directories of their own, where no lock keeps the second from adding what the first is adding."""
    choices, both = {"lr": [0.1, 0.2, 0.3, 0.4], "momentum": [0.0, 0.5, 0.9]}, threading.Barrier(2)
    run_sweep(*data, tmp_path / "s", CE, choices, trials=1)
    add = sweep_module._add_trials
    monkeypatch.setattr(Worker, "fit", quick_fit)
    monkeypatch.setattr(sweep_module, "locked", lambda *args, **kwargs: contextlib.nullcontext())
    monkeypatch.setattr(sweep_module, "_add_trials", lambda *args: (both.wait(60), add(*args)))
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(run_sweep, *data, tmp_path / "s", CE, choices, trials=10, resume=True) for _ in range(2)]
        assert {len(each.result().trials) for each in work} == {10}
    trials = trials_of(tmp_path / "s")
    assert sum(POINT in trial.user_attrs for trial in trials) == 19  # nine of them twice
    assert each_point_is_complete_once(trials, 10)


def test_the_trial_of_a_killed_worker_is_done_again(folder, tmp_path, soon_silent):
    out, choices = tmp_path / "s", search(lr="0.01,0.03,0.1")
    args = ["sweep", folder / "labels.csv", "--x", folder / "x.npy", "--method", "ce", "--epochs", 60, "--out", out]
    worker = start_cli([*args, *choices])
    for line in worker.stderr:
        if line.startswith("Trial 0: "):  # has begun
            break
    worker.kill()
    worker.communicate(timeout=60)
    assert [trial.state for trial in trials_of(out)].count(TrialState.RUNNING) == 1
    code, _, err = sweep(folder, out, "--resume", *choices, epochs=60)
    assert code == 0, err
    trials = trials_of(out)
    assert trials[0].state == TrialState.FAIL
    assert each_point_is_complete_once(trials, 3)
    assert pd.read_csv(out / "trials.csv")["state"].tolist() == ["complete"] * 3
    assert list((out / "state").iterdir()) == []


@pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed")
def test_a_worker_that_shows_signs_of_life_keeps_its_trial(data, tmp_path, soon_silent):
    run_sweep(*data, tmp_path / "s", CE, {"lr": [0.1, 0.2]}, trials=1)
    with opened(f"sqlite:///{tmp_path / 's' / 'study.sqlite'}") as storage:
        study = optuna.load_study(study_name="sweep", storage=storage)
        params = {"lr": {"0.1": "0.2", "0.2": "0.1"}[study.trials[0].params["lr"]]}
        enqueue(study, params)
        study.set_user_attr("points", 2)
        trial, ended = study.ask(), threading.Event()
        trial.suggest_categorical("lr", ["0.1", "0.2"])

        def beat():
            while not ended.wait(0.3):
                storage.record_heartbeat(trial._trial_id)

        storage.record_heartbeat(trial._trial_id)
        thread = threading.Thread(target=beat)
        thread.start()
        try:
            found = run_sweep(*data, tmp_path / "s", CE, {"lr": [0.1, 0.2]}, resume=True)
        finally:
            ended.set()
            thread.join()
    assert sorted(found.trials["state"]) == ["complete", "running"]


def test_a_full_disk_frees_the_point(data, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise RunError("cannot write")

    with monkeypatch.context() as patch:
        patch.setattr("pidual.paper.sweep.train", full)
        with pytest.raises(RunError, match="cannot write"):
            run_sweep(*data, tmp_path / "s", CE, LRS)
    assert trials_of(tmp_path / "s")[0].state == TrialState.FAIL
    found = run_sweep(*data, tmp_path / "s", CE, LRS, resume=True)
    assert len(found.trials) == found.best["n_trials"] == 3


@pytest.mark.slow
def test_two_processes_share_a_sweep(folder, tmp_path):
    out = tmp_path / "s"
    args = ["sweep", folder / "labels.csv", "--x", folder / "x.npy", "--method", "ce", "--epochs", 4, "--out", out]
    args += [*search(lr="0.01,0.03,0.1", weight_decay="0,0.001,0.01"), "--resume"]
    workers = [start_cli(args), start_cli(args)]
    ends = [worker.communicate(timeout=240) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], ends
    assert each_point_is_complete_once(trials_of(out), 9)
    assert sum(err.count(": noisy validation ") for _, err in ends) == 9
    frame = pd.read_csv(out / "trials.csv")
    assert len(frame) == 9
    assert (frame["state"] == "complete").all()
    assert json.loads((out / "best.json").read_text())["n_trials"] == 9
    assert list((out / "state").iterdir()) == []


class Starts(Progress):
    """Remembers how many steps each training began with."""

    def __init__(self):
        self.done = []

    def start(self, epochs, steps, done, stage=""):
        self.done.append(done)


def test_an_interrupted_trial_goes_on_where_it_was(data, tmp_path):
    table, inputs = data
    calls, starts = count(), Starts()
    with pytest.raises(Interrupted):
        run_sweep(table, inputs, tmp_path / "s", CE, LRS, stop=lambda: next(calls) > 18, progress=starts)
    assert len(starts.done) == 2  # the first trial ended, the second did not
    states = [trial.state for trial in trials_of(tmp_path / "s")]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.WAITING, TrialState.WAITING]
    resumed = Starts()
    found = run_sweep(table, inputs, tmp_path / "s", CE, LRS, resume=True, progress=resumed)
    assert len(resumed.done) == 2
    assert resumed.done[0] == 0 < resumed.done[1]  # the interrupted one comes last
    whole = run_sweep(table, inputs, tmp_path / "whole", CE, LRS)
    same = ["lr", "valid_accuracy", "valid_loss", "selected_epoch"]
    found, whole = (each.trials[same].sort_values("lr", ignore_index=True) for each in (found, whole))
    pd.testing.assert_frame_equal(found, whole)


def test_ctrl_c_is_exit_code_130(folder, tmp_path, monkeypatch):
    calls = count()

    @contextlib.contextmanager
    def stop_soon():
        yield lambda: next(calls) > 8

    with monkeypatch.context() as patch:
        patch.setattr("pidual.cli.sweep.stop_signals", stop_soon)
        code, stdout, err = sweep(folder, tmp_path / "s", "-q", *search(lr="0.01,0.1"))
    assert (code, stdout) == (130, "")
    assert err.startswith("Interrupted: stopped in epoch 1 of 2, step")
    assert err.endswith("continue with --resume.\n")
    assert sweep(folder, tmp_path / "s", "-q", "--resume", *search(lr="0.01,0.1"))[0] == 0
    assert each_point_is_complete_once(trials_of(tmp_path / "s"), 2)


# --- trials that do not end well ---


def test_a_trial_that_fails_does_not_end_the_sweep(folder, tmp_path, monkeypatch):
    from pidual.paper import sweep as worker

    def train(job, session):
        if job.training.lr == 0.03:
            raise RuntimeError("out of memory\nat some length")
        return real(job, session)

    real = worker.train
    monkeypatch.setattr(worker, "train", train)
    code, stdout, err = sweep(folder, tmp_path / "s", *search(lr="0.01,0.03,0.1"))
    assert code == 0
    assert "Best of 2" in stdout
    assert "failed (out of memory)\n" in err
    assert "Failed: 1; " in err
    frame = pd.read_csv(tmp_path / "s" / "trials.csv").set_index("lr")
    assert frame.loc[0.03, ["state", "error"]].tolist() == ["failed", "out of memory"]
    monkeypatch.setattr(worker, "train", fails)
    assert sweep(folder, tmp_path / "s", "-q", "--resume", *search(lr="0.01,0.03,0.1"))[0] == 0


# --- what is refused ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--search", "widht=8,16"], "The method 'ce' has no option 'widht'"),
        (["--search", "lr=0.1,fast"], "lr must be a number, not 'fast'"),
        (["--search", "schedule=cosine,wave"], "schedule must be cosine or steps or constant, not 'wave'"),
        (["--search", "network.width=8,-1"], "-1"),
        (["--search", "lr"], "'lr' is not of the form KEY=V1,V2,..."),
        (["--search", "lr="], "'lr=' is not of the form KEY=V1,V2,..."),
        (["--search", "lr=0.1", "--search", "lr=0.2"], "lr is given twice"),
        (["--search", "seed=1,2"], "--seed"),
        (["--search", "lr=0.1,0.2", "--lr", "0.1"], "lr is given a value and searched as well"),
        (["--lr", "0.1", "--set", "weight_decay=0"], "There is nothing to search"),
        (["--search", "lr=0.1,0.2", "--valid-fraction", "0"], "no noisy validation rows"),
        (["--search", "lr=0.1,0.2", "--storage", "study.sqlite"], "'study.sqlite' is not the URL of a database"),
        (["--grid", "svhn"], "svhn"),
        (["--method", "cee"], "'cee'"),
        (["--trials", "0"], "--trials"),
    ],
)
def test_wrong_usage_is_a_sentence_and_leaves_nothing(folder, tmp_path, options, words):
    code, stdout, err = sweep(folder, tmp_path / "s", *options)
    assert (code, stdout) == (2, "")
    assert words in err
    assert "Traceback" not in err
    assert not (tmp_path / "s").exists()


def test_other_data_or_options_cannot_join(folder, tmp_path):
    out, choices = tmp_path / "s", search(lr="0.1,0.2")
    assert sweep(folder, out, "-q", *choices)[0] == 0
    before = (out / "trials.csv").read_text()
    other = write_crowd(tmp_path, seed=1)
    for args, words in [
        ((folder, out, *search(lr="0.1,0.3")), "lr = [0.1, 0.2], and now it is [0.1, 0.3]"),
        ((folder, out, *choices, "--set", "momentum=0.5"), "momentum = 0.9, and now it is 0.5"),
        ((folder, out, *choices, "--seed", "1"), "seed = 0, and now it is 1"),
        ((other, out, *choices), "other contents of the table"),
    ]:
        code, _, err = sweep(*args, "--resume")
        assert code == 1
        assert err.startswith("Error: The sweep 'sweep' was started with ")
        assert words in err
    assert (out / "trials.csv").read_text() == before


def test_a_sweep_is_joined_from_another_directory(folder, tmp_path):
    choices, url = search(lr="0.1,0.2,0.3"), f"sqlite:///{tmp_path / 'shared.sqlite'}"
    assert sweep(folder, tmp_path / "one" / "s", "-q", *choices, "--storage", url, "--trials", "1")[0] == 0
    code, _, err = sweep(folder, tmp_path / "two" / "s", *choices, "--storage", url)
    assert (code, "There is a study 's' in the storage; join it with --resume" in err) == (1, True)
    code, _, err = sweep(folder, tmp_path / "two" / "s", *choices, "--storage", url, "--resume")
    assert code == 0
    assert "done before: 1\n" in err
    assert len(pd.read_csv(tmp_path / "two" / "s" / "trials.csv")) == 3
    assert not (tmp_path / "two" / "s" / "study.sqlite").exists()


def test_passwords_are_not_shown(data, tmp_path):
    table, inputs = data
    url = "postgresql://me:secret@nowhere.invalid/db"
    with pytest.raises((RunError, UsageError)) as error:
        run_sweep(table, inputs, tmp_path / "s", CE, LRS, storage=url)
    assert "secret" not in str(error.value)


def test_someone_else_s_directory_and_study_are_left_alone(data, tmp_path):
    table, inputs = data
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("")
    with pytest.raises(RunError, match="is not the directory of a sweep"):
        run_sweep(table, inputs, tmp_path / "s", CE, LRS, resume=True)
    url = f"sqlite:///{tmp_path / 'other.sqlite'}"
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with opened(url) as storage:
        optuna.create_study(storage=storage, study_name="mine").enqueue_trial({})
    with pytest.raises(RunError, match="was not made by `pidual sweep`"):
        run_sweep(table, inputs, tmp_path / "mine", CE, LRS, storage=url, resume=True)


def test_several_processes_for_one_trial_are_refused(data, tmp_path, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="start the same sweep several times"):
        run_sweep(*data, tmp_path / "s", CE, LRS)


def test_optuna_is_an_extra(folder, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("pidual.paper.sweep")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, stdout, err = sweep(folder, tmp_path / "s", *search(lr="0.1"))
    assert (code, stdout) == (2, "")
    assert err.startswith("Error: A sweep needs Optuna (")
    assert err.endswith("install it with `pip install 'pidual[sweep]'`.\n")


# --- datasets of the benchmarks ---


def test_a_dataset_is_searched_in_the_settings_of_its_recipe(tmp_path):
    args = ["sweep", "digits_pi:low", "--data", tmp_path, "--method", "elr", "--epochs", 1, "--out", tmp_path / "s"]
    args += ["--search", "lam=0.0,3.0", "--seed", 1, "--threads", 1, "--json", "--quiet"]
    code, out, err = run_cli(args)
    assert code == 0, err
    assert run_cli([*args, "--resume"])[:2] == (0, out)
    best = json.loads(out)["best"]
    about = study_of(tmp_path / "s").user_attrs["pidual"]
    assert about["training"]["batch_size"] == 64  # the recipe's
    assert about["method_options"]["beta"] == 0.7
    words = shlex.split(best["command"])
    assert words[:3] == ["pidual", "benchmark", "digits_pi:low"]
    assert words[words.index("--out") + 1] == "runs/digits_pi-low-cpu-elr"
    assert words[words.index("--threads") + 1] == "1"
    code, out, err = run_cli([*words[1:], "--out", tmp_path / "b", "--quiet", "--json"])
    assert code == 0, err
    result = json.loads((tmp_path / "b" / "cpu" / "digits_pi-low" / "elr-1.json").read_text())
    assert result["resolved"]["method"]["lam"] == best["options"]["lam"]
    assert result["valid_accuracy"] == pytest.approx(best["valid_accuracy"])


def test_what_the_recipe_says_is_not_an_option(tmp_path):
    code, _, err = run_cli(["sweep", "digits_pi", "--data", tmp_path, "--x", "x.npy", "--out", tmp_path / "s"])
    assert (code, "--x cannot be combined with --data" in err) == (2, True)
    args = ["sweep", "digits_pi", "--data", tmp_path, "--method", "elr", "--out", tmp_path / "s"]
    for options, message in [
        (["--set", "lam=2.0", "--search", "lam=1.0,3.0"], "lam is given a value and searched as well"),
        (["--set", "epochs=2", "--epochs", 3], "epochs is given twice"),
        (["--method", "elf"], "There is no method 'elf'"),
    ]:
        code, _, err = run_cli([*args, *options])
        assert (code, message in err) == (2, True), err
    code, _, err = run_cli(["sweep", tmp_path / "labels.csv", "--scale", "paper"])
    assert (code, "use it with --data" in err) == (2, True)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [([0.8, 0.85], "Best of 2: trial 1, 85.0% of 20"), ([0.85, 0.85], "2 trials are equal")],
)
def test_a_tie_is_called_one(accuracy, said, tmp_path, capsys):
    trials = pd.DataFrame({"trial": [0, 1], "state": "complete", "lr": [0.1, 0.2], "valid_accuracy": accuracy})
    trials = trials.assign(valid_loss=[0.5, 0.4], selected_epoch=3, seconds=1.0, error="")
    best = {"n_valid": 20, "valid_accuracy": 0.85, "n_trials": 2, "trial": 1, "command": "pidual fit"}
    print_sweep(Sweep(tmp_path, trials, best))
    assert said in capsys.readouterr().out


def test_a_worker_that_was_given_up_says_so_and_goes_on(data, tmp_path, monkeypatch):
    said, taken = [], []

    def given_up(self, point):
        if not taken:
            taken.append(point)
            (trial,) = self.trials(TrialState.RUNNING)
            self.study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            put_back(self.study, trial)
        return real(self, point)

    real = Worker.fit
    monkeypatch.setattr(Worker, "fit", given_up)
    found = run_sweep(*data, tmp_path / "s", CE, LRS, say=said.append)
    assert any("taken over by another worker" in line for line in said)
    assert (found.trials["state"] == "complete").all()
    assert len(found.trials) == 3


def test_a_database_that_cannot_be_used_is_a_sentence(data, tmp_path, monkeypatch):
    table, inputs = data
    monkeypatch.setattr("pidual.paper.sweep.OPEN_TRIES", 1)
    (tmp_path / "file").write_text("no database, but longer than the first bytes of one" * 10)
    with pytest.raises(RunError, match="not a database"):
        run_sweep(table, inputs, tmp_path / "s", CE, LRS, storage=f"sqlite:///{tmp_path / 'file'}")
