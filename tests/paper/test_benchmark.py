"""Fits that are scored, written once, continued, shared, summarised, and set beside the paper's numbers."""

import dataclasses
import json
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli
from sklearn.metrics import roc_auc_score
from tiny_benchmark import RECIPE, crowd, tiny_fit

from pidual.data import Inputs
from pidual.errors import DivergedError, RunError, UsageError
from pidual.fit.fit import train
from pidual.fit.judge import assess
from pidual.learn.engine import Interrupted, Session, make_fabric
from pidual.learn.engine.predict import predict_labels
from pidual.learn.methods import METHODS
from pidual.paper import recipes
from pidual.paper import runs as runs_module
from pidual.paper import score as score_module
from pidual.paper.recipes import load_recipe
from pidual.paper.runs import choose_methods, claimed, draw_items, plan, read_result, run_fits
from pidual.paper.score import fit_and_score, prepare_data, score, score_last, try_out
from pidual.paper.summary import read_results, summarise, summary_cells, write_summary

pytestmark = [pytest.mark.draws_figures, pytest.mark.shapes_unchecked]

LAST = {"select": "last"}
SEARCHED = {"lr": [1e-9, 0.1]}


@pytest.fixture(scope="module")
def data():
    return crowd()


@pytest.fixture(scope="module")
def result(data):
    """The result of one fit of Pi-DUAL; not to be changed."""
    return fit_and_score(data, tiny_fit().options(data.noise_rate))


# --- one fit ---


def test_scores_are_those_of_the_fit(data, result):
    job = prepare_data(data, tiny_fit().options(data.noise_rate))
    fabric = make_fabric("cpu")
    fitted = train(job, Session(fabric))
    for epoch in ("selected", "last"):
        if epoch == "last":
            fitted.method.load_state_dict(fitted.last)
        predictions = assess(job, fitted, fabric).predictions
        confidence = predictions.frame["given_probability"]  # as in the paper
        trained = job.split == 0  # as in the paper, validation rows do not count
        wrong = (data.frame["label"] != data.frame["y"]).to_numpy()[trained]
        assert result[epoch]["auc"] == pytest.approx(roc_auc_score(wrong, -confidence[trained]))
        assert result[epoch]["score_auc"]["gate"] == pytest.approx(roc_auc_score(wrong, predictions.gate[trained]))
        rows = score_module.test_rows(data)
        hits = predict_labels(fitted.method, rows, fabric) == data.y_test
        assert result[epoch]["accuracy"] == pytest.approx(hits.mean())
    assert result["selected_epoch"] == fitted.selected_epoch
    assert result["parameters"] == sum(parameter.numel() for parameter in fitted.method.parameters())
    assert result["seconds"] > 0


def test_a_result_is_ready_for_json_and_says_what_was_run(data, result):
    assert json.loads(json.dumps(result, allow_nan=False)) == json.loads(json.dumps(result))
    assert result["resolved"]["training"]["epochs"] == len(result["history"]) == 3
    assert result["resolved"]["method"]["width"] == 8
    assert result["data"]["n_train"] + result["data"]["n_valid"] == len(data.frame)
    assert result["data"]["noise_rate"] == pytest.approx(data.noise_rate, abs=1e-4)
    counts = result["histograms"]["gate"]
    assert sum(counts["correct"]) + sum(counts["wrong"]) == result["data"]["n_train"]


def test_examples_are_the_rows_with_the_highest_gate(data, result):
    job = prepare_data(data, tiny_fit().options(data.noise_rate))
    fabric = make_fabric("cpu")
    frame = assess(job, train(job, Session(fabric)), fabric).predictions.frame[job.split == 0]
    for kind, rows in (("wrong", frame[frame["given_label"].astype(int) != frame["y"].astype(int)]),):
        top = rows.nlargest(8, "gate")
        assert {row["item"] for row in result["examples"][kind]} == set(top["item"].astype(int))
    assert all(row["given"] == row["true"] for row in result["examples"]["correct"])


