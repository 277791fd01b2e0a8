"""What PI columns are about, by name and kind, and their values in words."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from .encoder import quantity

Floats = npt.NDArray[np.float64]

ORDER = {"trial", "order", "sequence", "seq", "nth", "timestamp", "created", "submitted", "started", "completed"} | {
    *("finished", "annotated", "date", "datetime", "session")
}
MILLISECONDS = {"ms", "millis", "milliseconds", "msec"}
MINUTES = {"min", "mins", "minutes"}
MAX_NAME = 40  # characters of a name in a sentence


def words(name: str) -> list[str]:
    """Return the words of a column's name, in small letters."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name))
    return [word for word in re.split(r"[^a-z0-9]+", parted.lower()) if word]


def is_moment(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds dates or times of day."""
    return bool(pd.api.types.is_datetime64_any_dtype(column))


def is_number(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds numbers."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def numbers(column: "pd.Series[Any]") -> Floats:
    """Return a column of numbers or moments as floats, NaN where there is none."""
    return quantity(column, "number")


def value_text(value: Any) -> str:
    """Write a value of a PI column for people."""
    if isinstance(value, pd.Timestamp):
        return value.isoformat(sep=" ", timespec="seconds")[: 10 if value == value.normalize() else None]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return " ".join(str(value).split())
    number = float(value)
    return f"{number:,.0f}" if number.is_integer() and abs(number) >= 1000 else f"{number:.3g}"


def short_name(name: Any) -> str:
    """Write a name of a class, a column or a value in a sentence: one line, cut where it is long."""
    text = " ".join(str(name).split())
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"
