import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_crowd
from fabricated import Page, change_files, fabricate_run, page_of, percent, png
from figures import drawn

from pidual.api.run import Run
from pidual.errors import RunError
from pidual.metrics import detection_auc, precision_recall
from pidual.run.predictions import Predictions, read_frame
from pidual.run.records.config import Config
from pidual.run.records.reading import as_record
from pidual.show.report import build_report

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fabricate_run(tmp_path_factory.mktemp("runs") / "full", n_items=400)


@pytest.fixture(scope="module")
def page(run):
    with drawn():
        return page_of(run)


def test_numbers_equal_the_files(run, page):
    predictions = Predictions.read(run / "predictions.parquet")
    wrong = predictions.y != predictions.given
    precision, recall = precision_recall(predictions.is_issue, wrong)
    assert f"{predictions.n_issues:,} of {len(predictions):,} labels look wrong" in page.words
    assert f"Precision {percent(precision)}" in page.words
    assert f"Recall {percent(recall)}" in page.words
    assert f"{np.count_nonzero(predictions.is_issue & wrong)} of the {predictions.n_issues} flagged" in page.words
    assert f"Detection AUC {detection_auc(predictions.label_quality, wrong):.3f}" in page.words


def test_suspects_are_ranked_and_told_why(run, page):
    worst = Predictions.read(run / "predictions.parquet").issues().iloc[0]
    first = page.words.index("Why 1 ")
    start = page.words[first : first + 400]
    for value in (worst["item"], worst["given_label"], worst["predicted_label"], worst["annotator"]):
        assert str(value) in start
    beginning, rest = worst["reason"].split(". ", 1)
    assert rest in start
    assert beginning not in page.words  # the columns say it already


def test_reasons_of_runs_without_parts_are_shown_whole(tmp_path):
    run = fabricate_run(tmp_path / "old", n_items=150)
    predictions = Predictions.read(run / "predictions.parquet")
    Predictions(
        predictions.frame.drop(columns=predictions.reason_parts), predictions.classes, predictions.pi_columns
    ).write(run / "predictions.parquet")
    change_files(run)
    assert predictions.issues()["reason"].iloc[0] in page_of(run).words


def test_only_so_many_suspects_are_listed(run, tmp_path):
    page = page_of(shutil.copytree(run, tmp_path / "run"), max_suspects=5)
    assert "The 5 most suspicious of" in page.words
    assert len([1 for attrs in page.all("td") if attrs.get("class", "").startswith("rank")]) == 5


def test_the_page_stands_alone(run, page):
    html = (run / "report.html").read_text(encoding="utf-8")
    assert not page.all("script") + page.all("link") + page.all("iframe")
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", html)
    assert not re.search(r"@import|url\((?!#)", html)
    assert "default-src 'none'" in html
    assert len(html) < 600_000
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []


def test_the_page_is_well_formed_and_accessible(page):
    assert page.unclosed == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for attrs in page.all("a")} <= set(ids)
    assert all(attrs.get("role") == "img" and len(attrs["aria-label"]) > 10 for attrs in page.all("svg"))
    assert all("scope" in attrs for attrs in page.all("th"))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert len(page.all("caption")) == len(page.all("table"))


def test_charts_take_their_colours_from_the_page(run, page):
    svg = "".join(re.findall(r"<figure>.*?</figure>", (run / "report.html").read_text(encoding="utf-8"), flags=re.S))
    assert svg.count("<svg") == 8  # what is found, two scores by two splits, three curves
    assert "var(--calm)" in svg
    assert "#0a0b0" not in svg


def test_annotators_with_intervals_most_harm_first(run, page):
    people = read_frame(run / "annotators.parquet")  # by harm
    rows = zip(people["annotator"][:5], people["annotator_quality"][:5], strict=True)
    places = [page.words.index(f"{name} {percent(quality)}") for name, quality in rows]
    assert places == sorted(places)


def test_privileged_information_is_described_in_its_own_units(run, page):
    seconds = Predictions.read(run / "predictions.parquet").frame["reaction_time_s"]
    said = {
        "reaction_time_s": f"duration, median {seconds.median():.3g}, 12 missing",
        "confidence": "number, mean 0.5, standard deviation 0.25",
        "at": "moment, from 2024-01-01 00:00:00 to 2024-02-01 00:00:00",
    }
    for name, description in said.items():
        assert f"{name} {description}" in page.words