def test_rows_without_a_clean_label_are_trained_on_and_not_scored(data):
    unknown = data.frame["item"] % 2 == 1
    part = dataclasses.replace(data, frame=data.frame.assign(y=data.frame["y"].astype("Int64").mask(unknown)))
    fit = tiny_fit(**LAST)
    result, whole = (fit_and_score(each, fit.options(data.noise_rate)) for each in (part, data))
    assert result["last"]["accuracy"] == whole["last"]["accuracy"]
    job = prepare_data(data, fit.options(data.noise_rate))
    fabric = make_fabric("cpu")
    predictions = assess(job, train(job, Session(fabric)), fabric).predictions
    confidence = predictions.frame["given_probability"]
    judged = (job.split == 0) & ~unknown.to_numpy()
    wrong = (data.frame["label"] != data.frame["y"]).to_numpy()
    assert result["last"]["auc"] == pytest.approx(roc_auc_score(wrong[judged], -confidence[judged]))
    assert result["last"]["score_auc"]["gate"] == pytest.approx(roc_auc_score(wrong[judged], predictions.gate[judged]))
    assert result["data"]["noise_rate"] == pytest.approx(wrong[~unknown].mean(), abs=1e-4)
    for kind, rows in (("correct", judged & ~wrong), ("wrong", judged & wrong)):
        assert sum(result["histograms"]["gate"][kind]) == rows.sum()
        expected = (predictions.predicted == predictions.given)[rows].mean()
        assert result["history"][-1][f"f_{kind}"] == pytest.approx(expected, abs=1e-4)
    assert {row["item"] % 2 for kind in ("correct", "wrong") for row in result["examples"][kind]} == {0}


@pytest.mark.parametrize("method", ["forward_t", "elr", "sop", "afm"])
def test_other_methods_are_scored_too(data, method):
    result = fit_and_score(data, tiny_fit(method).options(data.noise_rate))
    assert 0 <= result["last"]["accuracy"] <= 1
    assert 0 <= result["selected"]["auc"] <= 1
    kept = {"elr": 3, "sop": 4}.get(method, 0)
    assert result["row_values"] == kept * result["data"]["n_train"]
    assert ("f_wrong" in result["history"][-1]) == (METHODS[method].stages == 1)
    assert "gate" not in result["histograms"]


def test_a_trial_takes_a_few_steps_with_the_real_networks(data):
    tried = try_out(prepare_data(data, tiny_fit().options(data.noise_rate)), steps=2, batch_size=4)
    assert math.isfinite(tried["loss"])
    whole = fit_and_score(data, tiny_fit().options(data.noise_rate))
    assert tried["parameters"] == whole["parameters"]


# --- parts of a dataset ---


def test_drawn_items_keep_their_inputs(data):
    drawn = draw_items(data, 30, 10)
    assert drawn.frame["item"].nunique() == len(drawn.x) == 30
    assert len(drawn.x_test) == len(drawn.y_test) == 10
    whole = {tuple(row): position for position, row in enumerate(data.x.tolist())}
    kept = [whole[tuple(row)] for row in drawn.x.tolist()]
    rows = data.frame[data.frame["item"].isin(kept)].reset_index(drop=True)
    assert [kept[item] for item in drawn.frame["item"]] == rows["item"].tolist()
    assert drawn.frame.drop(columns="item").equals(rows.drop(columns="item"))
    again = draw_items(data, 30, 10)
    assert np.array_equal(again.x, drawn.x)
    assert draw_items(data, None, 1000).frame is data.frame


# --- result files ---


@pytest.fixture
def counted(monkeypatch):
    """The fits that are done, in order."""
    done = []
    real = runs_module.fit_and_score

    def count(data, options, **how):
        done.append((options.method, options.seed))
        return real(data, options, **how)

    monkeypatch.setattr(runs_module, "fit_and_score", count)
    return done


