"""Build report.html from the files of a run directory, and from nothing else."""

import base64
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import RunError
from ..files import write_text
from ..messages import printable
from ..predictions import REASON_PARTS, Predictions, column_names, join_parts, take_rows
from ..run.files import RunFiles
from . import figures

MAX_ANNOTATORS = 50
OPEN_SUSPECTS = 20  # listed at once; the others unfold
MAX_PAIRS = 15
MAX_HEAT_CLASSES = 12
MAX_SETTINGS = 60
MAX_THUMBNAIL_BYTES = 1_500_000  # of all together
MAX_EVENTS = 50
MAX_CHOSEN = 12
LITTLE = 0.01  # share of a setting that counts next to nothing
MAX_DRAWN = 1e100  # beyond this a curve has a gap, as no axis can hold it
MAX_TEXT = 500
COUNTED = (
    *("given_label", "predicted_label", "predicted_probability", "consensus_label", "consensus_quality"),
    *("label_quality", "is_label_issue", "gate", "y"),
)

Context = dict[str, Any]
Array = npt.NDArray[Any]


def build_report(run: RunFiles, *, max_suspects: int = 200) -> Path:
    """Write report.html into a run directory.

    Parameters
    ----------
    run : Run
        A finished run. Of its thumbnails 1.5 MB at most are shown beside the suspects.
    max_suspects : int
        How many of the labels that look wrong are listed.

    Returns
    -------
    Path
        The page: one file that opens offline, without scripts.
    """
    predictions = _read_counted(run)
    context = {
        **_headline(run, predictions),
        "suspects": _suspects(run, predictions, max_suspects),
        "confusion": _confusion(predictions),
        "annotators": _annotators(run.annotators),
        "histograms": _histograms(predictions),
        "curves": _curves(run),
        "restarted": len({epoch.get("attempt") for epoch in run.history}) > 1,
        "evaluation": _evaluation(run.summary.get("evaluation")),
        "chosen": _chosen(run.summary.get("model_selection") or []),
        "pi_effects": _pi_effects(run.summary.get("pi_effects") or []),
        "settings": _settings(run.config),
    }
    target = run.path / "report.html"
    write_text(target, _render(context))
    return target


def _read_counted(run: RunFiles) -> Predictions:
    """The columns of the predictions that are counted; or say what the run lacks."""
    path = run.path
    if not (path / "predictions.parquet").is_file():
        raise RunError(f"{path} has no predictions.parquet, so there is nothing to report; fit into it first.")
    if not (path / "summary.json").is_file():
        raise RunError(f"{path} has no summary.json; it is not a finished run, so fit again.")
    predictions = run.read_predictions(COUNTED)
    if run.summary["n_issues"] != predictions.n_issues:
        raise RunError(
            f"{path / 'summary.json'} counts {run.summary['n_issues']:,} issues and {path / 'predictions.parquet'} "
            f"marks {predictions.n_issues:,}; the directory is damaged, so fit again."
        )
    return predictions


def _known_wrong(predictions: Predictions) -> tuple[Array, Array] | None:
    """Which labels are known to be wrong, and for which this is known at all; None without clean labels."""
    y = predictions.y
    return None if y is None or (y < 0).all() else (y != predictions.given, y >= 0)


