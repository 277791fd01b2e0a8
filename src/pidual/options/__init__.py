"""Options: their kinds and ranges (`checks`), those of training (`training`), what a launcher has set (`launcher`)."""

from .checks import (
    KINDS,
    Count,
    NotNegative,
    Positive,
    Range,
    Share,
    ShareAboveZero,
    ShareBelowOne,
    Span,
    at_least,
    check_options,
    check_value,
    check_values,
    defaults,
    one_of,
    signature,
)
from .training import Training, option_names

__all__ = [
    "KINDS",
    "Count",
    "NotNegative",
    "Positive",
    "Range",
    "Share",
    "ShareAboveZero",
    "ShareBelowOne",
    "Span",
    "Training",
    "at_least",
    "check_options",
    "check_value",
    "check_values",
    "defaults",
    "one_of",
    "option_names",
    "signature",
]
