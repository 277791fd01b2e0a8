"""The sections of the page: result, suspects, how many labels are wrong, what clean labels say, how it was all made."""

import base64
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from ...detect.sentences import between, count, describe_copies, explain_result, percent
from ...run.files import RunFiles
from ...run.predictions import REASON_PARTS, Predictions, join_parts
from ...run.records.config import Config, PIDescription
from ...run.records.summary import Evaluation, PIEffect
from ..previews import NOTHING, previews
from . import figures
from .words import Array, Context, auc, number, score

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
    result = explain_result(summary, n, n_issues, int(predictions.is_resting.sum()), _checked(predictions))
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
        ("Estimated noise", percent(noise.rate), f"of {all_labels} are wrong; range {between(noise.low, noise.high)}"),
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


OPEN_SUSPECTS = 6  # listed at once; the others unfold
MAX_RESTING = 20  # listed of the labels that rest on their own answer
MAX_THUMBNAIL_BYTES = 2_000_000  # of all together


def suspects(run: RunFiles, predictions: Predictions, limit: int) -> Context:
    """Return the labels that look wrong, and some of those that rest on their own answer, lowest quality first."""
    order = np.argsort(predictions.label_quality, kind="stable")
    flagged, resting = (order[group[order]] for group in (predictions.is_issue, predictions.is_resting))
    n_shown = min(limit, len(flagged))
    rows = np.concatenate([flagged[:limit], resting[:MAX_RESTING]])
    names = ["item", "annotator", "given_label", "label_quality", "gate", "y"]
    frame = run.read_predictions([*names, *REASON_PARTS, "reason"]).frame
    columns, frame = list(frame), frame.iloc[rows].astype(object).reset_index(drop=True)
    frame["suggested"] = np.array(predictions.classes, dtype=object)[predictions.suggested[rows]]
    frame["suggested_probability"] = predictions.suggested_probability[rows]
    shown = frame.astype(object).where(frame.notna(), None).to_dict("records")
    pictures = _pictures([str(record["item"]) for record in shown], run.thumbnails)
    kept = previews(run)
    about = [kept.get(row, NOTHING) for row in rows.tolist()]
    listed = [
        record
        | {"picture": picture, "reason": why(record), "text": preview.text}
        | {"unusual": [] if picture else preview.unusual}  # of a picture, columns are pixels
        for record, picture, preview in zip(shown, pictures, about, strict=True)
    ]
    return {
        "total": len(flagged),
        "shown": n_shown,
        "first": listed[:n_shown][:OPEN_SUSPECTS],
        "more": listed[OPEN_SUSPECTS:n_shown],
        "n_resting": len(resting),
        "resting": listed[n_shown:],
        "has": {name: name in columns for name in ("annotator", "gate", "y")},
        "has_picture": any(pictures),
        "has_text": any(row["text"] for row in listed),
        "has_unusual": any(row["unusual"] for row in listed),
    }


def why(record: Mapping[Any, Any]) -> str:
    """Return the reason without the part that the table's own columns say, if there is more.

    A label that is the consensus itself needs all of it.
    """
    reason, label = str(record.get("reason") or ""), record.get("reason_label")
    if not label or record.get("suggested", "") == record.get("given_label"):
        return reason
    if label in reason:  # in its own order
        return " ".join(reason.replace(label, "", 1).split()) or reason
    return join_parts(record[name] for name in REASON_PARTS if record.get(name) and name != "reason_label") or reason


def _pictures(items: list[str], thumbnails: Mapping[str, bytes]) -> list[Markup | None]:
    """Return data addresses of the thumbnails, until they would make the page heavy."""
    pictures: list[Markup | None] = []
    left = MAX_THUMBNAIL_BYTES
    for item in items:
        png = thumbnails.get(item)
        fits = png is not None and len(png) <= left
        pictures.append(Markup(f"data:image/png;base64,{base64.b64encode(png).decode()}") if png and fits else None)
        left -= len(png) if png and fits else 0
    return pictures


MILESTONES = (0.1, 0.25, 0.5, 1.0, 2.0)  # parts of the flagged labels that are looked at
DRAWN = 2.5  # and up to which part the curve is drawn
MAX_CLASSES = 50
OPEN_CLASSES = 6