def _headline(run: RunFiles, predictions: Predictions) -> Context:
    """Title, key figures, plain sentences, and what the reader must be warned of."""
    data, summary = run.config.get("data", {}), run.summary
    n, n_issues = len(predictions), predictions.n_issues
    noise = _number(summary.get("estimated_noise_rate"))
    accuracy = _number(summary.get("valid_accuracy"))
    tiles = [
        ("Labels", _count(n), _of_items(data)),
        ("Look wrong", _count(n_issues), f"{_percent(n_issues / n if n else None)} of all labels"),
        ("Estimated noise", _percent(noise), "share of labels that are wrong"),
    ]
    if accuracy is not None:
        tiles.append(("Validation agreement", _percent(accuracy), "with given labels held out of training"))
    if run.annotators is not None:
        tiles.append(("Annotators", _count(len(run.annotators)), _busiest(run.annotators)))
    guard = summary.get("guard") or {}
    return {
        "title": _title(n, n_issues),
        "table": str(data.get("table", "annotation table")),
        "run_name": run.path.resolve().name,
        "command": _command(run),
        "method": str(run.config.get("method_title") or run.config.get("method", "unknown method")),
        "has_gate": predictions.gate is not None,
        "has_consensus": predictions.has_consensus,
        "judges": run.summary.get("label_quality") == "posterior",
        "created": str(run.config.get("created", ""))[:16].replace("T", " "),
        "version": str(run.config.get("pidual", "")),
        "tiles": tiles,
        "cut_note": str((summary.get("cutoff") or {}).get("note", "")),
        "sentences": _sentences(predictions, noise, accuracy),
        "guard": {"events": _events(guard.get("events") or []), "recovered": bool(guard.get("recovered"))},
        "warnings": [str(text) for text in summary.get("warnings") or []][:MAX_EVENTS],
    }


def _events(events: list[Context]) -> list[Context]:
    """What the guard did, with epochs counted from 1, as people do."""
    return [event | {"epoch": event["epoch"] + 1} for event in events[:MAX_EVENTS]]


def _title(n: int, n_issues: int) -> str:
    if not n_issues:
        return f"None of {_count(n)} labels looks wrong"
    return f"{_count(n_issues)} of {_count(n)} labels {'looks' if n_issues == 1 else 'look'} wrong"


def _command(run: RunFiles) -> str:
    """The command that lists the labels this page shows, for the directory as it was named to us."""
    cutoff = run.summary.get("cutoff") or {}
    options = {"budget": ["--budget", str(cutoff.get("budget"))], "fixed": ["--cutoff", str(cutoff.get("value"))]}
    return shlex.join(["pidual", "detect", str(run.path), *options.get(str(cutoff.get("kind")), [])])


def _of_items(data: Context) -> str:
    n_items, n_classes = data.get("n_items"), data.get("n_classes")
    items = f"of {_count(n_items)} items" if n_items else ""
    return ", ".join(part for part in (items, f"{_count(n_classes)} classes" if n_classes else "") if part)


def _busiest(annotators: pd.DataFrame) -> str:
    return f"median {_count(int(annotators['num_labelled'].median()))} labels each" if len(annotators) else ""


def _sentences(predictions: Predictions, noise: float | None, accuracy: float | None) -> list[str]:
    """The result in plain words."""
    n, n_issues = len(predictions), predictions.n_issues
    found = []
    if noise is not None:
        found.append(_noise_sentence(n, n_issues, noise))
    if accuracy is not None:
        found.append(
            f"On labels kept out of training, the model agrees with the given label {_percent(accuracy)} of the time. "
            "Those labels hold mistakes too, so even a perfect model would not reach 100% here."
        )
    wrong = _known_wrong(predictions)
    if wrong is not None and n_issues:
        flagged = predictions.is_issue & wrong[1]
        hits = int(np.count_nonzero(flagged & wrong[0]))
        if flagged.any():
            found.append(
                f"Clean labels, known for checking only, say that {_count(hits)} of the {_count(int(flagged.sum()))} "
                "flagged labels that can be checked really are wrong."
            )
    return found


def _noise_sentence(n: int, n_issues: int, noise: float) -> str:
    expected = round(noise * n)
    start = f"An estimated {_percent(noise)} of all labels are wrong, about {_count(expected)} of them."
    if not expected:
        return "By the model's estimate, hardly any label is wrong."
    if n_issues > 1.25 * expected:
        return f"{start} More are flagged, so expect some of the flagged labels to be right."
    if n_issues < 0.8 * expected:
        return f"{start} Fewer are flagged: those that stand out most."
    return f"{start} The flagged ones are the likeliest."


