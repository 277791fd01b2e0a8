import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from command_line import environment, run_cli, write_crowd, write_pictures

from pidual.cli import cli
from pidual.cli.common import command_line, name_of
from pidual.learn.methods import METHODS
from pidual.run.predictions import read_frame
from pidual.run.records.reading import seal

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]

RUN_FILES = {
    *("config.json", "metrics.jsonl", "model.safetensors", "model-last.safetensors", "model.json", "summary.json"),
    *("state/state.safetensors", "predictions.parquet", "items.parquet", "annotators.parquet", "thumbnails.parquet"),
    *("previews.parquet", "annotator_classes.parquet"),
    "report.html",
}
SHORT = ("--method", "pi_dual", "--pi", "annotator,seconds", "--epochs", "4", "--batch-size", "64")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A crowd's files and, in `run`, what `pidual fit` makes of them; not to be changed."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"))
    code, out, err = fit(folder, *SHORT)
    assert code == 0, err
    (folder / "stdout").write_text(out)
    (folder / "stderr").write_text(err)
    return folder


@pytest.fixture
def own_run(crowd, tmp_path):
    """A copy of the run that a test may change."""
    return shutil.copytree(crowd / "run", tmp_path / "run")


def fit(folder, *options, table="labels.csv", x="x.npy"):
    inputs = ["--x", folder / x] if x else []
    return run_cli(["fit", folder / table, *inputs, "--out", folder / "run", *options])


def fitted(folder, *options, **files):
    """The run directory of a short fit that must succeed."""
    code, _, err = fit(folder, "--quiet", "--keep-going", *options, **files)
    assert code == 0, err
    return folder / "run"


def read_json(path):
    return json.loads(path.read_text())


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def all_contents(folder):
    """Every file below a folder as text, tables decoded."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            yield pd.read_parquet(path).to_csv()
        elif path.is_file():
            yield path.read_bytes().decode("latin-1")


# --- fit ---


def test_fit_leaves_the_files_of_a_run(crowd):
    run = crowd / "run"
    assert files_below(run) == RUN_FILES
    config, summary, model = (read_json(run / name) for name in ("config.json", "summary.json", "model.json"))
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records] == [0, 1, 2, 3]
    assert {"loss", "gate", "lr", "valid_accuracy", "seconds"} <= set(records[0])
    assert config["method"] == "pi_dual"
    assert config["training"]["epochs"] == 4
    assert [column["name"] for column in config["data"]["pi"]] == ["annotator", "seconds"]
    data = config["data"]
    assert (data["n_rows"], data["n_items"], data["n_annotators"], data["n_classes"]) == (180, 60, 6, 3)
    assert data["n_train"] + data["n_valid"] == 180
    assert data["n_valid"] == 18
    assert model["classes"] == ["cat", "dog", "owl"]
    assert 0 <= summary["estimated_noise_rate"] <= 1
    assert set(summary["evaluation"]) >= {"noise_rate", "detection_auc", "gate_auc", "test_accuracy"}


def test_fit_prints_the_outcome_on_stdout_and_progress_on_stderr(crowd):
    out, err = (crowd / "stdout").read_text(), (crowd / "stderr").read_text()
    assert out.startswith("180 labels of 60 items; ")
    assert out.endswith(f"Report: {crowd / 'run' / 'report.html'}\n")
    assert err.startswith("Training: 4 epochs of 2 steps.\n")
    assert "epoch 4/4: loss" in err
    assert "\x1b" not in out + err


def test_fit_names_the_columns_that_may_be_pi(crowd_files):
    frame = pd.read_csv(crowd_files / "labels.csv").assign(place="here")
    frame.to_csv(crowd_files / "labels.csv", index=False)
    others = [column for column in frame if column not in ("item", "label", "annotator", "y", "split")]
    err = fit(crowd_files, "--keep-going")[2]
    assert f"not used: {', '.join(others)}. Name the columns that say how a label was made" in err
    err = fit(crowd_files, "--keep-going", "--force", "--pi", "annotator,place")[2]
    assert "not used" not in err


def small_table(path, names, seed=0):
    """90 items with three answers each by people who are right for four in five."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(0, len(names), 90), 3)
    said = np.where(rng.random(270) < 0.8, truth, rng.integers(0, len(names), 270))
    frame = pd.DataFrame({"item": np.repeat(np.arange(90), 3), "annotator": list("abc") * 90})
    frame.assign(label=np.array(names)[said], y=np.array(names)[truth]).to_csv(path, index=False)
    return frame.assign(label=np.array(names)[said])


