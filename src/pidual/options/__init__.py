"""Options: of which kind and in which range each may be (`checks`), and all those of training (`training`)."""

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
