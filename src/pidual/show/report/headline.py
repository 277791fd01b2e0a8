"""The top of the page: verdict, title, key figures and the result in plain words."""

import shlex
from pathlib import PurePath

import numpy as np

from ...detect.copies import copies_sentence
from ...run.files import RunFiles
from ...run.predictions import Predictions
from ...run.records.state import Event
from ...run.records.summary import FromRun, Summary, Verdict
from .words import Array, Context, between, count, percent, texts

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
KERNELS = {"linear": "a linear rule", "gauss": "similar items", "relu": "a rule with bends"}
IN_MEMORY = ("table", "")  # what a table is called that was read from no file


def headline(run: RunFiles, predictions: Predictions) -> Context:
    """Title, verdict, key figures, plain sentences, and what the reader must be warned of."""
    summary, n, n_issues = run.summary, len(predictions), predictions.n_issues
    verdict = _verdict(summary.verdict)
    failed = verdict["status"] == "failed"
    warnings = texts([*map(copies_sentence, summary.copies), *summary.warnings])[:MAX_EVENTS]
    return {
        "title": "This fit failed" if failed else _title(n, n_issues),
        "name": data_name(run),
        "run_name": run.path.resolve().name,
        "command": detect_command(run),
        "method": run.config.method_title,
        "created": run.config.created[:16].replace("T", " "),
        "version": run.config.pidual,
        "verdict": verdict,
        "tiles": _tiles(run, predictions),
        "sentences": [FAILED] if failed else _sentences(summary, predictions),
        "cut_note": summary.cutoff.note,
        "guard": {"events": _events(summary.guard.events), "recovered": summary.guard.recovered},
        "warnings": warnings[:OPEN_WARNINGS],
        "more_warnings": warnings[OPEN_WARNINGS:],
    }


def known_wrong(predictions: Predictions) -> tuple[Array, Array] | None:
    """Which labels are known to be wrong, and for which this is known at all; None without clean labels."""
    y = predictions.y
    return None if y is None or (y < 0).all() else (y != predictions.given, y >= 0)


def data_name(run: RunFiles) -> str:
    """What the data is called: the file's name, or what a run from memory says it is."""
    source = run.config.source
    for name in (run.config.data.table, source.table, source.x):
        if name and name not in IN_MEMORY:
            return PurePath(name).name
    return run.path.resolve().name


def detect_command(run: RunFiles) -> str:
    """The command that lists the labels this page shows, for the directory as it was named to us."""
    cutoff = run.summary.cutoff
    options = ["--cutoff", str(cutoff.value)] if cutoff.kind == "fixed" else []
    return shlex.join(["pidual", "detect", str(run.path), *options])


def _verdict(verdict: Verdict) -> Context:
    """What to think of the fit itself."""
    title, text = VERDICTS[verdict.status]
    return {"status": verdict.status, "title": title, "text": text, "reasons": texts(verdict.reasons)}


def _events(events: list[Event]) -> list[Context]:
    """What the guard did, with epochs counted from 1, as people do."""
    return [event.to_json() | {"epoch": event.epoch + 1} for event in events[:MAX_EVENTS]]


def _title(n: int, n_issues: int) -> str:
    if not n_issues:
        return f"None of {count(n)} labels looks wrong"
    return f"{count(n_issues)} of {count(n)} labels {'looks' if n_issues == 1 else 'look'} wrong"


def _tiles(run: RunFiles, predictions: Predictions) -> list[tuple[str, str, str]]:
    """Key figures, each with what it is."""
    summary, n, n_issues = run.summary, len(predictions), predictions.n_issues
    noise, consensus, data = summary.noise, summary.consensus, run.config.data
    tiles = [
        ("Labels", count(n), f"of {count(data.n_items)} items, {count(data.n_classes)} classes"),
        ("Look wrong", count(n_issues), f"flagged: {percent(n_issues / n if n else None)} of all labels"),
        (
            "Estimated noise",
            percent(noise.rate),
            f"of all labels are wrong; range {between(noise.low, noise.high)}",
        ),
        (
            "Consensus",
            percent(consensus.accuracy),
            f"of the items have the right one; range {between(consensus.low, consensus.high)}",
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


def _sentences(summary: Summary, predictions: Predictions) -> list[str]:
    """The result in plain words."""
    n_issues, accuracy = predictions.n_issues, summary.valid_accuracy
    precision = summary.detection.expected_precision
    found = [_noise_sentence(len(predictions), n_issues, summary.noise.rate, precision), *_decided(summary.from_run)]
    if accuracy is not None:
        found.append(
            f"On labels held out from training, the model agrees with the given label {percent(accuracy)} of the time. "
            "Those labels contain mistakes too, so even a perfect model would not reach 100% here."
        )
    wrong = known_wrong(predictions)
    if wrong is not None and n_issues:
        flagged = predictions.is_issue & wrong[1]
        hits = int(np.count_nonzero(flagged & wrong[0]))
        if flagged.any():
            found.append(
                f"According to clean labels, used for checking only, {count(hits)} of the {count(int(flagged.sum()))} "
                "flagged labels that can be checked really are wrong."
            )
    return [*found, *describe_votes(summary), *describe_choice(summary)]


def describe_votes(summary: Summary) -> list[str]:
    """How many votes the answers to an item count as, where they are several."""
    votes, answers = summary.consensus.votes, summary.consensus.answers
    if answers < 1.05:
        return []
    return [
        f"{answers:.1f} answers to an item count as {votes:.1f} votes: people share mistakes, which no answer shows."
    ]


def describe_choice(summary: Summary) -> list[str]:
    """What was found out from the inputs, and how many items seem to mislead, where any do."""
    if not summary.model_selection:
        return []
    found, sentences = summary.model_selection[0], []
    if found.explained is not None and found.kernels:
        kind = max(found.kernels, key=found.kernels.__getitem__)
        by = KERNELS.get(kind, kind)
        sentences.append(f"The inputs explain {found.explained:.0%} of what the answers agree on, mostly by {by}.")
    if rate := found.misleading_rate:
        sentences.append(
            f"About {rate:.0%} of the items seem to mislead: most answers to them agree on a class that is wrong. "
            "There the input counts for more than the majority."
        )
    return sentences


def _decided(about: FromRun | None) -> list[str]:
    """What reviewers decided on the run before, where there was one."""
    if about is None:
        return []
    measured, noise = "", None if about.calibration is None else about.calibration.noise
    if noise is not None:
        measured = f" By these, {percent(noise.rate)} of all labels are wrong ({between(noise.low, noise.high)})."
    return [
        f"{count(about.n_decisions)} decisions of reviewers were used; the consensus of "
        f"{count(about.n_others_changed)} items that nobody looked at changed with them.{measured}"
    ]


def _noise_sentence(n: int, n_issues: int, noise: float, precision: float | None) -> str:
    expected = round(noise * n)
    start = f"An estimated {percent(noise)} of all labels are wrong, about {count(expected)} of them."
    if not expected:
        return "By the model's estimate, hardly any label is wrong."
    if precision is not None and n_issues:
        hits = precision * n_issues
        rest = f" Some {count(expected - hits)} more are not flagged because they do not stand out."
        return (
            f"{start} Of the {count(n_issues)} flagged labels, about {count(hits)} should really be wrong."
            f"{rest if expected - hits > 0.1 * expected else ''}"
        )
    if n_issues > 1.25 * expected:
        return f"{start} More are flagged, so expect some of the flagged labels to be right."
    if n_issues < 0.8 * expected:
        return f"{start} Fewer are flagged: those that stand out most."
    return f"{start} The flagged ones are the most likely."