def amounts(run: RunFiles, predictions: Predictions) -> Context:
    """Return the estimate with its interval, and what looking at so many labels should find."""
    detection, noise = run.summary.detection, run.summary.noise
    precision, n_issues, n = detection.expected_precision, predictions.n_issues, len(predictions)
    curve = [(float(one.n), one.expected_wrong, one.precision) for one in detection.curve]
    if precision is not None and n_issues and curve:  # between two points of the curve it may bend just here
        curve = sorted(
            [*(point for point in curve if point[0] != n_issues), (n_issues, precision * n_issues, precision)]
        )
    classes = sorted(detection.classes, key=lambda of_class: -of_class.expected_wrong)
    return {
        "rate": noise.rate,
        "wrong": noise.rate * n,
        "interval": between(noise.low, noise.high),
        "counts": f"{count(noise.low * n)} to {count(noise.high * n)}",
        "precision": precision,
        "precision_interval": between(detection.precision_low, detection.precision_high),
        "n_issues": n_issues,
        "svg": _curve_svg(curve, n_issues) if len(curve) > 1 else None,
        "milestones": _milestones(curve, n_issues),
        "classes": classes[:OPEN_CLASSES],
        "more_classes": classes[OPEN_CLASSES:MAX_CLASSES],
        "n_classes": len(classes),
    }


def _curve_svg(curve: list[tuple[float, float, float]], n_issues: int) -> str:
    end = max(DRAWN * n_issues, curve[1][0]) if n_issues else curve[-1][0]
    curve = [point for point in curve if point[0] <= end]
    n, wrong, _ = curve[-1]
    label = f"Wrong labels found against labels looked at: {count(wrong)} are expected among the first {count(n)}."
    points = [(0.0, 0.0), *((x, y) for x, y, _ in curve)]
    return figures.found_svg("found", label, points, flagged=n_issues)


def _milestones(curve: list[tuple[float, float, float]], n_issues: int) -> list[Context]:
    """Return what looking at a part of the flagged labels should find, and at more than these."""
    if not curve:
        return []
    n, wrong, _ = (np.array(values) for values in zip(*[(0.0, 0.0, 0.0), *curve], strict=True))
    end = n_issues or n[-1] / max(MILESTONES)
    wanted = {n_issues if part == 1 and n_issues else int(float(f"{part * end:.2g}")) for part in MILESTONES}
    looked = [size for size in sorted(wanted) if 1 <= size <= n[-1]]
    found = np.interp(looked, n, wrong).tolist()
    return [{"n": size, "wrong": hits, "precision": hits / size} for size, hits in zip(looked, found, strict=True)]


def histograms(p: Predictions) -> list[Context]:
    """Label quality and gate: flagged beside not flagged, and wrong beside right where that is known."""
    wrong = known_wrong(p)
    scores = {"quality": ("Label quality", "label quality (low = likely wrong)", p.label_quality)}
    if p.gate is not None:
        scores["gate"] = ("Gate", "gate (high = likely wrong)", p.gate)
    found = []
    for key, (name, axis, values) in scores.items():
        groups = {"not flagged": (_bins(values[~p.is_issue]), False), "flagged": (_bins(values[p.is_issue]), True)}
        found.append(_histogram(f"{key}-flagged", f"{name}, by what was flagged", axis, groups))
        if wrong is not None:
            is_wrong, known = wrong
            groups = {
                "really right": (_bins(values[known & ~is_wrong]), False),
                "really wrong": (_bins(values[known & is_wrong]), True),
            }
            found.append(_histogram(f"{key}-wrong", f"{name}, by the clean label", axis, groups))
    return found


def _histogram(name: str, title: str, axis: str, groups: dict[str, tuple[Array, bool]]) -> Context:
    groups = {group: part for group, part in groups.items() if part[0].sum()}
    told = "; ".join(f"{group}: {int(c.sum()):,} labels, mean {_mean_of(c):.2f}" for group, (c, _) in groups.items())
    return {"title": title, "svg": figures.histogram_svg(name, f"Histogram. {title}. {told}.", axis, groups)}


def _bins(values: Array) -> npt.NDArray[np.int64]:
    return np.histogram(values[np.isfinite(values)], bins=figures.N_BINS, range=(0, 1))[0].astype(np.int64)


def _mean_of(counts: Array) -> float:
    centres = (np.arange(len(counts)) + 0.5) / len(counts)
    return float((counts * centres).sum() / max(counts.sum(), 1))


