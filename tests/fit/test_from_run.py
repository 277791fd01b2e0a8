"""`pidual fit --from RUN`: once more, with what reviewers decided."""

import contextlib
import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from attack import reseal
from command_line import run_cli, write_crowd

from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import AnnotationTable, load_inputs, no_inputs, read_table
from pidual.data.datasets.synthetic import make_crowd
from pidual.errors import RunError, UsageError
from pidual.fit import closed
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.fit.refit import decided_classes, known_classes, refit_options
from pidual.learn.engine import Interrupted
from pidual.run.decisions import Store, read_decisions

pytestmark = pytest.mark.shapes_unchecked

WORDS = ["fit", "labels.csv", "--x", "x.npy", "--pi", "annotator,seconds", "--quiet", "--out"]
TRAINED = FitOptions(network="mlp", options={"epochs": 4, "network.width": 8})


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A crowd of 60 items and a run of it, `run`."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"), seed=3)
    with contextlib.chdir(folder):
        code, _, err = run_cli([*WORDS, "run"])
        assert code == 0, err
    return folder


@pytest.fixture
def folder(crowd, tmp_path):
    """A copy of it."""
    shutil.copytree(crowd, tmp_path / "crowd")
    with contextlib.chdir(tmp_path / "crowd"):
        yield tmp_path / "crowd"


def review(path, decisions):
    """Let a reviewer decide: (row, decision, label)."""
    store = Store(Run.open(path))
    for number, (row, decision, label) in enumerate(decisions):
        store.add(row, decision, label, reviewer="ann", request=f"{len(decisions)}-{number}")
    store.close()


def review_first(path, n):
    """Let somebody who knows the truth decide on the first n labels that the run lists."""
    frame = Run.open(path).predictions.frame.sort_values("label_quality", kind="stable").head(n)
    decided = [
        (int(row), "keep" if given == y else "change", y)
        for row, given, y in zip(frame["row"], frame["given_label"].astype(str), frame["y"].astype(str), strict=True)
    ]
    review(path, decided)


def test_decisions_on_labels_say_the_class_of_their_items(folder):
    frame = Run.open("run").predictions.frame
    rows = frame.groupby("item", sort=False, observed=True)["row"].apply(list)
    a, b, c, d = (rows.iloc[number] for number in range(4))
    given = frame["given_label"].astype(str)
    others = {"cat": "dog", "dog": "owl", "owl": "cat"}
    review(
        "run",
        [
            (a[0], "keep", given[a[0]]),
            (b[0], "change", "owl"),
            (b[1], "change", "cat"),
            (b[2], "change", "owl"),
            (c[0], "unsure", None),
            (d[0], "change", others[given[d[0]]]),
            (d[0], "keep", given[d[0]]),  # thought better of
            (d[1], "change", "owl" if given[d[0]] != "owl" else "cat"),  # as many say so, and later
        ],
    )
    found = decided_classes(Run.open("run")).set_index("row")
    assert found["label"].to_dict() == {
        a[0]: given[a[0]],
        b[0]: "owl",
        d[1]: "owl" if given[d[0]] != "owl" else "cat",
    }
    assert found["num_decisions"].tolist() == [1, 2, 1]
    table = read_table("labels.csv", pi=["annotator", "seconds"])
    known = known_classes(Run.open("run"), table)
    assert set(np.flatnonzero(known >= 0)) == {*a, *b, *d}
    assert {table.classes[code] for code in known[b]} == {"owl"}


