"""From items whose class is known (gold) to numbers that hold for all of them: calibrator, intervals, what to check."""

from .calibrator import LEAST_GOLD, Calibrator, Evidence, held_out
from .estimates import GoldFound, Interval, Known, describe_estimates
from .plan import choose_items, expected_half_widths

__all__ = [
    "LEAST_GOLD",
    "Calibrator",
    "Evidence",
    "GoldFound",
    "Interval",
    "Known",
    "choose_items",
    "describe_estimates",
    "expected_half_widths",
    "held_out",
]
