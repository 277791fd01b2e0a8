"""The top of the page: verdict, title, key figures and the result in plain words."""

import shlex
from pathlib import PurePath

import numpy as np

from ...detect.sentences import between, count, describe_copies, explain_result, percent
from ...run.files import RunFiles
from ...run.predictions import Predictions
from .words import Array, Context, number, records, section, texts

MAX_EVENTS = 50
OPEN_WARNINGS = 3  # shown at once; the others unfold
VERDICTS = {
    "ok": ("The result looks sound", "No check that works without clean labels found a problem."),
    "doubtful": ("Doubtful: check before you rely on it", "Look at a sample of the suspects before you act on this."),
    "failed": (
        "Failed: do not rely on this result",
        "Fit again with other settings, another method or more informative inputs before you use any of it.",
    ),
}
FAILED = "All numbers on this page come from a fit that failed. Use them to find out why, not to act on."
IN_MEMORY = ("table", "")  # what a table is called that was read from no file


def headline(run: RunFiles, predictions: Predictions) -> Context:
    """Title, verdict, key figures, plain sentences, and what the reader must be warned of."""
    summary, n, n_issues = run.summary, len(predictions), predictions.n_issues
    result = explain_result(summary, noise_rate(summary), n, n_issues, _checked(predictions))
    verdict = _verdict(summary)
    failed = verdict is not None and verdict["status"] == "failed"
    copies = [describe_copies(record) for record in records(summary.get("copies"))]
    warnings = [*texts(copies), *texts(summary.get("warnings"))][:MAX_EVENTS]
    guard = section(summary, "guard")
    return {
        "title": "This fit failed" if failed else _title(n, n_issues),
        "name": data_name(run),
        "run_name": run.path.resolve().name,
        "command": detect_command(run),
        "method": str(run.config.get("method_title") or run.config.get("method", "unknown method")),
        "created": str(run.config.get("created", ""))[:16].replace("T", " "),
        "version": str(run.config.get("pidual", "")),
        "verdict": verdict,
        "tiles": _tiles(run, predictions),
        "sentences": [FAILED] if failed else result,
        "cut_note": str(section(summary, "cutoff").get("note", "")),
        "guard": {"events": _events(records(guard.get("events"))), "recovered": bool(guard.get("recovered"))},
        "warnings": warnings[:OPEN_WARNINGS],
        "more_warnings": warnings[OPEN_WARNINGS:],
    }


def known_wrong(predictions: Predictions) -> tuple[Array, Array] | None:
    """Which labels are known to be wrong, and for which this is known at all; None without clean labels."""
    y = predictions.y
    return None if y is None or (y < 0).all() else (y != predictions.given, y >= 0)


def data_name(run: RunFiles) -> str:
    """What the data is called: the file's name, or what a run from memory says it is."""
    data, source = section(run.config, "data"), section(run.config, "source")
    for name in (data.get("table"), source.get("table"), source.get("x")):
        if name and str(name) not in IN_MEMORY:
            return PurePath(str(name)).name
    return run.path.resolve().name


def detect_command(run: RunFiles) -> str:
    """The command that lists the labels this page shows, for the directory as it was named to us."""
    cutoff = section(run.summary, "cutoff")
    options = {"budget": ["--budget", str(cutoff.get("budget"))], "fixed": ["--cutoff", str(cutoff.get("value"))]}
    return shlex.join(["pidual", "detect", str(run.path), *options.get(str(cutoff.get("kind")), [])])


def _verdict(summary: Context) -> Context | None:
    """What to think of the fit itself; in an older run only the guard may have said something."""
    given, guard = section(summary, "verdict"), section(summary, "guard")
    status = given.get("status")
    if status is None and guard.get("events") and not guard.get("recovered"):
        status = "failed"
    if status not in VERDICTS:
        return None
    title, text = VERDICTS[status]
    return {"status": status, "title": title, "text": text, "reasons": texts(given.get("reasons"))}


def _events(events: list[Context]) -> list[Context]:
    """What the guard did, with epochs counted from 1, as people do."""
    return [event | {"epoch": event["epoch"] + 1} for event in events[:MAX_EVENTS]]


def _title(n: int, n_issues: int) -> str:
    if not n_issues:
        return f"None of {count(n)} labels looks wrong"
    return f"{count(n_issues)} of {count(n)} labels {'looks' if n_issues == 1 else 'look'} wrong"


def _tiles(run: RunFiles, predictions: Predictions) -> list[tuple[str, str, str]]:
    """Key figures, each with what it is."""
    summary, n, n_issues = run.summary, len(predictions), predictions.n_issues
    noise, detection = section(summary, "noise"), section(summary, "detection")
    rate, accuracy = noise_rate(summary), number(summary.get("valid_accuracy"))
    interval = between(number(noise.get("low")), number(noise.get("high")))
    tiles = [
        ("Labels", count(n), _of_items(section(run.config, "data"))),
        ("Look wrong", count(n_issues), f"flagged: {percent(n_issues / n if n else None)} of all labels"),
        (
            "Estimated noise",
            percent(rate),
            f"of all labels are wrong; range {interval}" if interval else "share of labels that are wrong",
        ),
    ]
    consensus = section(summary, "consensus")
    if (right := number(consensus.get("accuracy"))) is not None:
        interval = between(number(consensus.get("low")), number(consensus.get("high")))
        tiles.append(("Consensus", percent(right), f"of the items have the right one; range {interval}"))
    precision = number(detection.get("expected_precision"))
    if precision is not None and n_issues:
        interval = between(number(detection.get("precision_low")), number(detection.get("precision_high")))
        what = "of the flagged labels should really be wrong" + (f" ({interval})" if interval else "")
        tiles.append(("Expected hits", percent(precision).replace("over ", "> "), what))
    if accuracy is not None:
        tiles.append(("Validation agreement", percent(accuracy), "with given labels held out of training"))
    if run.annotators is not None and len(run.annotators):
        median = count(run.annotators["num_labelled"].median())
        tiles.append(("Annotators", count(len(run.annotators)), f"median {median} labels each"))
    return tiles


def noise_rate(summary: Context) -> float | None:
    """The estimated share of wrong labels."""
    rate = number(section(summary, "noise").get("rate"))
    return number(summary.get("estimated_noise_rate")) if rate is None else rate


def _of_items(data: Context) -> str:
    n_items, n_classes = data.get("n_items"), data.get("n_classes")
    items = f"of {count(n_items)} items" if n_items else ""
    return ", ".join(part for part in (items, f"{count(n_classes)} classes" if n_classes else "") if part)


def _checked(predictions: Predictions) -> tuple[int, int] | None:
    """Return how many flagged labels are known to be wrong, and for how many this is known; None where for none."""
    wrong = known_wrong(predictions)
    flagged = predictions.is_issue & wrong[1] if wrong else predictions.is_issue[:0]
    return (int(np.count_nonzero(flagged & wrong[0])), int(flagged.sum())) if wrong and flagged.any() else None
