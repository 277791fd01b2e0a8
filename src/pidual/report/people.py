"""Annotators: how good each is, what stands out, and how far they agree."""

import math
from typing import Any

import numpy as np
import pandas as pd

from .words import Context, clean, cleaned, measured, number, percent, records, section

MAX_ANNOTATORS = 50
OPEN_ANNOTATORS = 5
MAX_AGREEING = 20
AXIS_STEP = 0.05  # the axis of intervals begins and ends at a multiple of this
GOOD, FAIR = 0.8, 0.667  # of Krippendorff's alpha, by his own advice


def annotators(frame: pd.DataFrame | None) -> Context | None:
    """Annotators, those who do most harm first; in older runs those who are surely worse."""
    if frame is None or not len(frame):
        return None
    order, ascending = (["harm"], [False]) if "harm" in frame else (["quality_high", "num_labelled"], [True, False])
    shown = frame.sort_values(order, ascending=ascending, kind="stable").head(MAX_ANNOTATORS)
    labelled = frame["num_labelled"].to_numpy(dtype=np.float64)
    average = float((frame["annotator_quality"].to_numpy(dtype=np.float64) * labelled).sum() / max(labelled.sum(), 1))
    start, end = axis_of(shown["quality_low"].min(), shown["quality_high"].max(), average)
    as_objects = shown.astype(object)
    rows = [_row(record, start, end) for record in as_objects.where(as_objects.notna(), None).to_dict("records")]
    return {
        "total": len(frame),
        "shown": len(rows),
        "average": average,
        "mean_at": 100 * (average - start) / (end - start),
        "axis": (start, end),
        "n_below": int((frame["quality_high"] < average).sum()),
        "n_drifting": int(np.count_nonzero(frame["drift"].fillna(False))) if "drift" in frame else 0,
        "by_harm": "harm" in frame,
        "has_agreement": any(row["agreement"] is not None for row in rows),
        "first": rows[:OPEN_ANNOTATORS],
        "more": rows[OPEN_ANNOTATORS:],
    }


def axis_of(low: float, high: float, average: float) -> tuple[float, float]:
    """Where an axis of shares begins and ends so that these values fill it."""
    start = math.floor(min(low, average) / AXIS_STEP + 1e-9) * AXIS_STEP
    end = math.ceil(max(high, average) / AXIS_STEP - 1e-9) * AXIS_STEP
    start = max(0.0, min(start, 1 - AXIS_STEP))
    return start, min(1.0, max(end, start + AXIS_STEP))


def _row(record: dict[Any, Any], start: float, end: float) -> Context:
    row = cleaned(record)
    quality, low, high = row["annotator_quality"], row["quality_low"], row["quality_high"]
    wrong = number(row.get("expected_wrong"))
    places = [100 * (value - start) / (end - start) for value in (low, quality, high)]
    return {
        "annotator": row["annotator"],
        "quality": quality,
        "low": low,
        "high": high,
        "places": places,
        "labelled": row["num_labelled"],
        "wrong": (1 - quality) * row["num_labelled"] if wrong is None else wrong,
        "issues": row["num_issues"],
        "agreement": number(row.get("agreement")),
        "notes": _notes(row),
    }


def _notes(row: Context) -> list[str]:
    """What stands out, a few words each."""
    notes = []
    if row.get("drift"):
        before, after = number(row.get("accuracy_before")), number(row.get("accuracy_after"))
        change = "" if before is None or after is None else f": {percent(before)} right before, {percent(after)} after"
        notes.append(f"changed at {clean(str(row.get('drift_at') or 'some point'))}{change}")
    if row.get("worst_class") is not None:
        accuracy = number(row.get("worst_class_accuracy"))
        notes.append(f"weakest at {row['worst_class']}" + ("" if accuracy is None else f" ({percent(accuracy)} right)"))
    if row.get("favourite_label") is not None:
        notes.append(f"often says {row['favourite_label']} (+{percent(row.get('favourite_excess'))})")
    if row.get("worst_confusion") is not None:
        confusion = str(row["worst_confusion"]).replace(" -> ", " → ")
        notes.append(f"confuses {confusion} ({percent(row.get('worst_confusion_share'))})")
    if number(row.get("median_seconds")) is not None:
        notes.append(f"median {measured(number(row['median_seconds']))} s")
    return notes


def agreement(summary: Context) -> Context | None:
    """How far annotators agree, beyond chance; None where no item has two answers."""
    values = section(summary, "agreement")
    alpha = number(values.get("alpha"))
    if alpha is None:
        return None
    low, high = number(values.get("alpha_low")), number(values.get("alpha_high"))
    pairs = [
        {"a": clean(str(pair.get("a"))), "b": clean(str(pair.get("b")))}
        | {"kappa": number(pair.get("kappa")), "items": number(pair.get("items"))}
        for pair in records(values.get("pairs"))
    ]
    level = "good" if alpha >= GOOD else "fair" if alpha >= FAIR else "low"
    return {
        "alpha": alpha,
        "level": level,
        "interval": "" if low is None or high is None else f"{low:.2f} to {high:.2f}",
        "kappa": number(values.get("mean_kappa")),
        "pairs": pairs[:MAX_AGREEING],
    }