def test_pictures_are_embedded_until_they_are_too_many(run):
    names = [f"scan/{i:05d}.png" for i in range(400)]
    assert "usually" in page_of(run).words
    Run(run).write_thumbnails(pd.DataFrame({"item": names, "png": [png()] * 400}))
    page = page_of(run)
    assert page.all("img")
    assert "usually" not in page.words  # a picture says more than its unusual pixels
    assert all(attrs["src"].startswith("data:image/png;base64,iVBOR") and attrs["alt"] for attrs in page.all("img"))
    listed = [str(item) for item in Run(run).predictions.issues()["item"].unique()[:20]]
    Run(run).write_thumbnails(pd.DataFrame({"item": listed, "png": [png() + bytes(700_000)] * len(listed)}))
    heavy = page_of(run)
    assert len(heavy.all("img")) == 2
    assert (run / "report.html").stat().st_size < 3_000_000


def test_a_bare_run(tmp_path):
    """No annotators, no gate, no clean labels, no validation, one epoch."""
    run = fabricate_run(tmp_path / "bare", n_items=200, annotators=None, gate=False, clean=False, valid=False, epochs=1)
    page = page_of(run)
    for absent in ("Annotator", "Gate", "Clean label", "Checked against", "Validation", "Mean gate"):
        assert absent not in page.words
    assert "Judged by Cross-entropy" in page.words
    (run / "metrics.jsonl").unlink()
    change_files(run)
    assert "Training loss" not in page_of(run).words


def test_markup_in_labels_is_text(tmp_path):
    classes = ["<script>alert(1)</script>", "a & b", "$x_1$ {{ 7 * 7 }}", '" onload="x', "猫"]
    page = page_of(fabricate_run(tmp_path / "markup", n_items=200, classes=classes, warnings=("<u>careful</u>",)))
    assert page.unclosed == []
    assert not page.all("script") + page.all("u")
    assert not any("onload" in attrs for _, attrs in page.tags)
    for name in (*classes, "<u>careful</u>"):
        assert " ".join(name.split()) in page.words


def test_a_thousand_classes(tmp_path):
    run = fabricate_run(tmp_path / "many", n_items=4000, classes=list(range(1000)), noise=0.1)
    with drawn():
        page = page_of(run)
    assert "1,000 classes" in page.words
    assert "Given label against prediction" not in page.words
    assert (run / "report.html").stat().st_size < 600_000


@pytest.mark.parametrize(("guard", "says"), [("recovered", "was repaired"), ("lost", "do not rely on this result")])
def test_guard_events_are_shown_first(tmp_path, guard, says):
    page = page_of(fabricate_run(tmp_path / guard, n_items=150, guard=guard))
    assert says in page.words
    assert page.words.index("Epoch 5: the gate is open for every row") < page.words.index("Estimated noise")
    assert "attempts that the guard ended" in page.words


def test_rounds_of_a_closed_form_are_no_course_of_training(tmp_path):
    run = fabricate_run(tmp_path / "closed", n_items=150)
    assert "Show the course of training" in page_of(run).words
    config = json.loads((run / "config.json").read_text())
    config["network"]["name"] = "closed_form"
    change_files(run, {"run_id": as_record("config", config, Config).run_id}, config__json=json.dumps(config))
    assert "Show the course of training" not in page_of(run).words


def test_clean_data(tmp_path):
    page = page_of(fabricate_run(tmp_path / "clean", n_items=150, noise=0.0))
    assert re.search(r"None of 300 labels looks wrong|\d of 300 labels looks? wrong", page.words)


def test_numbers_that_are_not_there(tmp_path):
    run = fabricate_run(tmp_path / "unknown", n_items=150)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    first, second = (
        json.dumps(json.loads(line) | {"loss": loss}) for line, loss in zip(lines[:2], (None, 1e308), strict=True)
    )
    broken = [first, second, *lines[2:], '{"epoch": 20, "lo']
    unknown = dict.fromkeys(Run(run).summary.evaluation.to_json()) | {"score_auc": {}}
    change_files(run, {"valid_accuracy": None, "evaluation": unknown}, metrics__jsonl="\n".join(broken))
    page = page_of(run)
    assert "nan" not in page.words.lower().replace("annotator", "")
    assert "Test accuracy" not in page.words


