"""The labels that look wrong, each with what it is about: picture, text, or the columns that are unusual."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from ...run.files import RunFiles
from ...run.predictions import REASON_PARTS, Predictions, join_parts
from ..previews import NOTHING, previews
from .words import Context

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
