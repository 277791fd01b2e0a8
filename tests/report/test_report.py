import json
import math
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pidual.detect import Posteriors, describe_annotators, describe_items, mark_issues
from pidual.errors import RunError
from pidual.metrics import detection_auc, finite_or_none, precision_recall
from pidual.predictions import Predictions, read_frame, write_frame
from pidual.report import build_report

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def fabricate_run(
    path: Path,
    *,
    n_items: int = 900,
    classes: list | None = None,
    annotators: int | None = 24,
    gate: bool = True,
    clean: bool = True,
    valid: bool = True,
    epochs: int = 20,
    guard: str | None = None,
    consensus: bool = True,
    warnings: tuple[str, ...] = (),
    noise: float = 0.25,
    seed: int = 0,
) -> Path:
    """A run directory as `pidual fit` leaves it, of a crowd whose members are of different quality and speed."""
    rng = np.random.default_rng(seed)
    classes = DIGITS if classes is None else classes
    k, n = len(classes), 2 * n_items
    y = rng.integers(0, k, n_items)
    item = rng.permutation(np.repeat(np.arange(n_items), 2))
    people = annotators or 1
    error = np.clip(rng.beta(1, 1 / max(noise, 1e-6) - 1, people), 0, 1) if noise else np.zeros(people)
    who = rng.integers(0, people, n)
    wrong = rng.random(n) < error[who]
    given = np.where(wrong, (y[item] + rng.choice([1, 2, 5], n, p=[0.6, 0.3, 0.1])) % k, y[item])
    frame = pd.DataFrame(
        {
            "item": pd.Categorical.from_codes(item, [f"scan/{i:05d}.png" for i in range(n_items)]),
            "label": pd.Categorical.from_codes(given, pd.Index(classes)),
            "reaction_time_s": np.round(rng.lognormal(0.8, 0.5, n) * np.where(wrong, 0.4, 1), 2),
            "tool": pd.Categorical.from_codes(rng.integers(0, 2, n), ["web", "phone"]),
        }
    )
    if annotators:
        frame["annotator"] = pd.Categorical.from_codes(who, [f"a-{17 * i + 40960:012x}" for i in range(people)])
    if clean:
        frame["y"] = pd.Categorical.from_codes(y[item], pd.Index(classes))
    logits = rng.normal(0, 1, (n_items, k))
    logits[np.arange(n_items), y] += rng.normal(6 + math.log(k), 2, n_items)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    predicted = p.argmax(1)[item]
    posteriors = Posteriors.empty(n_items, n, k)
    posteriors.put(np.arange(n_items), p.astype(np.float32), np.arange(n), item, given)
    opened = np.clip(rng.normal(0.2 + 0.6 * wrong, 0.12), 0, 1)
    predictions = Predictions.build(
        frame,
        classes,
        predicted=predicted,
        predicted_probability=p.max(1)[item],
        label_quality=p[item, given],
        consensus=predicted if consensus else None,
        consensus_quality=p.max(1)[item] if consensus else None,
        gate=opened if gate else None,
        noise=given if gate else None,
        split=np.where(rng.random(n) < 0.1, "valid", "train"),
        pi_columns=["reaction_time_s", "tool"] + ["annotator"] * bool(annotators),
    )
    predictions, cutoff = mark_issues(predictions)
    path.mkdir(parents=True, exist_ok=True)
    predictions.write(path / "predictions.parquet")
    table = describe_annotators(predictions, posteriors.right)
    if table is not None:
        write_frame(path / "annotators.parquet", table)
    write_frame(path / "items.parquet", describe_items(predictions, posteriors))
    _write_records(path, predictions, cutoff, table, frame, valid, epochs, guard, warnings)
    return path