def test_every_fit_is_one_file_and_is_done_once(data, tmp_path, counted):
    fits = plan(RECIPE, ["ce", "pi_dual"], 2)
    first = run_fits(fits, data, tmp_path)
    assert counted == [("ce", 0), ("pi_dual", 0), ("ce", 1), ("pi_dual", 1)]
    folder = tmp_path / "cpu" / "digits_pi-low"
    assert sorted(path.name for path in folder.iterdir()) == [
        "ce-0.json",
        "ce-1.json",
        "pi_dual-0.json",
        "pi_dual-1.json",
    ]
    assert run_fits(fits, data, tmp_path) == first
    (folder / "ce-1.json").unlink()
    run_fits(fits, data, tmp_path)
    assert counted[4:] == [("ce", 1)]
    assert first[0]["settings"]["epochs"] == 3
    assert {"commit", "date", "torch", "hardware"} <= set(first[0]["about"])
    known = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", known.read_text() if known.exists() else "", re.MULTILINE)
    assert first[0]["about"]["hardware"].startswith(names[0] if names else "")


def same(result):
    """All of a result that does not depend on when it was made."""
    history = [{name: value for name, value in record.items() if name != "seconds"} for record in result["history"]]
    return {**result, "history": history, "seconds": None, "about": None}


def test_a_fit_that_was_stopped_goes_on(data, tmp_path, monkeypatch):
    monkeypatch.setattr(runs_module, "SAVE_EVERY", 0.0)
    fit, asked = tiny_fit(), iter(range(100))
    with pytest.raises(Interrupted):
        run_fits([fit], data, tmp_path / "a", stop=lambda: next(asked) > 6)
    path = fit.path(tmp_path / "a")
    assert not path.exists()
    assert (path.with_suffix(".state") / "state.safetensors").exists()
    (resumed,) = run_fits([fit], data, tmp_path / "a")
    (whole,) = run_fits([fit], data, tmp_path / "b")
    assert same(resumed) == same(whole)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_state_of_other_settings_is_not_continued(data, tmp_path):
    asked = iter(range(100))
    with pytest.raises(Interrupted):
        run_fits([tiny_fit()], data, tmp_path, stop=lambda: next(asked) > 6)
    (result,) = run_fits([tiny_fit(lr=0.01)], data, tmp_path)
    assert {record["lr"] for record in result["history"]} == {0.01}


def test_a_fit_that_another_process_is_doing_is_left_to_it(data, tmp_path, counted):
    fits = [tiny_fit("ce"), tiny_fit("pi_dual")]
    with claimed(fits[0].path(tmp_path)) as mine:
        assert mine
        results = run_fits(fits, data, tmp_path)
    assert counted == [("pi_dual", 0)]
    assert [result["method"] for result in results] == ["pi_dual"]
    assert len(run_fits(fits, data, tmp_path)) == 2  # the claim ended without a result


def test_results_of_a_dataset_of_ones_own_have_its_name(data, tmp_path):
    wine = dataclasses.replace(data, name="../my wine: 2")
    results = run_fits([tiny_fit("ce")], wine, tmp_path)  # with the recipe of another dataset
    assert [result["dataset"] for result in results] == ["../my wine: 2"]
    assert list(summarise(results)["dataset"]) == ["../my wine: 2"]
    assert read_results(tmp_path) == results
    run_fits([tiny_fit("ce")], data, tmp_path)  # beside it, not in its place
    assert len(read_results(tmp_path)) == 2


def test_a_result_of_other_settings_is_not_taken_for_this_one(data, tmp_path):
    run_fits([tiny_fit("ce")], data, tmp_path)
    with pytest.raises(RunError, match=r"ce-0\.json was started with epochs = 3, and now it is 4"):
        run_fits([tiny_fit("ce", epochs=4)], data, tmp_path)


def other_labels(data):
    """The same data except for one label."""
    frame = data.frame.copy()
    frame.loc[0, "label"] = (frame.loc[0, "label"] + 1) % 3
    return dataclasses.replace(data, frame=frame)


def test_results_of_other_data_do_not_come_into_one_table(data, tmp_path):
    run_fits([tiny_fit("ce")], data, tmp_path)
    with pytest.raises(RunError, match=r"ce-0\.json was made with other data"):
        run_fits([tiny_fit("pi_dual")], other_labels(data), tmp_path)
    assert not tiny_fit("pi_dual").path(tmp_path).exists()
    own = run_fits([tiny_fit("ce", variant="other labels")], other_labels(data), tmp_path)  # their own affair
    assert len(own) == 1