@pytest.mark.parametrize(
    ("names", "scale"),
    [
        ("1 2 3 4 5", True),
        ("-1 0 1", True),
        ("1 2", False),
        ("1 2 4", False),
        ("0 1 2 3", False),
        (" ".join(map(str, range(11))), True),
        ("a b c", False),
    ],
)
def test_fit_asks_whether_whole_numbers_are_a_scale(tmp_path, names, scale):
    frame = small_table(tmp_path / "labels.csv", names.split())
    err = fit(tmp_path, "--no-x", "--keep-going", x=None)[2]
    words = f"labels are {names.split()[0]} to {names.split()[-1]}. If this is a scale, use --levels "
    assert (f"{words}{names.replace(' ', ',')} --truth-classes LOW,HIGH." in err) == ("a scale" in err) == scale
    frame.drop_duplicates("item").to_csv(tmp_path / "labels.csv", index=False)  # one answer each shows no scale
    assert "a scale" not in fit(tmp_path, "--no-x", "--keep-going", "--force", x=None)[2]


def test_fit_asks_for_the_item_of_a_wide_table(tmp_path):
    frame = small_table(tmp_path / "long.csv", ["cat", "dog"])
    wide = frame.pivot_table("label", "item", "annotator", aggfunc="first").add_prefix("dr_").reset_index(drop=True)
    wide = wide.assign(slide=[f"S{row}" for row in range(90)], place=["here", "there"] * 45)
    wide.to_csv(tmp_path / "labels.csv", index=False)
    err = fit(tmp_path, "--no-x", "--annotators", "dr_*", x=None)[2]
    assert "column slide differs in every row: is it the item? Then --item slide." in err
    assert "not used: place. Name the columns" in err
    err = fit(tmp_path, "--no-x", "--annotators", "dr_*", "--item", "slide", "--force", x=None)[2]
    assert "is it the item" not in err


def test_fit_counts_the_checked_items_that_the_consensus_is_right_for(tmp_path):
    small_table(tmp_path / "all.csv", ["cat", "dog"])
    frame = pd.read_csv(tmp_path / "all.csv")
    frame.assign(y=frame["y"].where(frame["item"] < 25)).to_csv(tmp_path / "labels.csv", index=False)
    of_some = " They only measure; as known classes (--truth) they correct all numbers."
    for table, n, more in (("labels.csv", 25, of_some), ("all.csv", 90, "")):
        code, out, err = fit(tmp_path, "--no-x", "--force", table=table, x=None)
        assert code == 0, err
        items = read_frame(tmp_path / "run" / "items.parquet")
        y = frame.drop_duplicates("item").set_index("item")["y"]
        right = items["consensus_label"].astype(str).to_numpy() == y[items["item"].astype(int)].to_numpy()
        n_right = int(right[(items["item"].astype(int) < n).to_numpy()].sum())
        assert f"Of {n} checked items the consensus is right for {n_right}.{more}" in out
        assert ("--truth" in out) == bool(more)


def test_fit_asks_whether_people_gave_the_labels(crowd_files):
    frame = pd.read_csv(crowd_files / "labels.csv").rename(columns={"annotator": "agent"})
    frame.to_csv(crowd_files / "labels.csv", index=False)
    err = fit(crowd_files, "--keep-going", "--pi", "agent")[2]
    assert "agent holds people, but no column says who gave each label" in err
    err = fit(crowd_files, "--keep-going", "--force", "--annotator", "agent")[2]
    assert "holds people" not in err


