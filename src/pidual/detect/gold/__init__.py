"""From items whose class is known (gold) to numbers that hold for all of them: calibrator, intervals, what to check."""

from .calibrator import LEAST_GOLD, Calibrator, Evidence, held_out, with_known
from .estimates import Given, Interval, estimate_mean
from .plan import choose_items, expected_half_widths

__all__ = [
    "LEAST_GOLD",
    "Calibrator",
    "Evidence",
    "Given",
    "Interval",
    "choose_items",
    "estimate_mean",
    "expected_half_widths",
    "held_out",
    "with_known",
]
