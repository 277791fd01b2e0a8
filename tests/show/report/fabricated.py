"""Run directories whose training is made up, and their reports parsed."""

import json
import math
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from pidual.api.run import Run
from pidual.data import AnnotationTable, load_inputs
from pidual.detect import Posteriors
from pidual.files import write_json
from pidual.fit.judge import judge
from pidual.fit.options import FitOptions
from pidual.fit.predict import Answers, RowScores
from pidual.fit.prepare import prepare
from pidual.fit.record import describe, write_run
from pidual.learn.engine import Fitted
from pidual.learn.engine.callbacks import write_history
from pidual.run.predictions import SPLITS, Predictions
from pidual.run.records.config import Event, as_source
from pidual.run.records.reading import seal
from pidual.show.report import build_report

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
    warnings: tuple[str, ...] = (),
    noise: float = 0.25,
    seed: int = 0,
    source: dict[str, str] | None = None,
    selection: list | None = None,
) -> Path:
    """A run directory as `fit_table` leaves it, of a crowd whose members are of different quality and speed.

    Only training is made up: what the network says about each item, and the records of its epochs.
    """
    rng = np.random.default_rng(seed)
    classes = DIGITS if classes is None else classes
    frame, y, wrong = made_up_crowd(rng, n_items, classes, annotators, noise)
    names = list(frame["item"].cat.categories)
    if clean:
        frame["y"] = pd.Categorical.from_codes(y[frame["item"].cat.codes], pd.Index(classes))
    pi = ["reaction_time_s", "tool", "confidence", "at"] + ["annotator"] * bool(annotators)
    job = prepare(
        AnnotationTable.from_frame(frame, pi=pi, keep_ids=True),
        load_inputs(pd.DataFrame({"item": names} | {f"f{i}": rng.normal(size=n_items) for i in range(12)})),
        FitOptions(
            "pi_dual" if gate else "ce",
            options={**({"width": 4} if gate else {}), "epochs": epochs, "network.width": 4},
        ),
    )
    job.warnings[:] = warnings
    order = [classes.index(name) for name in job.table.classes]  # a table has its classes in an order of its own
    answers = made_up_answers(rng, job, np.argsort(order)[y], wrong if gate else None)
    fitted = made_up_training(job, valid, guard, selection or [])
    path.mkdir(parents=True, exist_ok=True)
    config = describe(job, as_source(source or {"table": "labels.csv", "x": "scans/"}))
    write_json(path / "config.json", config.to_json())
    write_history(path / "metrics.jsonl", fitted.history)
    with mock.patch("pidual.fit.judge.pi_effects", return_value=None):  # of an answer model, which is not made up
        results = judge(job, fitted, answers)
    write_run(path, config, job, fitted, results)
    return path


def made_up_crowd(rng, n_items, classes, annotators, noise):
    """Two annotations of every item; the class of every item; which annotations are wrong."""
    k, n = len(classes), 2 * n_items
    y = rng.permutation(np.arange(n_items) % k)  # a class needs two rows
    item = rng.permutation(np.repeat(np.arange(n_items), 2))
    people = annotators or 1
    error = np.clip(rng.beta(1, 1 / max(noise, 1e-6) - 1, people), 0, 1) if noise else np.zeros(people)
    who = rng.integers(0, people, n)
    wrong = rng.random(n) < error[who]
    given = np.where(wrong, (y[item] + rng.choice([1, 2, 5], n, p=[0.6, 0.3, 0.1])) % k, y[item])
    seconds = np.round(rng.lognormal(0.8, 0.5, n) * np.where(wrong, 0.4, 1), 2)
    frame = pd.DataFrame(
        {
            "item": pd.Categorical.from_codes(item, [f"scan/{i:05d}.png" for i in range(n_items)]),
            "label": pd.Categorical.from_codes(given, pd.Index(classes)),
            "reaction_time_s": np.where(np.arange(n) < 12, np.nan, seconds),
            "tool": pd.Categorical.from_codes(rng.integers(0, 2, n), ["web", "phone"]),
            "confidence": np.where(np.arange(n) % 2, 0.25, 0.75),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) % 32, unit="D"),
        }
    )
    if annotators:
        frame["annotator"] = pd.Categorical.from_codes(who, [f"a-{17 * i + 40960:012x}" for i in range(people)])
    return frame, y, wrong


def made_up_answers(rng, job, truth, wrong):
    """What a network says that is mostly right; with a gate where it is given which annotations are wrong."""
    n_items, k, gate = len(truth), len(job.table.classes), wrong is not None
    logits = rng.normal(0, 1, (n_items, k))
    logits[np.arange(n_items), truth] += rng.normal(6 + math.log(k), 2, n_items)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    place, codes = job.table.item_codes, job.table.label_codes
    posteriors = Posteriors.empty(n_items, k)
    posteriors.put(np.arange(n_items), p.astype(np.float32))
    predictions = Predictions.build(
        job.table.frame,
        job.table.classes,
        predicted_label=p.argmax(1)[place],
        predicted_probability=p.max(1)[place],
        label_quality=p[place, codes],
        consensus_label=p.argmax(1)[place],
        consensus_quality=p.max(1)[place],
        gate=np.clip(rng.normal(0.2 + 0.6 * wrong, 0.12), 0, 1) if gate else None,
        noise_label=codes if gate else None,
        split=np.array(SPLITS)[job.split],
        pi_columns=job.table.pi_columns,
    )
    scores = RowScores.empty(codes)
    for name in ("quality", "full", "unaided", "confidence"):
        getattr(scores, name)[:] = p[place, codes]
    return Answers(predictions, posteriors, scores, mock.Mock(job=job))


def made_up_training(job, valid, guard, selection):
    """Records of epochs and of the guard, around a network that was not trained."""
    epochs, method = job.training.epochs, job.build().eval()
    events = [
        Event(4, 0, "the gate is open for every row (mean 0.99)", "started again, gradients clipped at 1.0"),
    ]
    history = []
    for attempt in range(2 if guard else 1):
        for epoch in range(6 if guard and not attempt else epochs):
            record = {"epoch": epoch, "attempt": attempt, "lr": 0.05, "loss": 2.2 * 0.9**epoch + 0.4, "seconds": 2.0}
            record |= {"valid_accuracy": 0.741 - 0.5 * 0.7**epoch} if valid else {}
            if "gate" in method.scores:
                record["gate"] = 0.5 - 0.2 * (1 - 0.8**epoch) + 0.3 * (guard is not None and not attempt)
            history.append(record)
    lost = guard == "lost"
    return Fitted(method, method.state_dict(), epochs - 1, history, events if guard else [], lost, selection)


def change_files(run: Path, summary=None, **files: str) -> None:
    """Write other contents into files of a run, as if it had been finished with them."""
    for name, text in files.items():
        (run / name.replace("__", ".")).write_text(text)
    opened = Run(run)
    about = json.loads((run / "summary.json").read_text()) | (summary or {}) | {"digests": opened.digests()}
    write_json(run / "summary.json", seal(about))


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
    return Page(build_report(Run(run), **options).read_text(encoding="utf-8"))


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