def evaluation(found: Evaluation | None, *, gate: bool) -> list[tuple[str, str, str]]:
    """Return what the clean labels say, each with its meaning; empty where there were none."""
    if found is None:
        return []
    meaning: list[tuple[str, str, str, Callable[[float | None], str]]]
    meaning = [
        ("test_accuracy", "Test accuracy", "share of test items the model gets right", percent),
        ("detection_auc", "Detection AUC", "1 = every wrong label ranks below every right one", auc),
        ("gate_auc", "Gate AUC", "the same, ranked by the gate", auc),
        ("consensus_accuracy", "Consensus accuracy", "share of items whose consensus is right", percent),
        ("noise_rate", "True noise", "share of labels that are wrong", percent),
        ("issue_precision", "Precision", "share of flagged labels that are wrong", percent),
        ("issue_recall", "Recall", "share of wrong labels that are flagged", percent),
    ]
    shown = [
        (name, show(value), what)
        for key, name, what, show in meaning
        if (value := getattr(found, key)) is not None and (gate or key != "gate_auc")
    ]
    native = {name: value for name, value in found.score_auc.items() if name != "gate"}
    return shown + [
        (f"{name.replace('_', ' ').capitalize()} AUC", auc(value), "the same, ranked by the method's own score")
        for name, value in native.items()
    ]


MAX_SETTINGS = 60
MAX_EFFECTS = 50
MAX_DRAWN = 1e100  # beyond this a curve has a gap, as no axis can hold it


def pi_effects(effects: list[PIEffect]) -> list[PIEffect]:
    """Return what PI says about answers, the strongest effect first; those that may be chance last."""
    return sorted(effects, key=lambda effect: (not effect.tells, -abs(effect.difference)))[:MAX_EFFECTS]


def curves(run: RunFiles) -> list[Context]:
    """Loss, validation accuracy and mean gate over epochs, counted from 1, where a network was trained."""
    if not run.trains:
        return []
    selected = run.summary.selected_epoch + 1
    found = []
    for key, title in (("loss", "Training loss"), ("valid_accuracy", "Validation agreement"), ("gate", "Mean gate")):
        attempts: dict[Any, list[tuple[int, float]]] = {}
        for epoch in run.history:
            value = number(epoch.get(key))
            if isinstance(epoch.get(key), (int, float)):
                line = (str(epoch.get("stage", "")).startswith("first stage"), epoch.get("attempt", 0))
                drawn = value if value is not None and abs(value) < MAX_DRAWN else math.nan
                attempts.setdefault(line, []).append((int(epoch["epoch"]) + 1, drawn))
        if not any(math.isfinite(value) for points in attempts.values() for _, value in points):
            continue
        last = list(attempts.values())[-1]
        label = f"{title} over {len(last)} epochs, from {last[0][1]:.3g} to {last[-1][1]:.3g}."
        found.append(
            {"svg": figures.curve_svg(f"curve-{key}", label, title, list(attempts.values()), selected=selected)}
        )
    return found


def settings(config: Config) -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything the run was made with, in groups of name and value."""
    data = config.data.to_json().items()
    groups: dict[str, Context] = {
        "Run": {key: getattr(config, key) for key in ("pidual", "created", "method", "setting", "seed")},
        "Data": {key.replace("_", " "): value for key, value in data if key != "pi"},
        "Privileged information": {pi.name: _describe_pi(pi) for pi in config.data.pi},
        "Method": config.method_options,
        "Training": config.training,
        "Network": config.network.to_json(),
        "Versions": config.versions,
        "Hardware": config.hardware.to_json(),
    }
    return [(name, list(_flat(values))[:MAX_SETTINGS]) for name, values in groups.items() if values]


def _describe_pi(pi: PIDescription) -> str:
    parts = ["moment" if pi.first is not None else pi.kind]
    if pi.n_categories is not None:
        parts.append(f"{count(pi.n_categories)} values")
    if pi.first is not None:
        parts.append(f"from {pi.first} to {pi.last}")
    if pi.median is not None:
        parts.append(f"median {score(pi.median)}")
    if pi.mean is not None:
        parts.append(f"mean {score(pi.mean)}, standard deviation {score(pi.std)}")
    if pi.n_missing:
        parts.append(f"{count(pi.n_missing)} missing")
    return ", ".join(part for part in parts if part)


def _flat(values: Context, prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key} ")
        elif value is not None:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{prefix}{key}", text
