"""The top of the page: verdict, title, key figures and the result in plain words."""

import shlex
from pathlib import PurePath

import numpy as np

from ...detect.sentences import between, count, describe_copies, explain_result, percent
from ...run.files import RunFiles
from ...run.predictions import Predictions
from .words import Array, Context

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
    result = explain_result(summary, n, n_issues, _checked(predictions))
    verdict, (title, text) = summary.verdict, VERDICTS[summary.verdict.status]
    failed = verdict.status == "failed"
    warnings = [*map(describe_copies, summary.copies), *summary.warnings][:MAX_EVENTS]
    return {
        "title": "This fit failed" if failed else _title(n, n_issues),
        "name": data_name(run),
        "run_name": run.path.resolve().name,
        "command": shlex.join(["pidual", "detect", str(run.path)]),
        "method": run.config.method_title,
        "created": run.config.created[:16].replace("T", " "),
        "version": run.config.pidual,
        "verdict": {"status": verdict.status, "title": title, "text": text, "reasons": verdict.reasons},
        "tiles": _tiles(run, predictions),
        "sentences": [FAILED] if failed else result,
        "cut_note": summary.cutoff.note,
        "guard": {"events": summary.guard.events[:MAX_EVENTS], "recovered": summary.guard.recovered},
        "warnings": warnings[:OPEN_WARNINGS],
        "more_warnings": warnings[OPEN_WARNINGS:],
    }


def known_wrong(predictions: Predictions) -> tuple[Array, Array] | None:
    """Which labels are known to be wrong, and for which this is known at all; None without clean labels."""
    y = predictions.y
    return None if y is None or (y < 0).all() else (y != predictions.given, y >= 0)


def data_name(run: RunFiles) -> str:
    """Name the data: by its file, or what a run from memory says it is."""
    source = run.config.source
    for name in (run.config.data.table, source.table, source.x):
        if name and name not in IN_MEMORY:
            return PurePath(name).name
    return run.path.resolve().name


def _title(n: int, n_issues: int) -> str:
    if not n_issues:
        return f"None of {count(n)} labels looks wrong"
    return f"{count(n_issues)} of {count(n)} labels {'looks' if n_issues == 1 else 'look'} wrong"


def _tiles(run: RunFiles, predictions: Predictions) -> list[tuple[str, str, str]]:
    """Key figures, each with what it is."""
    summary, n, n_issues = run.summary, len(predictions), predictions.n_issues
    noise, consensus, data = summary.noise, summary.consensus, run.config.data
    sets = summary.label_sets
    labels, all_labels, items = ("Labels", "all labels", "items")
    if sets is not None:
        labels, all_labels, items = "Answers to a class", "these answers", "pairs of item and class"
    tiles = [
        (
            labels,
            count(n),
            f"of {count(data.n_items)} items, {count(data.n_classes if sets is None else sets.n_classes)} classes",
        ),
        ("Look wrong", count(n_issues), f"flagged: {percent(n_issues / n if n else None)} of {all_labels}"),
        (
            "Estimated noise",
            percent(noise.rate),
            f"of {all_labels} are wrong; range {between(noise.low, noise.high)}",
        ),
        (
            "Consensus",
            percent(consensus.accuracy),
            f"of the {items} have the right one; range {between(consensus.low, consensus.high)}",
        ),
    ]
    precision, accuracy = summary.detection.expected_precision, summary.valid_accuracy
    if precision is not None and n_issues:
        interval = between(summary.detection.precision_low, summary.detection.precision_high)
        what = "of the flagged labels should really be wrong" + (f" ({interval})" if interval else "")
        tiles.append(("Expected hits", percent(precision).replace("over ", "> "), what))
    if accuracy is not None:
        tiles.append(("Validation agreement", percent(accuracy), "with given labels held out of training"))
    if run.annotators is not None and len(run.annotators):
        median = count(run.annotators["num_labelled"].median())
        tiles.append(("Annotators", count(len(run.annotators)), f"median {median} labels each"))
    return tiles


def _checked(predictions: Predictions) -> tuple[int, int] | None:
    """Return how many flagged labels are known to be wrong, and for how many this is known; None where for none."""
    wrong = known_wrong(predictions)
    flagged = predictions.is_issue & wrong[1] if wrong else predictions.is_issue[:0]
    return (int(np.count_nonzero(flagged & wrong[0])), int(flagged.sum())) if wrong and flagged.any() else None