def test_every_row_and_class_name_is_in_the_predictions(crowd):
    labels = pd.read_csv(crowd / "labels.csv")
    predictions = read_frame(crowd / "run" / "predictions.parquet")
    assert predictions["row"].tolist() == list(range(180))
    assert predictions["item"].tolist() == labels["item"].tolist()
    assert predictions["given_label"].tolist() == labels["label"].tolist()
    assert predictions["y"].tolist() == labels["y"].tolist()
    assert set(predictions["predicted_label"]) <= {"cat", "dog", "owl"}
    assert predictions["label_quality"].between(0, 1).all()
    assert predictions["gate"].between(0, 1).all()
    np.testing.assert_allclose(predictions["seconds"], labels["seconds"], rtol=1e-6)
    items = read_frame(crowd / "run" / "items.parquet")
    assert items["num_annotations"].tolist() == [3] * 60
    assert set(items["consensus_label"]) <= {"cat", "dog", "owl"}
    annotators = read_frame(crowd / "run" / "annotators.parquet")
    assert annotators["num_labelled"].sum() == 180
    assert set(annotators["worst_class"].dropna()) <= {"cat", "dog", "owl"}
    assert "owl" in (crowd / "run" / "report.html").read_text()


def test_raw_annotator_ids_are_in_no_file_and_no_message(crowd):
    texts = [*all_contents(crowd / "run"), (crowd / "stdout").read_text(), (crowd / "stderr").read_text()]
    texts += run_cli(["detect", crowd / "run", "--cutoff", "auto"])[1:]
    assert not any(re.search(r"person\d|example\.org", text) for text in texts)
    assert any(re.search(r"\ba-[0-9a-f]{12}\b", text) for text in texts)
    assert not (crowd / "run" / ".pidual.key").exists()


def test_settings_reach_method_training_and_network(crowd_files):
    settings = ["width=32", "random_pi=3", "momentum=0.5", "clip=none", "schedule=constant", "network.dropout=0.1"]
    settings = [word for pair in settings for word in ("--set", pair)]
    run = fitted(crowd_files, "--method", "pi_dual", *settings, "--lr", "0.02", "--epochs", "2")
    config = read_json(run / "config.json")
    assert (config["method_options"]["width"], config["method_options"]["random_pi"]) == (32, 3)
    training = config["training"]
    assert (training["momentum"], training["clip"], training["schedule"]) == (0.5, None, "constant")
    assert (training["lr"], training["epochs"]) == (0.02, 2)
    assert config["network"]["options"]["dropout"] == 0.1


