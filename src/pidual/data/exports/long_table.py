"""Answers of an export as a long table: their order and time of day, and a guess at the role of each column."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import DataWarning
from ..columns import keys, values
from ..people import is_address
from ..sources.base import Guess, Source
from ..sources.in_arrow import InArrow, Long

UNKNOWN = "unknown"  # who gave an answer, where others have a name
PI = ("annotator", "seconds", "changes", "interactions", "trial", "hour", "pre_annotated")
_RESERVED = ("item", "label", "annotator", "y", "split", "truth")  # names that mean something in a table
_FILE = r"(?i)^\S*\.(png|jpe?g|gif|bmp|webp|tiff?|ppm)(\?\S*)?$"
_NAME = r"^\S*$"  # one word: a name, an address, a path
_SOME = 1000  # items that show what a field holds


def finished(of: Source, rows: NDArray[np.int64], own: dict[str, pa.ChunkedArray], aliases: dict[str, str]) -> Long:
    """Return the long table with the order and time of the answers, and a guess at the role of each column.

    `of`: the fields of the items.
    `rows`: the row of `of` that belongs to every answer.
    `own`: item, label and what else is known about every answer.
    `aliases`: names by which a user may call columns of `own`.
    """
    scratch = InArrow(of.name, own)
    if "annotator" in own:
        text = own["annotator"].cast(pa.large_string())
        own["annotator"] = pc.fill_null(text, UNKNOWN)
    if "created_at" in own:
        own |= _times(scratch, own)
    long = Long(of, rows, own, {*aliases, *_RESERVED})
    long.aliases = {"id": "item", "completed_by": "annotator", "lead_time": "seconds", "user_id": "annotator"} | aliases
    long.aliases = {name: column for name, column in long.aliases.items() if name not in long and column in long}
    pi = [name for name in PI if name in own and pc.count_distinct(own[name]).as_py() > 1]
    text, columns, image = guess_inputs(of)
    named = [long.name_of(name) if name else None for name in (text, image)]
    long.guess = Guess(pi, named[0], [long.name_of(name) for name in columns], named[1])
    return long


def guess_inputs(of: Source) -> tuple[str | None, list[str], str | None]:
    """Return the field of text, the columns of a vector and the field of image files that an export has, if it has one.

    A field is text if most of its values are of several words. Of several such fields, `text` is taken, or none.
    """
    if of.vectors:
        return None, list(of.vectors[0]), None
    texts, images = [], []
    for name in of.columns:
        column = of.read([name])[name]
        if not pa.types.is_large_string(column.type) and not pa.types.is_string(column.type):
            continue
        some = column[:_SOME].drop_null()
        if _share(some, _FILE) > 0.5:
            images.append(name)
        elif name == "text" or (_share(some, _NAME) < 0.5 and not all(map(is_address, some[:20].to_pylist()))):
            texts.append(name)
    text = texts[0] if len(texts) == 1 else "text" if "text" in texts else None
    return text, [], images[0] if len(images) == 1 and text is None else None


def _share(column: Any, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(column, pattern).cast(pa.float64())).as_py() or 0.0)


def _times(scratch: Source, own: Mapping[str, Any]) -> dict[str, pa.ChunkedArray]:
    """Return the place of every answer among those of its annotator, and the hour of the day."""
    moments = values(scratch, "created_at", own["created_at"])
    if not isinstance(moments, np.ndarray) or moments.dtype.kind != "M":
        text = f"{scratch.name}: created_at has values that are not dates, so order and time of day are unknown."
        warnings.warn(text, DataWarning, stacklevel=5)
        return {}
    known = ~np.isnat(moments)
    micro = moments.astype("datetime64[us]").astype(np.int64)
    hours = pa.array((micro // 3_600_000_000) % 24, mask=~known)
    found = {"hour": pa.chunked_array([hours])}
    if "annotator" in own:
        who = keys(scratch, "annotator", own["annotator"]).codes
        order = pd.Series(moments).groupby(who).rank(method="dense").fillna(0).to_numpy().astype(np.int64)
        found["trial"] = pa.chunked_array([pa.array(order, mask=~known)])
    return found
