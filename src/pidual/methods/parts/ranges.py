"""Ranges of options."""

import math

from ...errors import UsageError


def check_range(
    name: str, value: float | int, low: float | int, high: float | int = math.inf, *, inclusive: bool = True
) -> None:
    """Refuse a number outside low .. high; `low` itself counts where `inclusive`."""
    if not (low <= value <= high if inclusive else low < value <= high):
        bounds = f"{'at least' if inclusive else 'above'} {low:g}" + (
            f" and at most {high:g}" if high < math.inf else ""
        )
        raise UsageError(f"{name} must be {bounds}, not {value:g}.")