def test_threads_are_chosen_by_option(crowd_files, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    run = fitted(crowd_files, "--method", "ce", "--epochs", "1", "--threads", "2")
    assert read_json(run / "config.json")["hardware"]["threads"] == 2
    for method in ("ce", "latent_truth"):
        code, _, err = fit(crowd_files, "--force", "--method", method, "--threads", "3")
        assert (code, err) == (2, "Error: threads must be a whole number from 1 to 2, the number of cores, not 3.\n")


def test_paper_setting_and_another_method(crowd_files):
    run = fitted(crowd_files, "--setting", "paper", "--epochs", "2")
    config = read_json(run / "config.json")
    assert config["method_options"]["random_pi"] == 8
    assert (config["training"]["batch_size"], config["training"]["schedule"]) == (256, "steps")
    assert (config["setting"], config["seed"]) == ("paper", 0)
    run = fitted(crowd_files, "--method", "ce", "--epochs", "1", "--force", "--seed", "7")
    assert read_json(run / "config.json")["method"] == "ce"
    assert read_json(run / "config.json")["training"]["seed"] == 7
    assert "gate" not in read_frame(run / "predictions.parquet")


def test_fit_summary_as_json_without_progress(crowd_files):
    code, out, err = fit(crowd_files, "--quiet", "--json", "--pi", "annotator,seconds")
    assert (code, err) == (0, "")
    assert json.loads(out)["run"] == str(crowd_files / "run")
    assert json.loads(out)["n_issues"] == read_json(crowd_files / "run" / "summary.json")["n_issues"]


def test_run_directory_has_the_name_of_the_table(crowd_files, monkeypatch):
    monkeypatch.chdir(crowd_files)
    code, out, _ = run_cli(["fit", "labels.csv", "--x", "x.npy", "-q"])
    assert code == 0
    assert files_below(crowd_files / "runs" / "labels") == {*RUN_FILES}
    assert "Report: runs/labels/report.html" in out


def test_crowd_kit_columns_with_inputs_by_task(crowd_files):
    frame = pd.read_csv(crowd_files / "labels.csv").rename(columns={"item": "task", "annotator": "worker"})
    frame.to_csv(crowd_files / "labels.csv", index=False)
    x = pd.DataFrame(np.load(crowd_files / "x.npy"), columns=list("abcd"))
    x.assign(task=x.index).sample(frac=1, random_state=0).to_csv(crowd_files / "x.csv", index=False)
    options = ["--pi", "worker:category,seconds:number"]
    by_task = read_frame(fitted(crowd_files, *options, x="x.csv") / "predictions.parquet")
    by_number = read_frame(fitted(crowd_files, *options, "--force") / "predictions.parquet")
    assert by_task["annotator"].str.startswith("a-").all()
    np.testing.assert_allclose(by_task["label_quality"], by_number["label_quality"], atol=1e-5)
    pi = read_json(crowd_files / "run" / "config.json")["data"]["pi"]
    assert [(column["name"], column["kind"]) for column in pi] == [("annotator", "category"), ("seconds", "number")]


def test_text_from_table_to_prediction(crowd_files):
    words = {"cat": "it purrs and says meow", "dog": "it barks and wags its tail", "owl": "it hoots all night long"}
    frame = pd.read_csv(crowd_files / "labels.csv")
    frame["note"] = frame["y"].map(words) + " " + (frame["item"] % 4).map("on page {}".format)
    frame.to_csv(crowd_files / "labels.csv", index=False)
    run = fitted(crowd_files, "--x-text", "note", x=None)
    new = pd.DataFrame({"item": ["n1", "n2", "n3"], "note": [*words.values()], "y": [*words]})
    new.to_json(crowd_files / "new.jsonl", orient="records", lines=True)
    code, out, err = run_cli(["predict", run, crowd_files / "new.jsonl", "--json"])
    assert code == 0, err
    assert [row["item"] for row in json.loads(out)] == ["n1", "n2", "n3"]
    assert [row["predicted_label"] for row in json.loads(out)] == ["cat", "dog", "owl"]
    _, out, _ = run_cli(["predict", run, crowd_files / "new.jsonl", "--y", crowd_files / "new.jsonl", "--json"])
    assert json.loads(out) == {"accuracy": 1.0, "n": 3}


@pytest.mark.parametrize("options", [[], ["--network", "small_cnn", "--epochs", 2]], ids=["default", "small_cnn"])
def test_folder_of_images_to_report_with_thumbnails(tmp_path, options):
    write_pictures(tmp_path)
    run = fitted(tmp_path, *options, table="pictures.csv", x="pictures")
    assert read_json(run / "config.json")["network"]["name"] == ("small_cnn" if options else "closed_form")
    assert len(read_frame(run / "thumbnails.parquet")) == 24
    code, _, err = run_cli(["detect", run, "--budget", "5"])
    assert code == 0, err
    assert (run / "report.html").read_text().count("data:image/png;base64,") >= 3
    code, out, err = run_cli(["predict", run, tmp_path / "pictures"])
    assert code == 0, err
    assert pd.read_csv(io.StringIO(out))["item"].tolist() == [f"p{number:02}.png" for number in range(24)]


# --- predict ---


def test_predictions_as_csv_parquet_and_json(crowd, tmp_path):
    code, out, err = run_cli(["predict", crowd / "run", crowd / "x_test.npy"])
    assert (code, err) == (0, "")
    frame = pd.read_csv(io.StringIO(out))
    assert list(frame) == ["item", "predicted_label", "predicted_probability", "p_cat", "p_dog", "p_owl"]
    assert frame["item"].tolist() == list(range(20))
    p = frame[["p_cat", "p_dog", "p_owl"]]
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert p.idxmax(axis=1).str[2:].tolist() == frame["predicted_label"].tolist()
    for ending, read in {"csv": pd.read_csv, "parquet": pd.read_parquet}.items():
        path = tmp_path / f"p.{ending}"
        assert run_cli(["predict", crowd / "run", crowd / "x_test.npy", "--out", path]) == (0, "", "")
        assert read(path)["predicted_label"].tolist() == frame["predicted_label"].tolist()
    assert files_below(tmp_path) == {"p.csv", "p.parquet"}
    _, out, _ = run_cli(["predict", crowd / "run", crowd / "x_test.npy", "--json"])
    assert [row["predicted_label"] for row in json.loads(out)] == frame["predicted_label"].tolist()


def test_accuracy_against_clean_labels_in_order_and_by_item(crowd, tmp_path):
    run, y = crowd / "run", pd.read_csv(crowd / "y_test.csv")
    predicted = pd.read_csv(io.StringIO(run_cli(["predict", run, crowd / "x_test.npy"])[1]))["predicted_label"]
    accuracy = (predicted == y["y"]).mean()
    assert 0 < accuracy < 1 or pytest.fail("the labels would not tell one order from another")
    y.assign(item=y.index).iloc[::-1].iloc[[*range(20), 3]].to_csv(tmp_path / "named.csv", index=False)
    (tmp_path / "y.txt").write_text("\n".join(y["y"]) + "\n")
    for path in (crowd / "y_test.csv", tmp_path / "named.csv", tmp_path / "y.txt"):
        code, out, err = run_cli(["predict", run, crowd / "x_test.npy", "--y", path, "--json"])
        assert (code, err) == (0, "")
        assert json.loads(out) == {"accuracy": pytest.approx(accuracy), "n": 20}
    code, out, _ = run_cli(["predict", run, crowd / "x_test.npy", "--y", crowd / "y_test.csv"])
    assert out == f"accuracy {accuracy:.4f} on 20 inputs\n"


def test_clean_labels_that_are_no_classes_are_refused(crowd, tmp_path):
    y = pd.read_csv(crowd / "y_test.csv")
    y.assign(y=y["y"].str.upper() + "!").to_csv(tmp_path / "other.csv", index=False)
    code, out, err = run_cli(["predict", crowd / "run", crowd / "x_test.npy", "--y", tmp_path / "other.csv"])
    assert (code, out) == (1, "")
    assert "no label is a class of the model" in err


# --- detect, report, methods ---


def test_a_budget_is_met_and_the_run_stays_as_it_is(own_run):
    before = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
    code, out, err = run_cli(["detect", own_run, "--budget", "7"])
    assert code == 0
    issues = pd.read_csv(io.StringIO(out))
    assert len(issues) == 7
    assert issues["label_quality"].is_monotonic_increasing
    assert (issues["reason"].str.len() > 10).all()
    predictions = read_frame(own_run / "predictions.parquet")
    assert predictions["label_quality"].nsmallest(7).max() == pytest.approx(issues["label_quality"].max(), abs=5e-5)
    wrong = (1 - issues["label_quality"]).mean()
    assert wrong > 0.995
    assert err == "7 labels listed; over 99% expected to be wrong.\n"
    assert {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()} == before


def test_a_fixed_cutoff(own_run, tmp_path):
    code, out, err = run_cli(["detect", own_run, "--cutoff", "0.3", "--out", tmp_path / "issues.parquet"])
    assert (code, out) == (0, "")
    assert "labels listed" in err
    issues = pd.read_parquet(tmp_path / "issues.parquet")
    assert (issues["label_quality"] < 0.3).all()
    code, out, err = run_cli(["detect", own_run, "--cutoff", "0.3", "--json"])
    found, summary = json.loads(out), read_json(own_run / "summary.json")
    assert (found["n_listed"], found["n_rows"], err) == (len(issues), 180, "")
    assert found["share"] == pytest.approx(len(issues) / 180)
    assert found["expected_precision"] == pytest.approx((1 - issues["label_quality"]).mean(), abs=1e-6)
    assert (found["n_issues"], found["cutoff"]) == (summary["n_issues"], summary["cutoff"])


def test_labels_of_each_class_and_of_some_annotators(own_run, tmp_path):
    code, out, _ = run_cli(["detect", own_run, "--per-class", "2"])
    issues = pd.read_csv(io.StringIO(out))
    assert code == 0
    assert issues["given_label"].value_counts().to_dict() == {"cat": 2, "dog": 2, "owl": 2}
    who = issues["annotator"].iloc[0]
    args = ["detect", own_run, "--class", "cat", "--class", "owl", "--by", who, "--budget", 3]
    assert run_cli([*args, "--out", tmp_path / "some.json"])[0] == 0
    found = json.loads((tmp_path / "some.json").read_text())
    assert len(found) == 3
    assert {row["annotator"] for row in found} == {who}
    assert {row["given_label"] for row in found} <= {"cat", "owl"}
    assert all(row["reason"] for row in found)
    code, out, err = run_cli(["detect", own_run, "--class", "cow"])
    assert (code, out, err) == (2, "", "Error: There is no class 'cow'; known are cat, dog, owl.\n")


def test_too_many_issues_is_exit_code_3(own_run):
    n = read_json(own_run / "summary.json")["n_issues"]
    code, out, err = run_cli(["detect", own_run, "--fail-over", "1%"])
    assert code == 3
    assert len(out.splitlines()) == n + 1
    assert err.endswith(f"{n} of 180 labels look wrong ({n / 180:.1%}), more than the 1.0% allowed.\n")
    assert run_cli(["detect", own_run, "--fail-over", "0.9", "--json"])[0] == 0
    code, out, err = run_cli(["detect", own_run, "--fail-over", "5%", "--budget", 3])
    assert (code, out) == (2, "")
    assert "--fail-over counts all labels" in err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"verdict": {"status": "failed", "reasons": ["It learned nothing."]}}, "It learned nothing"),
        ({"verdict": {"status": "failed", "reasons": []}}, "training collapsed"),
    ],
)
def test_a_failed_fit_passes_no_gate(own_run, change, why):
    summary = read_json(own_run / "summary.json") | change
    (own_run / "summary.json").write_text(json.dumps(seal(summary)))
    code, out, err = run_cli(["detect", own_run, "--fail-over", "90%"])
    assert (code, out) == (1, "")
    assert err == f"Error: The fit in {own_run} failed ({why}), so its labels were not judged; fit again.\n"
    code, _, err = run_cli(["detect", own_run])
    assert code == 0
    assert ("Warning: the fit failed: It learned nothing." in err) == (why == "It learned nothing")