def test_a_directory_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match=r"has no summary\.json"):
        build_report(Run(tmp_path))
    run = fabricate_run(tmp_path / "half", n_items=100)
    (run / "summary.json").write_text("{")
    with pytest.raises(RunError, match=r"summary\.json is not valid JSON"):
        build_report(Run(run))
    (run / "summary.json").unlink()
    with pytest.raises(RunError, match=r"has no summary\.json"):
        build_report(Run(run))
    assert not (run / "report.html").exists()


def test_the_same_run_gives_the_same_page(run):
    with drawn():
        assert build_report(Run(run)).read_bytes() == build_report(Run(run)).read_bytes()


def test_the_consensus_is_what_is_suggested(tmp_path):
    run = fabricate_run(tmp_path / "run", n_items=200)
    page = page_of(run)
    assert "Model says" not in page.words
    frame = read_frame(run / "predictions.parquet")
    worst = frame[frame["is_label_issue"]].sort_values("label_quality", kind="stable").iloc[0]
    said = f"Given {worst['given_label']} Consensus {worst['consensus_label']} > 99% Clean label {worst['y']}"
    assert said in page.words


def test_what_the_run_chose_and_what_goes_with_right_answers(tmp_path):
    run = fabricate_run(tmp_path / "run", n_items=100)
    page = page_of(run)
    assert "The inputs explain" not in page.words
    assert "Where answers are right more often" not in page.words
    records = [{"tau": 0.5, "sharpness": 1.0, "answer_log_likelihood": -0.5, "explained": 0.42}]
    records[0] |= {"kernels": {"linear": 0.3, "gauss": 0.7}, "misleading_rate": 0.15}
    consensus = {"accuracy": 0.9, "low": 0.7, "high": 0.95, "votes": 1.25, "answers": 3.0}
    effects = [
        {"column": column, "low": low, "high": high, "right_at_low": at_low, "right_at_high": at_high, "tells": True}
        | dict.fromkeys(("difference", "difference_low", "difference_high"), at_high - at_low)
        for column, low, high, at_low, at_high in (
            ("tool", "web", "phone", 0.6, 0.625),
            ("<b>seconds", 1.5, 12.0, 0.2, 0.9),
        )
    ]
    change_files(run, {"model_selection": records, "pi_effects": effects, "consensus": consensus})
    page = page_of(run)
    assert "The inputs explain 42% of what the answers agree on, mostly by similar items." in page.words
    assert "About 15% of the items seem to mislead" in page.words
    assert "3.0 answers to an item count as 1.2 independent ones: people may make the same mistakes." in page.words
    assert "Consensus 90.0% of the items have the right one; range 70.0% to 95.0%" in page.words
    assert "<b>seconds 1.5 20.0% 12 90.0% +70.0 points (+70.0 to +70.0 points) tool web 60.0%" in page.words
    assert "by the item and all answers to it, from 0" in page.words
    assert not page.unclosed


def test_the_report_of_a_run_shows_its_command_and_counts_epochs_from_one(tmp_path):
    write_crowd(tmp_path)
    words = ["fit", tmp_path / "labels.csv", "--x", tmp_path / "x.npy", "--out", tmp_path / "run", "--quiet"]
    slow = ["--method", "ce", "--epochs", 8, "--batch-size", 16, "--lr", 1e-9, "--set", "guard=watch"]
    _, out, err = run_cli([*words, *slow])
    run = Run.open(tmp_path / "run")
    page = Page((run.path / "report.html").read_text(encoding="utf-8"))
    assert run.config.source.command.startswith("pidual fit ")
    assert f"Made by this command: {run.config.source.command}" in page.words
    (*_, event) = run.summary.guard.events  # a network that has not learned at all
    assert out.startswith("Do not use this result: the fit failed.\n- ")
    assert "look wrong, of which" not in out
    assert event.reason not in out + err  # the report says why
    assert f"Epoch {event.epoch + 1}: {event.reason}" in page.words
