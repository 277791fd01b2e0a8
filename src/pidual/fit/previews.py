"""What a run keeps of its most suspicious items, so that people can judge them: picture, text, or unusual columns.

Nothing of annotators is kept here: only inputs are looked at, and inputs that name people have been refused before.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.images import as_pixels, is_picture, png
from ..data.inputs import feature_names
from ..data.people import hide_addresses
from ..detect.unusual import FEWEST, MOST, NUMBERS, Usual, members_of
from ..files import release
from ..run.predictions import Predictions
from .prepare import Job

LIMIT = 200  # suspects of which something is kept
TEXT_LIMIT = 10_000  # suspects of which the text is kept, for `pidual detect`
MAX_CHARACTERS = 400  # of a text
PREVIEW = {"row": "int64", "column": "str", "text": "str", "value": "f8", "low": "f8", "high": "f8", "distance": "f8"}


def suspicious_rows(predictions: Predictions, limit: int = LIMIT) -> NDArray[np.int64]:
    """Return the annotations that a report lists first: those marked, and the worst, as others may be marked later."""
    order = np.argsort(predictions.label_quality, kind="stable")
    marked = [order[group[order]][:limit] for group in (predictions.is_issue, predictions.is_resting)]
    return np.asarray(pd.unique(np.concatenate([*marked, order[:limit]])), np.int64)


def thumbnails(job: Job, predictions: Predictions, limit: int = LIMIT) -> pd.DataFrame:
    """Draw PNG images of the items with the most suspicious labels, where inputs are pictures: item, png."""
    pictures: dict[str, bytes] = {}
    x = job.inputs.array if job.inputs.pictures is None else job.inputs.pictures
    shown = job.inputs.kind == "images" or (job.inputs.kind == "array" and is_picture(x.shape[1:]))
    for row in suspicious_rows(predictions, limit).tolist() if shown else []:
        item = str(predictions.frame["item"].iloc[row])
        if item not in pictures and len(pictures) < limit:
            x_row = job.rows.x_row[row : row + 1].numpy()
            pictures[item] = png(as_pixels((x[x_row] if isinstance(x, np.ndarray) else x.take(x_row))[0]))
    return pd.DataFrame(
        {"item": pd.Series(list(pictures), dtype="str"), "png": pd.Series(list(pictures.values()), dtype=object)}
    )


def previews(job: Job, predictions: Predictions) -> pd.DataFrame:
    """Return the text, or the most unusual columns, of the items with the most suspicious labels.

    Returns
    -------
    pandas.DataFrame
        row, the annotation; column, of the input; text, the beginning of the text, else ""; value, low, high and
        distance of a number: what it is, what lies between the 10th and the 90th percentile of the items of the given
        class, and how many robust standard deviations of these it is away from their median.
    """
    found: Iterator[tuple[Any, ...]] = iter(())
    rows = suspicious_rows(predictions, LIMIT if job.inputs.texts is None else TEXT_LIMIT)
    if job.inputs.texts is not None:
        found = _texts(job, rows)
    elif job.inputs.kind == "columns" or (
        job.inputs.kind == "array" and job.inputs.pictures is None and len(job.inputs.array.shape) == 2
    ):
        found = _unusual(job, predictions, rows)
    return pd.DataFrame(list(found), columns=list(PREVIEW)).astype(PREVIEW)


def _texts(job: Job, rows: NDArray[np.int64]) -> Iterator[tuple[Any, ...]]:
    texts, column = job.inputs.texts, str(job.inputs.schema["text"])
    for row in rows.tolist():
        text = " ".join(str(texts[int(job.rows.x_row[row])].as_py() or "")[: 4 * MAX_CHARACTERS].split())
        text = text if job.table.keeps_ids else hide_addresses(text)
        cut = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1].rstrip()}…"
        yield row, column, cut, np.nan, np.nan, np.nan, np.nan


def _unusual(job: Job, predictions: Predictions, rows: NDArray[np.int64]) -> Iterator[tuple[Any, ...]]:
    x, x_row = job.inputs.array, job.rows.x_row.numpy()
    assert isinstance(x, np.ndarray)
    names = feature_names(job.inputs.schema)
    likely = np.full(len(job.inputs), -1, np.int64)
    likely[x_row] = predictions.suggested
    given = predictions.given[rows]
    classes = np.unique(given)
    most = int(np.clip(NUMBERS // (len(names) * max(1, len(classes))), FEWEST, MOST))
    for code in classes.tolist():
        usual = Usual.of(np.asarray(x[members_of(code, likely, most)], np.float64))
        release(x)
        for row in rows[given == code].tolist():
            value = np.asarray(x[x_row[row]], np.float64)
            for at, far in usual.most_unusual(value):
                yield row, str(names[at]), "", value[at], usual.low[at], usual.high[at], far