def test_a_doubtful_fit_says_so(own_run):
    verdict = {"status": "doubtful", "reasons": ["Held-out labels contradict it."]}
    summary = read_json(own_run / "summary.json") | {"verdict": verdict}
    (own_run / "summary.json").write_text(json.dumps(seal(summary)))
    code, _, err = run_cli(["detect", own_run, "--fail-over", "90%"])
    assert code == 0
    assert "Warning: the fit is doubtful: Held-out labels contradict it." in err


def test_report_is_built_again(own_run):
    (own_run / "report.html").unlink()
    assert run_cli(["report", own_run]) == (0, f"{own_run / 'report.html'}\n", "")
    assert "<html" in (own_run / "report.html").read_text()[:200]


def test_methods_are_listed():
    code, out, err = run_cli(["methods"])
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()] == list(METHODS)
    assert "keeps u (1) and v (K) per row" in out
    rows = {row["name"]: row for row in json.loads(run_cli(["methods", "--json"])[1])}
    fields = {"name", "title", "reference", "uses_pi", "networks", "stages", "per_row_state", "scores"}
    assert all(set(row) == fields for row in rows.values())
    assert rows["pi_dual"]["uses_pi"]
    assert rows["pi_dual"]["scores"] == ["confidence", "gate"]
    assert not rows["ce"]["uses_pi"]
    assert rows["elr"]["per_row_state"]
    assert rows["ce"]["per_row_state"] is None


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.scores[1:] or method.stages > 1])
def test_any_method_fits_scores_and_predicts(method, tmp_path):
    folder = write_crowd(tmp_path)
    short = [] if method == "latent_truth" else ["--epochs", "4"]
    run = fitted(folder, "--method", method, "--pi", "annotator,seconds", *short)
    predictions, scores = read_frame(run / "predictions.parquet"), METHODS[method].scores[1:]
    trained = predictions["split"] == "train"
    assert all(predictions.loc[trained, score].notna().all() for score in scores)
    assert set(read_json(run / "summary.json")["evaluation"]["score_auc"]) == set(scores)
    report = (run / "report.html").read_text()
    assert METHODS[method].title in report
    if method == "latent_truth":  # the default: no word that only its makers know
        assert not re.search(
            r"(?i)\b(gate|tau|log.likelihood|weight decay|dropout)\b", report.split('id="settings"')[0]
        )
    else:
        assert all(f"{score.replace('_', ' ').capitalize()} AUC" in report for score in scores)
    code, out, err = run_cli(["predict", run, folder / "x_test.npy", "--y", folder / "y_test.csv", "--json"])
    assert code == 0, err
    assert 0 <= json.loads(out)["accuracy"] <= 1