def _suspects(run: RunFiles, predictions: Predictions, limit: int) -> Context:
    """The labels that look wrong, lowest quality first."""
    flagged = np.flatnonzero(predictions.is_issue)
    quality = predictions.label_quality[flagged]
    rows = flagged[np.argsort(quality, kind="stable")[:limit]]
    names = ["item", "annotator", "given_label", "label_quality", "gate", "y"]
    there = column_names(run.path / "predictions.parquet")
    columns = [name for name in [*names, *REASON_PARTS, "reason"] if name in there]
    frame = take_rows(run.path / "predictions.parquet", rows, columns)
    classes = np.array([_clean(name) for name in predictions.classes], dtype=object)
    frame["suggested"] = classes[predictions.suggested[rows]]
    frame["suggested_probability"] = predictions.suggested_probability[rows]
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    pictures = _pictures([str(record["item"]) for record in records], run.thumbnails)
    listed = [
        {str(key): _clean(value) for key, value in record.items()}
        | {"picture": picture, "reason": _clean(_why(record))}
        for record, picture in zip(records, pictures, strict=True)
    ]
    return {
        "total": len(flagged),
        "shown": len(listed),
        "first": listed[:OPEN_SUSPECTS],
        "more": listed[OPEN_SUSPECTS:],
        "has": {name: name in columns for name in ("annotator", "gate", "y")} | {"picture": any(pictures)},
    }


def _why(record: Mapping[Any, Any]) -> str:
    """The reason without the part that the table's own columns say; all of it in runs from before there were parts."""
    parts = [name for name in REASON_PARTS if name in record]
    return join_parts(record[name] for name in parts if name != "reason_label") if parts else record["reason"]


def _pictures(items: list[str], thumbnails: Mapping[str, bytes]) -> list[str | None]:
    """Data addresses of the thumbnails, until they would make the page heavy."""
    pictures: list[str | None] = []
    left = MAX_THUMBNAIL_BYTES
    for item in items:
        png = thumbnails.get(item)
        fits = png is not None and len(png) <= left
        pictures.append(f"data:image/png;base64,{base64.b64encode(png).decode()}" if png and fits else None)
        left -= len(png) if png and fits else 0
    return pictures