def test_what_was_decided_is_known_and_the_rest_is_as_before(folder):
    review_first("run", 30)
    before = Run.open("run")
    code, out, err = run_cli(["fit", "--from", "run", "--quiet"])
    assert code == 0, err
    run = Run.open("run-2")
    items = run.items.set_index(run.items["item"].astype(str))
    y = before.predictions.frame.drop_duplicates("item").set_index("item")["y"].astype(str)
    decided = before.predictions.frame["item"].iloc[before.reviews["row"]].astype(str).unique()
    assert (items.loc[decided, "consensus_label"].astype(str) == y.rename(index=str).loc[decided]).all()
    assert run.config.data.n_known_items == len(decided)
    same = ("method", "setting", "seed", "method_options", "network", "pi_kinds", "splits")
    assert [getattr(run.config, name) for name in same] == [getattr(before.config, name) for name in same]
    assert run.config.source.warm_start
    assert run.config.training == before.config.training
    about = run.summary.from_run
    assert (about.n_decisions, about.n_unsure, about.run) == (30, 0, "run")
    assert about.n_issues == (before.summary.n_issues, run.summary.n_issues)
    assert "30 decisions on run were used: the consensus of " in out
    pd.testing.assert_frame_equal(run.reviews, before.reviews)
    told, wrong = before.calibration, (before.predictions.given != before.predictions.y).mean()
    assert told.noise.low <= wrong <= told.noise.high
    assert 0.5 < told.accuracy.low <= told.accuracy.rate <= told.accuracy.high
    assert about.calibration == told
    assert run.calibration == run.summary.gold  # it was told all there is
    assert f"By your {len(decided)} checked items the consensus is right for " in out
    assert f"By decisions on {len(decided)} items: " in out
    code, out, err = run_cli(["detect", "run", "--cutoff", "reviewed"])
    assert (code, out.count("\n") - 1) == (0, (before.predictions.label_quality < told.cutoff).sum())
    assert f"--cutoff reviewed lists the {told.n_issues} labels below" in err
    assert (
        "--cutoff reviewed needs a RUN with decisions on at least ten"
        in run_cli(["detect", "run-2", "--cutoff", "reviewed"])[2]
    )


def test_the_more_is_reviewed_the_more_is_right(tmp_path, monkeypatch):
    monkeypatch.setattr("pidual.api.fit.build_report", lambda run: run.path / "report.html")
    right = np.zeros((3, 3))
    for seed in range(3):
        crowd, first = make_crowd(90, 6, 3, 3, 2, noise=0.5, seed=seed), tmp_path / f"{seed}-0"
        table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
        y = crowd.frame.drop_duplicates("item").set_index("item")["y"]
        run = fit_table(table, no_inputs(), first)
        for number, n in enumerate((0, 40, 120)):
            if n:
                review_first(first, n)
                run = fit_table(table, no_inputs(), tmp_path / f"{seed}-{n}", from_run=first)
            consensus = run.items["consensus_label"].astype(int).to_numpy()
            right[seed, number] = (consensus == y.loc[run.items["item"].astype(int)]).mean()
    before, some, many = right.mean(0)
    assert before + 0.05 < some < many - 0.05


def test_it_can_be_stopped_and_resumed_and_the_next_one_knows_as_much(folder):
    review_first("run", 20)
    table, inputs = read_table("labels.csv", pi=["annotator", "seconds"]), load_inputs("x.npy")
    whole = fit_table(table, inputs, "whole", from_run="run")
    with pytest.raises(Interrupted):
        fit_table(table, inputs, "parts", from_run="run", stop=lambda: True)
    assert (folder / "parts" / "state" / "state.safetensors").exists()
    parts = fit_table(table, inputs, "parts", from_run="run", resume=True)
    pd.testing.assert_frame_equal(parts.predictions.frame, whole.predictions.frame)
    third = fit_table(table, inputs, "third", from_run="whole")
    assert third.config.data.n_known_items == whole.config.data.n_known_items
    assert third.config.source.warm_start
    frame = Run.open("run").predictions.frame
    decided = frame["item"].isin(frame["item"].iloc[Run.open("run").reviews["row"]])
    review("run", [(int(frame["row"][~decided].iloc[-1]), "change", "cat")])
    code, _, err = run_cli(["fit", "--from", "run", "--quiet", "--out", "parts", "--resume"])
    assert code == 1
    assert "other contents of the classes that are known" in err


def test_a_run_with_a_truth_file_keeps_what_it_was_told(folder):
    pd.read_csv("labels.csv").drop_duplicates("item")[["item", "y"]].tail(5).to_csv("truth.csv", index=False)
    words = [word for word in WORDS if word != "--quiet"]
    assert run_cli([*words, "told", "--truth", "truth.csv", "-q"])[0] == 0
    review("told", [(0, "keep", Run.open("told").predictions.frame["given_label"].astype(str)[0])])
    assert run_cli(["fit", "--from", "told", "-q"])[0] == 0
    assert Run.open("told-2").config.data.n_known_items == 6
    assert run_cli(["fit", "--from", "told-2", "-q"])[0] == 0
    assert Run.open("told-3").config.data.n_known_items == 6
    pd.read_csv("labels.csv").drop_duplicates("item")[["item", "y"]].tail(9).to_csv("more.csv", index=False)
    assert run_cli(["fit", "--from", "told-3", "--truth", "more.csv", "-q"])[0] == 0
    told = Run.open("told-4")
    assert (told.config.data.n_known_items, told.config.source.truth) == (10, "more.csv")