def test_options_of_a_method_are_set_by_name_and_wrong_ones_refused(tmp_path):
    folder = write_crowd(tmp_path)
    options = ["--pi", "annotator,seconds", "--method", "pi_dual", "--epochs", "1", "--set"]
    run = fitted(folder, *options, "depth=2", "--set", "gate_bias=-3.0")
    assert read_json(run / "config.json")["method_options"]["depth"] == 2
    code, _, err = fit(folder, "--force", *options, "depth=1")
    assert code != 0
    assert "The option depth of the method 'pi_dual' must be at least 2, not 1" in err
    code, _, err = fit(folder, "--force", "--method", "sop", "--set", "memory=paper")
    assert code != 0
    assert "memory must be auto, memory or disk, not 'paper'" in err


# --- the command itself ---


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(cli.commands))])
def test_every_command_and_option_has_help(command):
    result = CliRunner().invoke(cli, [*command, "--help"])
    assert result.exit_code == 0
    target = cli.commands[command[0]] if command else cli
    assert target.help
    assert all(parameter.help for parameter in target.params if parameter.param_type_name == "option")


def test_threads_that_wait_sleep():
    outside = {name: value for name, value in environment().items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-m", "pidual", "methods"]
    shown = {"OMP_DISPLAY_ENV": "true"}  # by the library that has the threads, when it is loaded
    done = subprocess.run(command, env=outside | shown, check=True, capture_output=True, text=True)
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr


def test_only_the_first_process_speaks(crowd, monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert run_cli(["detect", crowd / "nothing"]) == (1, "", "")
    assert run_cli(["detect"]) == (2, "", "")


def test_ctrl_c_before_training_is_one_line(crowd_files, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("pidual.data.read_table", interrupt)
    code, out, err = fit(crowd_files)
    assert (code, out, err.strip()) == (130, "", "Interrupted.")
    assert not (crowd_files / "run").exists()


def test_errors_of_the_system_are_a_sentence(own_run, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, os.strerror(28), str(own_run / "report.html"))

    monkeypatch.setattr("pidual.api.run.build_report", fail)
    code, out, err = run_cli(["report", own_run])
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: Cannot write {own_run / 'report.html'} (No space left on device); free some space")


def test_reading_a_long_table_is_said_at_once(crowd_files, monkeypatch):
    monkeypatch.setattr("pidual.cli.fit.LONG_TABLE", 100)
    command = ["fit", crowd_files / "labels.csv", "--label", "answer"]  # there is no such column
    assert "labels.csv (0 MB)." in run_cli(command)[2]
    assert "MB" not in run_cli([*command, "--quiet"])[2]


@pytest.mark.parametrize(
    ("program", "said"),
    [("/home/me/.venv/bin/pidual", "pidual"), ("/opt/lib/pidual/__main__.py", "python -m pidual")],
)
def test_the_command_is_kept_without_the_place_of_the_program(monkeypatch, program, said):
    monkeypatch.setattr(sys, "argv", [program, "fit", "my labels.csv", "--quiet"])
    assert command_line() == f"{said} fit 'my labels.csv' --quiet"


@pytest.mark.parametrize(
    ("table", "name"),
    [("labels.csv", "labels"), ("a/v1.2.csv", "v1"), (".", "team"), ("..", "work"), (".labels.csv", "labels")],
)
def test_a_run_is_named_after_its_table_or_folder(monkeypatch, tmp_path, table, name):
    (tmp_path / "work" / "team").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work" / "team")
    assert name_of(Path(table)) == name


def test_labels_whose_items_are_in_another_order_are_taken_in_order_as_in_fit(crowd, tmp_path):
    y = pd.read_csv(crowd / "y_test.csv")
    y.assign(item=y.index[::-1]).to_csv(tmp_path / "y.csv", index=False)
    code, out, err = run_cli(["predict", crowd / "run", crowd / "x_test.npy", "--y", tmp_path / "y.csv"])
    assert (code, out) == run_cli(["predict", crowd / "run", crowd / "x_test.npy", "--y", crowd / "y_test.csv"])[:2]
    assert "is read in order" in err