def test_before_a_fit_only_one_result_is_read_for_its_data(data, tmp_path, monkeypatch):
    run_fits([tiny_fit("ce", seed) for seed in range(4)], data, tmp_path)
    read, real = [], runs_module.read_result
    monkeypatch.setattr(runs_module, "read_result", lambda path: read.append(path.name) or real(path))
    run_fits([tiny_fit("ce", 4)], data, tmp_path)
    assert read == ["ce-0.json", "ce-4.json"]  # the data of the others, and what is given back
    changed = other_labels(data)
    run_fits([tiny_fit("ce", variant="wide, 1%", lr=0.05)], changed, tmp_path)
    with pytest.raises(RunError, match=r"ce-wide-1-0\.json was made with other data"):
        run_fits([tiny_fit("ce", 1, variant="wide, 1%", lr=0.05)], data, tmp_path)
    assert len(run_fits([tiny_fit("ce", variant="wide", lr=0.05)], data, tmp_path)) == 1  # another variant


def test_a_variant_stands_beside_plain_results_of_the_same_data_only(data, tmp_path, monkeypatch):
    run_fits([tiny_fit("ce")], data, tmp_path)
    monkeypatch.setattr(runs_module, "load_dataset", lambda name, folder, **options: other_labels(data))
    with pytest.raises(RunError, match="was made with other data"):
        run_fits([tiny_fit("ce", variant="shallow")], tmp_path / "data", tmp_path)


def test_the_data_is_known_by_its_fingerprint(data):
    assert data.fingerprint() == dataclasses.replace(data, frame=data.frame.copy()).fingerprint()
    moved = dataclasses.replace(data, x=data.x + 1)
    assert len({data.fingerprint(), other_labels(data).fingerprint(), moved.fingerprint()}) == 3


