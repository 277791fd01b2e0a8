"""Annotators, how good each is and how far they agree; classes, and which are mistaken for which."""

import math
from typing import Any

import numpy as np
import pandas as pd

from ...detect.counts import Counts
from ...detect.items import Truth
from ...detect.sentences import between, percent
from ...run.predictions import Predictions
from ...run.records.summary import Agreement, Classes
from .words import Array, Context, measured

MAX_ANNOTATORS = 50
OPEN_ANNOTATORS = 5
MAX_AGREEING = 20
BY_CLASS = 10  # annotators of whom the page has the accuracy on each class
MAX_CLASSES = 12  # those on which these lose most
FADED = 0.5  # how much less often right than the others, to be as red as can be
AXIS_STEP = 0.05  # the axis of intervals begins and ends at a multiple of this
GOOD, FAIR = 0.8, 0.667  # of Krippendorff's alpha, by his own advice


def annotators(frame: pd.DataFrame | None) -> Context | None:
    """Describe the worst annotators, each with what stands out, and how many there are."""
    if frame is None or not len(frame):
        return None
    shown = _worst_first(frame).head(MAX_ANNOTATORS)
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
        "has_agreement": any(row["agreement"] is not None for row in rows),
        "has_no_answers": "no_answers" in frame,
        "first": rows[:OPEN_ANNOTATORS],
        "more": rows[OPEN_ANNOTATORS:],
    }


def by_class(people: pd.DataFrame | None, frame: pd.DataFrame | None) -> Context | None:
    """How often the worst annotators are right on each class, beside the others; None where a run does not know.

    `people` has a row per annotator, `frame` one per annotator and true class.
    """
    if people is None or frame is None or not len(frame):
        return None
    worst = _worst_first(people)["annotator"].head(BY_CLASS)
    frame = frame[frame["annotator"].isin(worst)].astype({"annotator": str})
    missed = (frame["num_items"] * (frame["others_accuracy"] - frame["accuracy"])).clip(lower=0)
    most = missed.groupby(frame["true_class"], observed=True).sum().nlargest(MAX_CLASSES).index
    names = [name for name in frame["true_class"].cat.categories if name in most]
    others = frame.groupby("true_class", observed=True)["others_accuracy"].mean()
    cells = frame.set_index(["annotator", "true_class"]).to_dict("index")
    return {
        "classes": names,
        "total": len(frame["true_class"].cat.categories),
        "others": [float(others[name]) for name in names],
        "rows": [
            {"name": person, "cells": [_cell(cells.get((person, name))) for name in names]}
            for person in worst.astype(str)
        ],
    }


def _cell(record: dict[Any, Any] | None) -> Context | None:
    """Describe an annotator on a class; None where they labelled none of its items."""
    if record is None:
        return None
    less = float(record["others_accuracy"]) - float(record["accuracy"])
    return record | {"strength": round(min(max(less, 0.0) / FADED, 1.0), 3)}


