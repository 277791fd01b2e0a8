"""When labels were given, and how long that took, by PI columns that say so."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi import guess_kind
from ..data.pi.kinds import MILLISECONDS, MINUTES, ORDER, is_moment, is_number, numbers, words
from ..run.predictions import Predictions

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def order_column(predictions: Predictions) -> "pd.Series[Any] | None":
    """Return the PI column that says when a label was given: a date, else a number called trial, order and the like."""
    columns = [predictions.frame[name] for name in predictions.pi_columns]
    named = [one for one in columns if is_number(one) and {*words(str(one.name))} & ORDER]
    return next(iter([*(one for one in columns if is_moment(one)), *named]), None)


def seconds_column(predictions: Predictions) -> Floats | None:
    """Return the seconds each answer took, by the first PI column that is a duration; None where there is none."""
    for name in predictions.pi_columns:
        column = predictions.frame[name]
        if guess_kind(name, column) == "duration":
            unit = {*words(name)}
            scale = 1e-3 if unit & MILLISECONDS else 60.0 if unit & MINUTES else 1.0
            return numbers(column) * scale
    return None


def median_of(who: Ints, values: Floats, size: int) -> Floats:
    """Return the median of the known values of each of `size` annotators, NaN where there is none."""
    known = np.isfinite(values)
    who, values = who[known], values[known]
    values = values[np.lexsort((values, who))]
    n = np.bincount(who, minlength=size)
    start, median, some = np.cumsum(n) - n, np.full(size, np.nan), n > 0
    low, high = (start + np.maximum(n - 1, 0) // 2)[some], (start + n // 2)[some]
    median[some] = (values[low] + values[high]) / 2
    return median