def _confusion(p: Predictions) -> Context:
    """Which given labels would be replaced by which."""
    k = len(p.classes)
    given, predicted = p.given.astype(np.int64), p.suggested.astype(np.int64)
    flagged = p.is_issue & (given != predicted)
    keys, counts = np.unique(given[flagged] * k + predicted[flagged], return_counts=True)
    n_given = np.bincount(given, minlength=k)
    top = np.argsort(-counts, kind="stable")[:MAX_PAIRS]
    pairs = [
        {
            "given": _clean(p.classes[key // k]),
            "predicted": _clean(p.classes[key % k]),
            "count": int(count),
            "share": float(count / n_given[key // k]),
            "width": float(100 * count / counts[top[0]]),
        }
        for key, count in zip(keys[top].tolist(), counts[top].tolist(), strict=True)
    ]
    heat = _heat(given, predicted, p.classes, n_given) if k <= MAX_HEAT_CLASSES else None
    return {"pairs": pairs, "n_pairs": len(keys), "heat": heat}


def _heat(given: Array, predicted: Array, classes: list[Any], n_given: Array) -> Context:
    k = len(classes)
    counts = np.bincount(given * k + predicted, minlength=k * k).reshape(k, k)
    share = counts / np.maximum(n_given, 1)[:, None]
    strongest = max(float(np.where(np.eye(k, dtype=bool), 0, share).max()), 1e-9)
    rows = [
        {
            "name": _clean(classes[i]),
            "total": int(n_given[i]),
            "cells": [
                {"share": float(share[i, j]), "same": i == j, "strength": round(float(share[i, j]) / strongest, 3)}
                for j in range(k)
            ],
        }
        for i in range(k)
    ]
    return {"classes": [_clean(name) for name in classes], "rows": rows}


def _annotators(frame: pd.DataFrame | None) -> Context | None:
    """Annotators that are surely worse first: ordered by the upper end of their interval."""
    if frame is None or not len(frame):
        return None
    ordered = frame.sort_values(["quality_high", "num_labelled"], ascending=[True, False], kind="stable")
    shown = ordered.head(MAX_ANNOTATORS).astype(object)
    rows = shown.where(shown.notna(), None).to_dict("records")
    labelled = frame["num_labelled"].to_numpy(dtype=np.float64)
    average = float((frame["annotator_quality"].to_numpy(dtype=np.float64) * labelled).sum() / max(labelled.sum(), 1))
    return {
        "total": len(frame),
        "average": average,
        "n_below": int((frame["quality_high"] < average).sum()),
        "has_gate": "mean_gate" in frame,
        "has_habits": "favourite_label" in frame,
        "rows": [{str(key): _clean(value) for key, value in row.items()} for row in rows],
    }


def _histograms(p: Predictions) -> list[Context]:
    """Label quality and gate: flagged beside not flagged, and wrong beside right where that is known."""
    wrong = _known_wrong(p)
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


def _curves(run: RunFiles) -> list[Context]:
    """Loss, validation accuracy and mean gate over epochs, counted from 1, where they were recorded."""
    selected = run.summary["selected_epoch"] + 1
    found = []
    for key, title in (("loss", "Training loss"), ("valid_accuracy", "Validation agreement"), ("gate", "Mean gate")):
        attempts: dict[Any, list[tuple[int, float]]] = {}
        for epoch in _mean_of_members(run.history, key):
            value = _number(epoch.get(key))
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


def _mean_of_members(epochs: list[Context], key: str) -> list[Context]:
    """Where members were trained apart, the mean over them in every epoch, each in its last attempt; else as it is."""
    apart = [epoch for epoch in epochs if str(epoch.get("stage", "")).startswith(("member ", "group "))]
    if not apart:
        return epochs
    last = {(epoch["stage"], epoch["epoch"]): _number(epoch.get(key)) for epoch in apart}
    means: dict[int, list[float]] = {}
    for (_, number), value in last.items():
        means.setdefault(number, []).extend([] if value is None else [value])
    return [{"epoch": number, key: sum(of) / len(of)} for number, of in sorted(means.items()) if of]


def _evaluation(values: Context | None) -> list[tuple[str, str, str]]:
    """What the clean labels say, each with its meaning; empty where there were none."""
    if not values:
        return []
    meaning = [
        ("test_accuracy", "Test accuracy", "share of test items the model gets right", _percent),
        ("detection_auc", "Detection AUC", "1 = every wrong label ranks below every right one", _auc),
        ("gate_auc", "Gate AUC", "the same, ranked by the gate", _auc),
        ("consensus_accuracy", "Consensus accuracy", "share of items whose consensus is right", _percent),
        ("noise_rate", "True noise", "share of labels that are wrong", _percent),
        ("issue_precision", "Precision", "share of flagged labels that are wrong", _percent),
        ("issue_recall", "Recall", "share of wrong labels that are flagged", _percent),
    ]
    known = [entry for entry in meaning if _number(values.get(entry[0])) is not None]
    shown = [(name, show(_number(values[key])), what) for key, name, what, show in known]
    native = {name: auc for name, auc in (values.get("score_auc") or {}).items() if name != "gate"}
    return shown + [
        (f"{name.replace('_', ' ').capitalize()} AUC", _auc(_number(auc)), "the same, ranked by the method's own score")
        for name, auc in native.items()
    ]


def _chosen(records: list[Context]) -> Context | None:
    """The settings a run tried, those that count most first, and what held-out answers say of each."""
    if not records:
        return None
    names = [name for name in records[0] if name not in ("share", "answer_log_likelihood")]
    names = [name for name in names if any(record.get(name) is not None for record in records)]
    ordered = sorted(records, key=lambda record: -(_number(record.get("share")) or 0.0))
    rows: list[Context] = [
        {
            "share": _number(record.get("share")),
            "likelihood": _number(record.get("answer_log_likelihood")),
            "values": [_setting(record.get(name)) for name in names],
        }
        for record in ordered
    ]
    counting = sum((row["share"] or 0) >= LITTLE for row in rows)
    shown = rows[:MAX_CHOSEN]
    return {"names": [name.replace("_", " ") for name in names], "rows": shown, "n": len(rows), "counting": counting}


def _setting(value: Any) -> str:
    number = _number(value) if not isinstance(value, bool) else None
    return _score(number) if number is not None else "–" if value is None else str(_clean(str(value)))


def _pi_effects(records: list[Context]) -> list[Context]:
    """What PI says of answers, the strongest effect first."""
    shown = [
        {
            "column": _clean(record["column"]),
            "low": _setting(record["low"]),
            "high": _setting(record["high"]),
            "right_at_low": record["right_at_low"],
            "right_at_high": record["right_at_high"],
        }
        for record in records
    ]
    return sorted(shown, key=lambda row: -abs(row["right_at_high"] - row["right_at_low"]))[:MAX_EVENTS]


def _settings(config: Context) -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything the run was made with, in groups of name and value."""
    general = {key: config.get(key) for key in ("pidual", "created", "method", "setting", "seed")}
    general["command"] = config.get("source", {}).get("command")
    data = {key.replace("_", " "): value for key, value in (config.get("data") or {}).items() if key != "pi"}
    groups = {
        "Run": general,
        "Data": data,
        "Privileged information": {
            str(pi.get("name")): _describe_pi(pi) for pi in (config.get("data") or {}).get("pi") or []
        },
        "Method": config.get("method_options") or {},
        "Training": config.get("training") or {},
        "Network": config.get("network") or {},
        "Versions": config.get("versions") or {},
        "Hardware": config.get("hardware") or {},
    }
    return [(name, list(_flat(values))[:MAX_SETTINGS]) for name, values in groups.items() if values]


def _describe_pi(pi: Context) -> str:
    parts = ["moment" if "first" in pi else str(pi.get("kind", ""))]
    if "n_categories" in pi:
        parts.append(f"{_count(pi['n_categories'])} values")
    if "first" in pi and "last" in pi:
        parts.append(f"from {pi['first']} to {pi['last']}")
    if "median" in pi:
        parts.append(f"median {_score(_number(pi['median']))}")
    if "mean" in pi and "std" in pi:
        parts.append(f"mean {_score(_number(pi['mean']))}, standard deviation {_score(_number(pi['std']))}")
    if pi.get("n_missing"):
        parts.append(f"{_count(pi['n_missing'])} missing")
    return ", ".join(part for part in parts if part)


def _flat(values: Context, prefix: str = "") -> Any:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key} ")
        elif value is not None:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield _clean(f"{prefix}{key}"), _clean(text)


def _render(context: Context) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    templates = FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8")
    environment = Environment(
        loader=templates,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: type(value)(printable(value, keep="\n\t")) if isinstance(value, str) else value,
    )
    environment.filters |= {
        "count": _count,
        "percent": _percent,
        "score": _score,
        "quality": _quality,
        "sure": _sure,
        "svg": Markup,
    }
    return environment.get_template("report.html").render(context)


def _clean(value: Any) -> Any:
    """A value fit for the page: text of bearable length, no NaN."""
    if isinstance(value, (float, np.floating)):
        return _number(float(value))
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}…"
    return value


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _count(value: Any) -> str:
    return f"{int(value):,}" if value is not None else "–"


def _percent(value: float | None) -> str:
    if value is None:
        return "–"
    if 0 < value < 0.001 or 0.999 < value < 1:
        return "under 0.1%" if value < 0.5 else "over 99.9%"
    return f"{100 * value:.0f}%" if value in (0, 1) else f"{100 * value:.1f}%"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _sure(value: float | None) -> str:
    if value is None:
        return "–"
    return "> 99%" if value > 0.99 else f"{100 * value:.0f}%"


def _auc(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _quality(value: float | None) -> str:
    if value is None:
        return "–"
    return "< 0.01" if value < 0.01 else f"{value:.2f}"