def _write_records(path, predictions, cutoff, table, frame, valid, epochs, guard, warnings):
    n, gate = len(predictions), predictions.gate
    evaluation = None
    if predictions.y is not None:
        wrong = predictions.y != predictions.given
        precision, recall = precision_recall(predictions.is_issue, wrong)
        auc = {"detection_auc": detection_auc(predictions.label_quality, wrong)}
        auc |= {} if gate is None else {"gate_auc": detection_auc(1 - gate, wrong)}
        evaluation = {"noise_rate": float(wrong.mean()), **auc, "test_accuracy": 0.936}
        evaluation |= {"issue_precision": precision, "issue_recall": recall}
    events = [
        {
            "epoch": 4,
            "reason": "the gate is open for every row (mean 0.99)",
            "action": "started again, gradients clipped at 1.0",
        }
    ]
    summary = {
        "n_issues": predictions.n_issues,
        "estimated_noise_rate": cutoff.estimated_noise_rate,
        "cutoff": cutoff.to_json(),
        "selected_epoch": epochs - 1,
        "valid_accuracy": 0.741 if valid else None,
        "seconds": 41.2,
        "guard": {"recovered": guard == "recovered", "collapsed": guard == "lost", "events": events if guard else []},
        "warnings": list(warnings),
        "evaluation": evaluation and {name: finite_or_none(value) for name, value in evaluation.items()},
    }
    config = {
        "pidual": "0.1.0",
        "created": "2026-03-02T09:41:07+00:00",
        "command": "pidual fit labels.csv --x scans/ --pi annotator,reaction_time_s,tool",
        "method": "ce" if gate is None else "pi_dual",
        "setting": "default",
        "seed": 0,
        "source": {"table": "labels.csv", "x": "scans/"},
        "data": {
            "table": "labels.csv",
            "x": "scans/",
            "n_rows": n,
            "n_items": int(frame["item"].nunique()),
            "n_annotators": None if table is None else len(table),
            "n_classes": len(predictions.classes),
            "n_train": n - n // 10,
            "n_valid": n // 10,
            "n_test": 0,
            "fingerprint": "9f1c27a4e0b35d68",
            "x_shape": [int(frame["item"].nunique()), 12],
            "x_fingerprint": "1d4e8a90b7f2c365",
            "pi": [
                {"name": "annotator", "kind": "categorical", "n_categories": 24, "n_missing": 0},
                {"name": "reaction_time_s", "kind": "duration", "median": 2.125, "n_missing": 12},
                {"name": "confidence", "kind": "number", "mean": 0.5, "std": 0.25, "n_missing": 0},
                {"name": "at", "kind": "number", "first": "2024-01-01", "last": "2024-02-01", "n_missing": 0},
            ],
        },
        "method_options": {"width": 64, "random_pi": 0},
        "training": {"epochs": epochs, "batch_size": 128, "lr": 0.05, "optimizer": {"name": "sgd", "momentum": 0.9}},
        "network": {"name": "mlp", "in_shape": [12], "options": {"width": 256}},
        "versions": {"python": "3.11.9", "torch": "2.13.0", "numpy": "2.4.6"},
        "hardware": {"device": "cpu", "threads": 2},
    }
    lines = []
    for attempt in range(2 if guard else 1):
        for epoch in range(6 if guard and not attempt else epochs):
            line = {"epoch": epoch, "attempt": attempt, "lr": 0.05, "loss": 2.2 * 0.9**epoch + 0.4, "seconds": 2.0}
            line |= {"valid_accuracy": 0.741 - 0.5 * 0.7**epoch} if valid else {}
            line |= (
                {}
                if gate is None
                else {"gate": 0.5 - 0.2 * (1 - 0.8**epoch) + 0.3 * (guard is not None and not attempt)}
            )
            lines.append(json.dumps(line))
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


class Page(HTMLParser):
    """The parts of a page that tests look at."""

    VOID = ("meta", "img", "br", "link", "hr", "input")

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.text, self.open, self.unclosed = [], [], [], []
        self.feed(html)
        self.unclosed += self.open
        self.words = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unclosed.append(f"/{tag}")

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def page_of(run: Path, **options) -> Page:
    return Page(build_report(run, **options).read_text(encoding="utf-8"))


def percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share in (0, 1) else f"{100 * share:.1f}%"


def png(side: int = 8) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * side) * side))
        + chunk(b"IEND", b"")
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return fabricate_run(tmp_path_factory.mktemp("runs") / "full", n_items=400)


