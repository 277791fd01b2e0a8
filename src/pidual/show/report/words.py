"""Write values as the page shows them: counts, shares and scores."""

import math
from typing import Any

import numpy.typing as npt

from ...detect.sentences import UNKNOWN, count, describe_direction, percent

Context = dict[str, Any]
Array = npt.NDArray[Any]


def number(value: Any) -> float | None:
    """Return a finite number, else None."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def score(value: float | None) -> str:
    """Write a number of three digits."""
    return UNKNOWN if value is None else f"{value:.3g}"


def measured(value: float | None) -> str:
    """Write a measured value, such as one of an input column: four digits, and none that say nothing."""
    return UNKNOWN if value is None else f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def sure(value: float | None) -> str:
    """Write a probability in whole per cent."""
    if value is None:
        return UNKNOWN
    return "> 99%" if value > 0.99 else f"{100 * value:.0f}%"


def auc(value: float | None) -> str:
    """Write an area under a curve."""
    return UNKNOWN if value is None else f"{value:.3f}"


def quality(value: float | None) -> str:
    """Write a quality or gate in [0, 1]."""
    if value is None:
        return UNKNOWN
    return "< 0.01" if value < 0.01 else f"{value:.2f}"


def setting(value: Any) -> str:
    """Write the value of an option or of a PI column."""
    known = number(value)
    return score(known) if known is not None else UNKNOWN if value is None else str(value)


FILTERS = {
    "count": count,
    "percent": percent,
    "score": score,
    "measured": measured,
    "quality": quality,
    "sure": sure,
    "setting": setting,
    "direction": describe_direction,
}