@pytest.mark.parametrize("words", [["--x", "x.npy"], ["--no-x"], ["--probs", "p.npy"]])
def test_the_answer_model_begins_where_that_of_the_run_before_ended(folder, monkeypatch, words):
    np.save("p.npy", np.random.default_rng(0).dirichlet(np.ones(3), 60))
    assert run_cli(["fit", "labels.csv", *words, "-q", "--out", "first"])[0] == 0
    review_first("first", 5)
    fit_with, began = (getattr(closed, name) for name in ("fit_inputs", "fit_judge")), []

    def listening(fit):
        def fit_and_say(*args, **how):
            began.append(how["start"])
            return fit(*args, **how)

        return fit_and_say

    for name, fit in zip(("fit_inputs", "fit_judge"), fit_with, strict=True):
        monkeypatch.setattr(closed, name, listening(fit))
    code, _, err = run_cli(["fit", "--from", "first", "-q"])
    assert code == 0, err
    (start,) = began
    for name, value in vars(Run.open("first").load().learned.judge.model).items():
        np.testing.assert_array_equal(getattr(start, name), value)
    assert Run.open("first-2").config.source.warm_start


def test_what_was_known_of_other_people_is_not_where_to_begin(folder):
    """An answer model of other shapes does not fit."""
    table, inputs = read_table("labels.csv", pi=["annotator", "seconds"]), load_inputs("x.npy")
    job, other = prepare(table, inputs, FitOptions()), prepare(read_table("labels.csv", pi=[]), inputs, FitOptions())
    before = closed.fit_closed(other).judge.model
    found = [closed.fit_closed(job, start=start).judge.model for start in (None, before)]
    for name, value in vars(found[0]).items():
        np.testing.assert_array_equal(getattr(found[1], name), value)


def test_networks_start_over(folder):
    table, inputs = read_table("labels.csv", pi=["annotator", "seconds"]), load_inputs("x.npy")
    run = fit_table(table, inputs, "trained", TRAINED)
    review_first("trained", 5)
    again = fit_table(table, inputs, "again", from_run=run)
    assert again.config.training == run.config.training
    assert again.config.network.name == "mlp"
    assert not again.config.source.warm_start


def test_nothing_is_to_be_set_in_a_second_fit_of_what_is_worked_out(folder):
    review_first("run", 5)
    code, _, err = run_cli(["fit", "--from", "run", "-q", "--epochs", 3])
    assert (code, "There is no 'epochs' to set" in err) == (2, True)
    assert not (folder / "run-2").exists()


def test_other_data_is_refused(folder):
    assert "Nobody has decided on a label of run" in run_cli(["fit", "--from", "run", "-q"])[2]
    review_first("run", 5)
    np.save("x.npy", np.load("x.npy") + 1)
    code, _, err = run_cli(["fit", "--from", "run", "-q"])
    assert (code, err.startswith("Error: x.npy is not as it was when run was made from it; ")) == (1, True)
    np.save("x.npy", np.load("x.npy") - 1)
    pd.read_csv("labels.csv").iloc[:-1].to_csv("labels.csv", index=False)
    code, _, err = run_cli(["fit", "--from", "run", "-q"])
    assert (code, "labels.csv is not as it was when run was made from it, or the key" in err) == (1, True)
    (folder / ".pidual.key").unlink()
    code, _, err = run_cli(["fit", "--from", "run", "-q"])
    assert (code, "There is no key of the pseudonyms" in err) == (2, True)
    assert not (folder / ".pidual.key").exists()
    assert not (folder / "run-2").exists()
    assert run_cli(["fit", "--from", "run", "--pi", "seconds"])[2] == (
        "Error: --pi is that of the run with --from; leave it out.\n"
    )
    assert "TABLE is missing" in run_cli(["fit"])[2]


