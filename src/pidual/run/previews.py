"""What a run keeps of its most suspicious items, so that people can judge them: picture, text, or unusual columns.

Nothing of annotators is kept here: only inputs are looked at, and inputs that name people have been refused before.
"""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from ..data.people import hide_addresses
from ..predictions import Predictions
from .prepare import Job

LIMIT = 200  # suspects of which something is kept
MAX_SIDE = 96  # pixels of a picture
MAX_CHARACTERS = 400  # of a text
MAX_UNUSUAL = 4  # columns of a row
LEAST_DISTANCE = 2.0  # robust standard deviations from which on a value is unusual
FAR = 99.0  # the largest distance, such as from a value that all others share
FEWEST = 10  # items of a class that say what is usual in it
MOST = 2_000  # items that are looked at for it
NUMBERS = 2**23  # of them, items x columns
PREVIEW = {"row": "int64", "column": "str", "text": "str", "value": "f8", "low": "f8", "high": "f8", "distance": "f8"}


def suspicious_rows(predictions: Predictions, limit: int = LIMIT) -> NDArray[np.int64]:
    """Annotations that a report lists first: those marked, and the worst of all, as others may be marked later."""
    order = np.argsort(predictions.label_quality, kind="stable")
    marked = order[predictions.is_issue[order]][:limit]
    return np.asarray(pd.unique(np.concatenate([marked, order[:limit]])), np.int64)


def thumbnails(job: Job, predictions: Predictions, limit: int = LIMIT) -> pd.DataFrame:
    """PNG images of the items with the most suspicious labels, where inputs are images: item, png."""
    pictures: dict[str, bytes] = {}
    for row in suspicious_rows(predictions, limit).tolist() if job.inputs.kind == "images" else []:
        item = str(predictions.frame["item"].iloc[row])
        if item not in pictures and len(pictures) < limit:
            pictures[item] = picture(job.rows.take_x(job.rows.x_row[row : row + 1])[0].numpy())
    return pd.DataFrame(
        {"item": pd.Series(list(pictures), dtype="str"), "png": pd.Series(list(pictures.values()), dtype=object)}
    )


def picture(x: NDArray[np.uint8]) -> bytes:
    """An image (3, H, W) as a small PNG file; a large one has 256 colours, which nobody misses at this size."""
    image: Any = Image.fromarray(x.transpose(1, 2, 0))
    if max(image.size) > MAX_SIDE:
        image.thumbnail((MAX_SIDE, MAX_SIDE))
        image = image.quantize()
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


def previews(job: Job, predictions: Predictions) -> pd.DataFrame:
    """The text, or the most unusual columns, of the items with the most suspicious labels.

    Returns
    -------
    pandas.DataFrame
        row, the annotation; column, of the input; text, the beginning of the text, else ""; value, low, high and
        distance of a number: what it is, what lies between the 10th and the 90th percentile of the items of the given
        class, and how many robust standard deviations of these it is away from their median.
    """
    found: Iterator[tuple[Any, ...]] = iter(())
    rows = suspicious_rows(predictions)
    if job.inputs.texts is not None:
        found = _texts(job, rows)
    elif job.inputs.kind == "columns":
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
    x, names, x_row = job.inputs.array, job.inputs.schema["columns"], job.rows.x_row.numpy()
    assert isinstance(x, np.ndarray)
    likely = np.full(len(job.inputs), -1, np.int64)
    likely[x_row] = predictions.suggested
    given = predictions.given[rows]
    classes = np.unique(given)
    most = int(np.clip(NUMBERS // (len(names) * max(1, len(classes))), FEWEST, MOST))
    for code in classes:
        members = np.flatnonzero(likely == code)
        if len(members) < FEWEST:
            members = np.flatnonzero(likely >= 0)
        others = np.asarray(x[members[:: -(-len(members) // most)]], np.float64)
        mine = rows[given == code]
        values = np.asarray(x[x_row[mine]], np.float64)
        distance = robust_distance(values, others)
        low, high = np.quantile(others, [0.1, 0.9], axis=0)
        for row, value, far in zip(mine.tolist(), values, distance, strict=True):
            for at in np.argsort(-np.abs(far), kind="stable")[:MAX_UNUSUAL].tolist():
                if abs(far[at]) >= LEAST_DISTANCE:
                    yield row, str(names[at]), "", value[at], low[at], high[at], far[at]


def robust_distance(values: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far values (V, D) are from the median of others (N, D), in units of their robust standard deviation.

    That is 1.4826 times the median absolute deviation, the mean one where more than half are equal; where all are, any
    other value is as far as can be.
    """
    median = np.median(others, axis=0)
    deviation = np.abs(others - median)
    scale = 1.4826 * np.median(deviation, axis=0)
    scale = np.where(scale > 0, scale, 1.2533 * deviation.mean(axis=0))
    away = values - median
    distance = np.divide(away, scale, out=np.sign(away) * FAR, where=scale > 0)
    return np.asarray(np.clip(distance, -FAR, FAR), np.float64)