@pytest.fixture(scope="module")
def page(run) -> Page:
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


def test_only_so_many_suspects_are_listed(run):
    page = page_of(run, max_suspects=5)
    assert "The 5 most suspicious of" in page.words
    assert len([1 for attrs in page.all("td") if attrs.get("data-label") == "Rank"]) == 5


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
    assert svg.count("<svg") == 7  # two scores by two splits, three curves
    assert "var(--calm)" in svg
    assert "#0a0b0" not in svg


def test_annotators_with_intervals_worst_first(run, page):
    people = read_frame(run / "annotators.parquet").sort_values("quality_high")
    rows = zip(people["annotator"][:5], people["annotator_quality"][:5], strict=True)
    places = [page.words.index(f"{name} {percent(quality)}") for name, quality in rows]
    assert places == sorted(places)


def test_privileged_information_is_described_in_its_own_units(page):
    said = {
        "reaction_time_s": "duration, median 2.12, 12 missing",
        "confidence": "number, mean 0.5, standard deviation 0.25",
        "at": "moment, from 2024-01-01 to 2024-02-01",
    }
    for name, description in said.items():
        assert f"{name} {description}" in page.words


def test_pictures_are_embedded_until_they_are_too_many(run):
    page = page_of(run, thumbnails={f"scan/{i:05d}.png": png() for i in range(400)})
    assert page.all("img")
    assert all(attrs["src"].startswith("data:image/png;base64,iVBOR") and attrs["alt"] for attrs in page.all("img"))
    heavy = page_of(run, thumbnails={f"scan/{i:05d}.png": png() + bytes(700_000) for i in range(400)})
    assert len(heavy.all("img")) == 2
    assert (run / "report.html").stat().st_size < 3_000_000


def test_a_bare_run(tmp_path):
    """No annotators, no gate, no clean labels, no validation, one epoch."""
    run = fabricate_run(tmp_path / "bare", n_items=200, annotators=None, gate=False, clean=False, valid=False, epochs=1)
    page = page_of(run)
    for absent in ("Annotator", "Gate", "Clean label", "Checked against", "Validation", "Mean gate"):
        assert absent not in page.words
    assert "Judged by ce" in page.words
    (run / "metrics.jsonl").unlink()
    assert "Training loss" not in page_of(run).words


def test_markup_in_labels_is_text(tmp_path):
    classes = ["<script>alert(1)</script>", "a & b", "$x_1$ {{ 7 * 7 }}", '" onload="x', "猫"]
    page = page_of(fabricate_run(tmp_path / "markup", n_items=200, classes=classes, warnings=("<b>careful</b>",)))
    assert page.unclosed == []
    assert not page.all("script") + page.all("b")
    assert not any("onload" in attrs for _, attrs in page.tags)
    for name in (*classes, "<b>careful</b>"):
        assert " ".join(name.split()) in page.words


def test_a_thousand_classes(tmp_path):
    run = fabricate_run(tmp_path / "many", n_items=500, classes=list(range(1000)))
    page = page_of(run)
    assert "1,000 classes" in page.words
    assert "Given label against prediction" not in page.words
    assert (run / "report.html").stat().st_size < 600_000


@pytest.mark.parametrize(("guard", "says"), [("recovered", "was put right"), ("lost", "do not rely on this result")])
def test_guard_events_are_shown_first(tmp_path, guard, says):
    page = page_of(fabricate_run(tmp_path / guard, n_items=150, guard=guard))
    assert says in page.words
    assert page.words.index("the gate is open for every row") < page.words.index("Estimated noise")
    assert "attempts that the guard ended" in page.words


def test_members_that_were_trained_apart_are_one_curve(tmp_path):
    run = fabricate_run(tmp_path / "members", n_items=150)
    records = [
        {"epoch": epoch, "attempt": attempt, "seconds": 1.0, "loss": loss - epoch, "stage": f"member {member} of 2"}
        for member, attempt, loss in ((1, 0, 9.0), (2, 0, 99.0), (2, 1, 11.0))
        for epoch in range(5)
    ]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    labels = [attributes.get("aria-label") for tag, attributes in page_of(run).tags if tag == "svg"]
    assert "Training loss over 5 epochs, from 10 to 6." in labels