@pytest.mark.parametrize(
    ("data", "source", "said"),
    [
        ({"n_annotators": 0}, {"asked": {"key_file": "victim/new.key"}}, "There is no key of the pseudonyms at victim"),
        ({"n_annotators": None}, {"table": "victim/labels.csv"}, "There is no key of the pseudonyms at victim"),
        ({}, {"asked": {"key_file": "/dev/zero"}}, "/dev/zero is not a regular file"),
        ({}, {"asked": {"key_file": "victim/fifo"}}, "victim/fifo is not a regular file"),
        ({}, {"asked": {"key_file": "victim/labels.csv"}}, "victim/labels.csv is not a key file"),
        (
            {},
            {"asked": {"key_file": 5}},
            "config.json cannot be used: source.asked.key_file must be text or null, not 5",
        ),
        ({}, {"asked": ["key_file"]}, "config.json cannot be used: source.asked must be an object"),
        ({}, {"read": {"annotators": "ab"}}, "config.json cannot be used: source.read.annotators must be a list"),
        ({}, {"table": "victim/fifo"}, "victim/fifo is not a regular file"),
        ({}, {"table": 5}, "config.json cannot be used: source.table must be text"),
        ({}, {"truth": "/dev/zero"}, "/dev/zero is not a regular file"),
    ],
)
def test_a_strangers_run_makes_no_file_anywhere_else(folder, data, source, said):
    (folder / "victim").mkdir()
    shutil.copy("labels.csv", "victim")
    os.mkfifo("victim/fifo")
    config = json.loads((folder / "run" / "config.json").read_text())
    config["data"] |= data
    for name, value in source.items():
        config["source"][name] = config["source"][name] | value if isinstance(value, dict) else value
    (folder / "run" / "config.json").write_text(json.dumps(config))
    reseal(folder / "run")
    before = sorted(folder.rglob("*"))
    code, _, err = run_cli(["fit", "--from", "run", "-q"])
    assert (code in (1, 2), said in err, err.count("\n")) == (True, True, 1), err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("network", "options", "said"),
    [
        ("timm:resnet18", {"pretrained": True}, r"\(network.pretrained\); say which to begin with"),
        ("timm:resnet18", {"checkpoint_path": "evil.pth"}, r"\(network.checkpoint_path\); say which"),
        ("timm:hf-hub:somebody/evil", {}, "is not a name of a network"),
    ],
)
def test_a_strangers_run_fetches_no_weights(folder, network, options, said):
    config = json.loads((folder / "run" / "config.json").read_text())
    config["network"] |= {"name": network, "options": options}
    (folder / "run" / "config.json").write_text(json.dumps(config))
    reseal(folder / "run")
    with pytest.raises((UsageError, RunError), match=said):
        refit_options(Run.open("run"), options={"network.weights": None})
    for name in options:
        again = refit_options(Run.open("run"), options={f"network.{name}": None})
        assert again.options[f"network.{name}"] is None


def test_another_method_knows_what_was_decided(folder):
    table, inputs = read_table("labels.csv", pi=["annotator", "seconds"]), load_inputs("x.npy")
    review_first("run", 5)
    again = fit_table(table, inputs, "ce", FitOptions(method="ce", options={"epochs": 1}), from_run="run")
    decided = read_decisions(Run.open("run"))
    decided = decided[decided["decision"] != "unsure"]
    consensus = again.predictions.frame["consensus_label"].iloc[decided["row"]].astype(str)
    assert (again.config.source.before, len(decided) > 0) == ("run", True)
    assert consensus.tolist() == decided["label"].tolist()
    with pytest.raises(RunError, match="is not a run directory"):
        fit_table(table, inputs, "new", from_run="nothing")


def test_a_wide_table_is_read_again(tmp_path):
    frame = pd.read_csv(write_crowd(tmp_path, seed=1) / "labels.csv")
    wide = frame.assign(who=frame.groupby("item").cumcount().map(lambda n: f"rater {n}"))
    wide = wide.pivot_table(index="item", columns="who", values="label", aggfunc="first").reset_index()
    wide.to_csv(tmp_path / "wide.csv", index=False)
    with contextlib.chdir(tmp_path):
        assert run_cli(["fit", "wide.csv", "--annotators", "rater*", "--no-x", "-q", "--out", "run"])[0] == 0
        review("run", [(0, "unsure", None), (1, "change", "owl")])
        code, out, err = run_cli(["fit", "--from", "run"])
        assert code == 0, err
        assert "2 decisions on run were used (1 undecided)" in out
        assert "rater" not in (tmp_path / "run-2" / "config.json").read_text()