def test_a_broken_result_is_named(tmp_path):
    (tmp_path / "y.json").write_text('{"accuracy": 1}')
    with pytest.raises(RunError, match="not a result file of this version"):
        read_result(tmp_path / "y.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(RunError, match=r"x\.json is not a result file"):
        read_result(tmp_path / "x.json")


def test_methods_by_name():
    assert choose_methods(["main"])[0] == "ce"
    assert choose_methods(["all"]) == list(METHODS)
    assert choose_methods(["elr", "ce", "elr"]) == ["elr", "ce"]
    with pytest.raises(
        UsageError, match=r"no method 'elf', did you mean 'elr'. Use one of ce, .*latent_truth, main, all."
    ):
        choose_methods(["elf"])


# --- summary ---


def made_result(dataset, method, seed, accuracy, auc, scale="paper", gate=None):
    scores = {"accuracy": accuracy, "auc": auc, "score_auc": {} if gate is None else {"gate": gate}}
    keys = {"dataset": dataset, "scale": scale, "method": method, "variant": "", "seed": seed, "settings": {"lr": 1}}
    sizes = {"seconds": 2.0, "parameters": 10, "row_values": 0, "recoveries": 0}
    data = {"whole": True, "fingerprint": dataset}
    about = {"commit": "abc", "date": "2026-01-01", "torch": "2", "hardware": "x"}
    return {**keys, "selected": scores, "last": scores, **sizes, "data": data, "about": about}


@pytest.fixture
def made():
    """Results at the paper's scale, in part at ours."""
    return [
        made_result("cifar10h", "pi_dual", 0, 0.70, 0.90, gate=0.8),
        made_result("cifar10h", "pi_dual", 1, 0.74, 0.94, gate=0.9),
        made_result("cifar10h", "ce", 0, 0.50, 0.80),
        made_result("cifar10n:worst", "ce", 0, 0.60, 0.85, scale="cpu"),
        made_result("cifar10_pi:high", "pi_dual", 0, 0.55, 0.9, scale="cpu"),
    ]


def test_the_summary_is_mean_and_deviation_over_seeds(made):
    summary = summarise(made).set_index(["dataset", "method"])
    row = summary.loc[("cifar10h", "pi_dual")]
    assert row["seeds"] == 2
    assert row["selected_accuracy"] == pytest.approx(72.0)
    assert row["selected_accuracy_std"] == pytest.approx(np.std([70.0, 74.0], ddof=1), abs=1e-4)
    assert row["last_auc"] == pytest.approx(0.92)
    assert row["selected_gate_auc"] == pytest.approx(0.85)
    assert row["paper_selected_accuracy"] == 71.3
    assert row["gap_selected_accuracy"] == pytest.approx(0.7)
    assert row["gap_last_accuracy"] == pytest.approx(72.0 - 73.8)


def test_results_of_different_data_are_not_one_table(made):
    other = {**made[1], "data": {**made[1]["data"], "fingerprint": "other"}}
    with pytest.raises(RunError, match="paper, cifar10h are from different data"):
        summarise([made[0], other])


def test_a_part_of_the_data_is_not_compared_with_the_paper(made):
    part = [{**result, "data": {**result["data"], "whole": False}} for result in made[:3]]
    assert summarise(part).filter(like="paper_").isna().all(axis=None)


def test_only_the_papers_scale_is_compared_with_the_paper(made):
    row = summarise(made).set_index(["dataset", "method"]).loc[("cifar10n:worst", "ce")]
    assert row.filter(like="paper_").isna().all()
    assert row.filter(like="gap_").isna().all()
    cells = summary_cells(summarise(made[3:4]))
    assert not [name for name in cells if "paper" in name]
    assert any("paper" in name for name in summary_cells(summarise(made[:3])))
    assert len(summarise([])) == 0


def test_fits_of_different_settings_are_not_averaged(made):
    changed = {**made[1], "settings": {"lr": 2}}
    with pytest.raises(RunError, match="paper, cifar10h, pi_dual were made with different settings"):
        summarise([made[0], changed])


def test_the_summary_is_written_with_figures(made, tmp_path):
    write_summary(tmp_path, made)
    table = pd.read_csv(tmp_path / "summary.csv")
    assert list(table["method"]) == ["pi_dual", "ce", "ce", "pi_dual"]
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["about"]["commit"] == ["abc"]
    assert written["results"][1]["paper_selected_accuracy"] is None
    for name in ("paper-cifar10h", "cpu-cifar10n-worst", "cpu-cifar10_pi-high"):
        figure = ET.parse(tmp_path / f"{name}.svg").getroot()
        assert figure.tag.endswith("svg")
        assert "pi_dual" in "".join(figure.itertext()) or name == "cpu-cifar10n-worst"
    assert "#0a0b0" not in (tmp_path / "paper-cifar10h.svg").read_text()


def test_the_papers_tables_beside_ours(made, benchmark):
    paper_table = benchmark("paper_table").paper_table
    lines = paper_table(summarise(made)).splitlines()
    rows = {tuple(line.split(" | ")[:2]): line for line in lines}
    assert "72.0 ± 2.8" in rows["| cifar10h", "pi_dual"]
    assert rows["| cifar10h", "pi_dual, gate"].endswith("| 0.982 | 0.850 ± 0.071 | 0.983 | 0.850 ± 0.071 |")
    assert "| not run | 61.5 ± 1.2 |" in rows["| cifar10h", "pi_dual, no gate"]
    assert "71.3 ± 3.3" in rows["| cifar10h", "pi_dual"]
    assert "cifar10h, paper scale" in rows["| cifar10h", "pi_dual"]
    assert "cifar10n:worst, cpu scale" in rows["| cifar10n", "ce"]
    assert "cifar10_pi:high, cpu scale" in rows["| imagenet_pi:high", "pi_dual"]
    assert "not run" in rows["| imagenet_pi:low", "pi_dual"]
    part = [{**result, "data": {**result["data"], "whole": False}} for result in made]
    assert "| cifar10h, paper scale, part of the data |" in paper_table(summarise(part))
    assert ("| imagenet_pi:low", "elr") not in rows
    assert len({line.count("|") for line in lines}) == 1


# --- the command ---


@pytest.fixture
def tiny(monkeypatch, data):
    """`pidual benchmark digits_pi` on the small crowd."""
    monkeypatch.setattr(runs_module, "load_dataset", lambda name, folder, **options: data)
    monkeypatch.setattr(
        recipes, "load_recipe", lambda name, scale: RECIPE if name == "digits_pi" else load_recipe(name, scale)
    )


def test_the_command_prints_a_table_and_repeats_nothing(tiny, tmp_path, counted):
    args = ["benchmark", "digits_pi", "--methods", "ce,pi_dual", "--out", tmp_path]
    code, out, err = run_cli(args)
    assert code == 0, err
    assert out.startswith("digits_pi:low, cpu scale, 2 seeds")
    assert "pi_dual" in out
    assert "Fit 1 of 4: digits_pi:low ce, seed 0" in err
    assert {path.name for path in tmp_path.iterdir()} == {"cpu", "cpu-digits_pi-low.svg", "summary.csv", "summary.json"}
    code, out, _ = run_cli([*args, "--json", "--quiet"])
    assert code == 0
    assert [row["method"] for row in json.loads(out)["results"]] == ["ce", "pi_dual"]
    assert len(counted) == 4


def test_settings_in_place_of_the_recipes(tiny, tmp_path, counted):
    args = ["benchmark", "digits_pi", "--methods", "elr", "--seeds", 1, "--out", tmp_path]
    code, _, err = run_cli([*args, "--set", "lam=2.0", "--set", "epochs=2", "--set", "network.depth=1"])
    assert code == 0, err
    result = json.loads((tmp_path / "cpu" / "digits_pi-low" / "elr-0.json").read_text())
    assert (result["settings"]["lam"], len(result["history"])) == (2.0, 2)
    assert result["resolved"]["network"]["options"]["depth"] == 1
    code, _, err = run_cli(
        ["benchmark", "digits_pi", "--methods", "elr,ce", "--set", "lam=2.0", "--out", tmp_path / "b"]
    )
    assert (code, "'ce' has no option 'lam'" in err) == (2, True)
    assert len(counted) == 1
    code, _, err = run_cli([*args, "--set", "lam=2.0", "--analysis", "cost"])
    assert (code, "leave --set out" in err) == (2, True)


def test_the_command_goes_on_after_an_interruption(tiny, tmp_path, monkeypatch):
    def stop(*fits, **how):
        raise Interrupted("stopped in epoch 1 of 3, step 2")

    args = ["benchmark", "digits_pi", "--methods", "ce", "--seeds", 1, "--out", tmp_path]
    with monkeypatch.context() as patched:
        patched.setattr(runs_module, "fit_and_score", stop)
        code, out, err = run_cli(args)
    assert code == 130
    assert out == ""
    assert "run the same command to continue" in err
    code, out, _ = run_cli(args)
    assert (code, out.splitlines()[0]) == (0, "digits_pi:low, cpu scale, 1 seed")


def test_a_plan_counts_fits_steps_and_operations_and_writes_nothing(tiny, data, tmp_path):
    args = ["benchmark", "digits_pi", "--methods", "ce,forward_t", "--plan", "--out", tmp_path / "o"]
    code, out, err = run_cli([*args, "--gpu", 2, "--json"])
    assert code == 0, err
    ce, forward_t = (json.loads(line) for line in out.splitlines())
    job = prepare_data(data, tiny_fit("ce").options(data.noise_rate))
    n_train, (d, width, k) = int(job.train.sum()), (data.x.shape[1], 8, 3)
    assert ce["fits"] == RECIPE.seeds
    assert ce["steps"] == RECIPE.seeds * 3 * -(-n_train // 32)
    layers = ce["parameters"] - width - k  # without biases, and the first layer needs no gradient of x
    assert ce["operations"] / ce["steps"] == pytest.approx(32 * (6 * layers - 2 * d * width), rel=0.3)
    assert ce["gpu_hours"] == pytest.approx(ce["operations"] / 2e12 / 3600)
    assert forward_t["steps"] == 2 * ce["steps"]  # two stages
    assert 12 * ce["parameters"] < ce["memory"] < 1e6
    assert not (tmp_path / "o").exists()
    code, out, _ = run_cli([*args, "--tune", "--seeds", 1])
    assert out.splitlines()[0].endswith(" hours here")
    assert "5 fits (4 of them search options)" in out


def test_options_are_searched_before_the_seeds(tiny, tmp_path, counted, monkeypatch):
    monkeypatch.setattr(recipes, "load_recipe", lambda name, scale: dataclasses.replace(RECIPE, search=SEARCHED))
    args = ["benchmark", "digits_pi", "--methods", "ce,pi_dual", "--tune", "--out", tmp_path]
    code, out, err = run_cli(args)
    assert code == 0, err
    assert "ce, tuned" in out
    for method in ("ce", "pi_dual"):
        best = json.loads((tmp_path / "cpu" / "digits_pi-low" / "tune" / method / "best.json").read_text())
        results = [read_result(tmp_path / "cpu" / "digits_pi-low" / f"{method}-{seed}.json") for seed in (0, 1)]
        assert all(result["tuned"]["options"] == best["options"] for result in results)
        assert all(result["resolved"]["training"]["lr"] == best["options"]["lr"] for result in results)
        assert (best["n_trials"], best["options"]["lr"]) == (2, 0.1)  # 1e-9 learns nothing
    assert len(counted) == 4
    code, out, err = run_cli([*args, "--analysis", "early_stopping"])  # the same fits, searched before
    assert (code, len(counted)) == (0, 4), err
    assert "Trial" not in err
    code, _, err = run_cli(args[:4] + args[5:])  # without --tune it is another benchmark
    assert (code, "use another directory" in err) == (1, True)


def test_a_search_without_a_good_end_is_a_sentence(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "load_recipe", lambda name, scale: dataclasses.replace(RECIPE, search=SEARCHED))

    def fail(*args, **how):
        raise RuntimeError("out of memory")

    monkeypatch.setattr("pidual.paper.sweep.train", fail)
    code, _, err = run_cli(["benchmark", "digits_pi", "--methods", "ce", "--tune", "--out", tmp_path, "--quiet"])
    assert (code, "No trial of ce ended well" in err) == (1, True)


def test_what_there_is_is_listed():
    code, out, _ = run_cli(["benchmark", "--list", "--json"])
    listed = json.loads(out)
    assert code == 0
    assert listed["datasets"]["cifar10_pi"]["variants"] == ["low", "high"]
    assert listed["scales"] == ["cpu", "paper"]
    assert listed["methods"] == list(METHODS)
    assert "dynamics" in listed["analyses"]
    assert "cifar10h     paper" in run_cli(["benchmark", "--list"])[1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Name a dataset: cifar10h, cifar10n, "),
        (["mnist"], "There is no dataset 'mnist'; there are cifar10h, "),
        (["digits_pi", "--methods", "elf"], "There is no method 'elf', did you mean 'elr'? Use one of ce, "),
        (["digits_pi", "--analysis", "luck"], "There is no analysis 'luck'; there are dynamics, "),
    ],
)
def test_names_that_are_not_there(args, message, tmp_path):
    code, out, err = run_cli(["benchmark", *args, "--out", tmp_path / "o"])
    assert code == 2
    assert message in err
    assert out == ""
    assert "Traceback" not in err


def test_a_last_epoch_that_diverged_counts_as_knowing_nothing(data):
    job = prepare_data(data, tiny_fit("ce").options(data.noise_rate))
    fabric = make_fabric("cpu")
    fitted = train(job, Session(fabric))
    for value in fitted.last.values():
        if value.is_floating_point():
            value.fill_(math.nan)
    expected = {"accuracy": float((data.y_test == 0).mean()), "auc": 0.5, "score_auc": {}}
    assert score_last(job, fitted, data, fabric) == expected
    with pytest.raises(DivergedError, match="smaller --lr"):
        score(job, fitted, data, fabric)


def test_an_annotation_gets_the_input_of_its_item(data):
    """Also where there are as many annotations as inputs, in another order."""
    frame = data.frame.drop_duplicates("item").reset_index(drop=True)
    job = prepare_data(dataclasses.replace(data, frame=frame), tiny_fit().options(data.noise_rate))
    assert len(frame) == len(data.x)
    assert job.rows.x_row.tolist() == frame["item"].tolist()
    as_inputs = Inputs(data.x, np.array([f"image-{i}" for i in range(len(data.x))]), "array", {})
    job = prepare_data(dataclasses.replace(data, x=as_inputs), tiny_fit().options(data.noise_rate))
    assert job.rows.x_row.tolist() == data.frame["item"].tolist()
