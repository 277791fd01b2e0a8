"""How reliable the effect of a PI column is."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..detect.columns import is_moment, numbers
from ..detect.tells import FEW_VALUES, TAILS, Answers, find_telling
from ..metrics import NORMAL_95

ENDS = TAILS[1]  # of a column of numbers: rows of so low, and so high values are compared


def with_uncertainty(
    effects: list[dict[str, Any]], frame: pd.DataFrame, truth: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Effects of PI columns with an interval of their difference, and whether the column indicates wrong answers.

    The interval has the width of that of a plain comparison: of rows with low values and rows with high values, or of
    the two categories, each answer beside the same annotator's others; answers to one item count together.

    Parameters
    ----------
    effects : list of dict
        From `pi_effects`: column, low, high, difference.
    frame : DataFrame (N rows)
        Item, label, PI columns and, where known, annotator.
    truth : int array (N,)
        Most likely class of every row's item.
    """
    wrong = frame["label"].cat.codes.to_numpy() != truth
    who = frame["annotator"].cat.codes.to_numpy() if "annotator" in frame else None
    item = frame["item"].cat.codes.to_numpy()
    answers = Answers.of(wrong, who, item)
    columns = [effect["column"] for effect in effects]
    telling = {one.name: bool(one.tells.any()) for one in find_telling(frame[columns], wrong, who, item)}
    found = []
    for effect in effects:
        low, high = ends(frame[effect["column"]], effect["low"], effect["high"])
        reach = NORMAL_95 * spread(answers, low, high)
        about = {"difference_low": effect["difference"] - reach, "difference_high": effect["difference"] + reach}
        clipped = {name: float(np.clip(value, -1, 1)) for name, value in about.items()}
        found.append(effect | clipped | {"tells": telling[effect["column"]]})
    return found


def ends(column: "pd.Series[Any]", low: Any, high: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows with low, and with high values of a column; of categories, or few different numbers, those named."""
    if isinstance(low, str) and not is_moment(column):
        values = column.astype("category")
        names = np.array([*map(str, values.cat.categories), "missing"], dtype=object)[values.cat.codes]
        return names == low, names == high
    known = numbers(column)
    if not is_moment(column) and len(np.unique(known[np.isfinite(known)])) <= FEW_VALUES:
        return known == low, known == high
    first, last = np.nanquantile(known, [ENDS, 1 - ENDS])
    return known <= first, known >= last


def spread(answers: Answers, low: NDArray[np.bool_], high: NDArray[np.bool_]) -> float:
    """Standard error of the difference of two groups' shares of wrong answers."""
    off, total = answers.wrong - answers.rate, 0.0
    for group in (low, high):
        rows = np.flatnonzero(group)
        per_item = np.bincount(np.unique(answers.item[rows], return_inverse=True)[1], weights=off[rows])
        total += float((per_item**2).sum()) / max(len(rows), 1) ** 2 if len(rows) else 1.0
    return float(np.sqrt(total))