def test_clean_data(tmp_path):
    page = page_of(fabricate_run(tmp_path / "clean", n_items=150, noise=0.0))
    assert re.search(r"None of 300 labels looks wrong|\d of 300 labels looks? wrong", page.words)


def test_numbers_that_are_not_there(tmp_path):
    run = fabricate_run(tmp_path / "unknown", n_items=150)
    summary = json.loads((run / "summary.json").read_text())
    summary["valid_accuracy"] = None
    summary["evaluation"] = dict.fromkeys(summary["evaluation"])
    (run / "summary.json").write_text(json.dumps(summary))
    lines = (run / "metrics.jsonl").read_text().splitlines()
    first, second = (
        json.dumps(json.loads(line) | {"loss": loss}) for line, loss in zip(lines[:2], (math.nan, 1e308), strict=True)
    )
    broken = [first, second, *lines[2:], '{"epoch": 20, "lo']
    (run / "metrics.jsonl").write_text("\n".join(broken))
    page = page_of(run)
    assert "nan" not in page.words.lower().replace("annotator", "")
    assert "Test accuracy" not in page.words


def test_a_directory_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match=r"has no predictions\.parquet"):
        build_report(tmp_path)
    run = fabricate_run(tmp_path / "half", n_items=100)
    (run / "summary.json").write_text("{")
    with pytest.raises(RunError, match=r"summary\.json is not valid JSON"):
        build_report(run)
    (run / "summary.json").unlink()
    with pytest.raises(RunError, match=r"has no summary\.json"):
        build_report(run)
    assert not (run / "report.html").exists()


def test_the_same_run_gives_the_same_page(run):
    assert build_report(run).read_bytes() == build_report(run).read_bytes()


def test_the_consensus_is_what_is_suggested(tmp_path):
    run = fabricate_run(tmp_path / "run", n_items=200)
    page = page_of(run)
    assert "Given Consensus Clean label" in page.words
    assert "Model says" not in page.words
    assert "Often says" in page.words
    assert "lies clearly below it. “Often says”" in page.words or "lie clearly below it. “Often says”" in page.words
    frame = read_frame(run / "predictions.parquet")
    worst = frame[frame["is_label_issue"]].sort_values("label_quality", kind="stable").iloc[0]
    assert f"{worst['given_label']} {worst['consensus_label']} > 99%" in page.words
    before = page_of(fabricate_run(tmp_path / "before", n_items=200, consensus=False))
    assert "Given Model says Clean label" in before.words
    assert "Consensus" not in before.words


def test_what_the_run_chose_and_what_goes_with_right_answers(tmp_path):
    run = fabricate_run(tmp_path / "run", n_items=100)
    page = page_of(run)
    assert "What the run chose" not in page.words
    assert "What goes with right answers" not in page.words
    summary = json.loads((run / "summary.json").read_text())
    records = [
        {"weight_decay": 0.02, "input_dropout": d, "answer_log_likelihood": -0.5 - d, "tau": 0.5, "share": s}
        for d, s in ((0.0, 0.004), (0.5, 0.996))
    ]
    effects = [
        {"column": "tool", "low": "web", "high": "phone", "right_at_low": 0.6, "right_at_high": 0.625},
        {"column": "<b>seconds", "low": 1.5, "high": 12.0, "right_at_low": 0.2, "right_at_high": 0.9},
    ]
    extra = {"model_selection": records, "pi_effects": effects, "label_quality": "posterior"}
    (run / "summary.json").write_text(json.dumps(summary | extra))
    page = page_of(run)
    assert "2 settings were tried, and 1 of them counts." in page.words
    assert "Share Held-out fit weight decay input dropout tau 99.6% -1 0.02 0.5 0.5 0.4% -0.5 0.02 0 0.5" in page.words
    assert "<b>seconds 1.5 20.0% 12 90.0% tool web 60.0% phone 62.5%" in page.words
    assert "by the item and all answers to it, from 0" in page.words
    assert not page.unclosed