def _worst_first(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("harm", ascending=False, kind="stable")


def axis_of(low: float, high: float, average: float) -> tuple[float, float]:
    """Where an axis of shares begins and ends so that these values fill it."""
    start = math.floor(min(low, average) / AXIS_STEP + 1e-9) * AXIS_STEP
    end = math.ceil(max(high, average) / AXIS_STEP - 1e-9) * AXIS_STEP
    start = max(0.0, min(start, 1 - AXIS_STEP))
    return start, min(1.0, max(end, start + AXIS_STEP))


def _row(row: dict[Any, Any], start: float, end: float) -> Context:
    quality, low, high = row["annotator_quality"], row["quality_low"], row["quality_high"]
    no_answers = row.get("no_answers") or 0
    places = [100 * (value - start) / (end - start) for value in (low, quality, high)]
    return {
        "annotator": row["annotator"],
        "quality": quality,
        "low": low,
        "high": high,
        "places": places,
        "labelled": row["num_labelled"],
        "wrong": row["expected_wrong"],
        "issues": row["num_issues"],
        "no_answer": no_answers / (no_answers + row["num_labelled"]),
        "agreement": row.get("agreement"),
        "notes": _notes(row),
    }


def _notes(row: Context) -> list[str]:
    notes = []
    if row.get("copies") is not None:
        notes.append(f"same answers as {row['copies']}")
    if row.get("worst_class") is not None:
        accuracy = row.get("worst_class_accuracy")
        notes.append(f"weakest at {row['worst_class']}" + ("" if accuracy is None else f" ({percent(accuracy)} right)"))
    if row.get("favourite_label") is not None:
        notes.append(f"often says {row['favourite_label']} (+{percent(row.get('favourite_excess'))})")
    if row.get("worst_confusion") is not None:
        confusion = str(row["worst_confusion"]).replace(" -> ", " → ")
        notes.append(f"confuses {confusion} ({percent(row.get('worst_confusion_share'))})")
    if row.get("gold_kappa") is not None:
        ends = f"{row['gold_kappa_low']:.2f} to {row['gold_kappa_high']:.2f}"
        notes.append(f"kappa {row['gold_kappa']:.2f} with checked items ({ends})")
    if row.get("order_pairs"):
        ends = between(row["order_agreement_low"], row["order_agreement_high"])
        notes.append(f"same answer in another order for {percent(row['order_agreement'])} ({ends})")
        if row["order_shift_low"] > 0:
            shift, low, high = (100 * row[f"order_shift{end}"] for end in ("", "_low", "_high"))
            notes.append(f"more often {row['order_favours']} (+{shift:.1f} points, {low:.1f} to {high:.1f})")
    if row.get("median_seconds") is not None:
        notes.append(f"median {measured(row['median_seconds'])} s")
    return notes


def agreement(found: Agreement | None) -> Context | None:
    """How far annotators agree, beyond chance; None where no item has two answers."""
    if found is None:
        return None
    return {
        "alpha": found.alpha,
        "level": "good" if found.alpha >= GOOD else "fair" if found.alpha >= FAIR else "low",
        "interval": f"{found.alpha_low:.2f} to {found.alpha_high:.2f}",
        "pairs": found.pairs[:MAX_AGREEING],
    }


MAX_PAIRS = 8
MAX_ADVICE = 10
MAX_HEAT_CLASSES = 12


def classes(estimated: Classes, predictions: Predictions) -> Context:
    """Advice, frequent confusions and a matrix: as the run estimated them, else as labels were flagged."""
    pairs, matrix = sorted(estimated.pairs, key=lambda pair: -pair.count), estimated.transitions
    return {
        "advice": estimated.advice[:MAX_ADVICE],
        "estimated": pairs[:MAX_PAIRS],
        "n_estimated": len(pairs),
        "transitions": None if matrix is None or not estimated.names else _matrix(np.array(matrix), estimated.names),
        **_corrections(predictions),
    }


def _matrix(share: Array, names: list[Any]) -> Context:
    k = len(names)
    strongest = max(float(np.where(np.eye(k, dtype=bool), 0, share).max()), 1e-9)
    rows = [
        {
            "name": names[i],
            "cells": [
                {"share": float(share[i, j]), "same": i == j, "strength": round(float(share[i, j]) / strongest, 3)}
                for j in range(k)
            ],
        }
        for i in range(k)
    ]
    return {"classes": names, "rows": rows}


def _corrections(p: Predictions) -> Context:
    """Which given labels would be replaced by which."""
    k = len(p.classes)
    changed = Truth.by_consensus(p.suggested, p.is_issue & (p.given != p.suggested))
    counts, n_given = Counts.of(None, p.given, changed, k), np.bincount(p.given, minlength=k)
    order = np.lexsort((counts.true, counts.given, -counts.n))[: np.count_nonzero(counts.n)]
    pairs = [
        {"given": p.classes[given], "suggested": p.classes[true], "count": int(n), "share": n / n_given[given]}
        for given, true, n in zip(
            *(part[order[:MAX_PAIRS]].tolist() for part in (counts.given, counts.true, counts.n)), strict=True
        )
    ]
    heat = None
    if k <= MAX_HEAT_CLASSES:
        table = Counts.of(None, p.given, Truth.by_consensus(p.suggested, np.ones(len(p))), k).matrix().T
        heat = _matrix(table / np.maximum(n_given, 1)[:, None], p.classes)
    return {"pairs": pairs, "n_pairs": len(order), "heat": heat}
