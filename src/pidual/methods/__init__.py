"""The methods, by name. A new one is tested, listed and runnable the moment its line joins METHODS."""

from .base import Method
from .ce import CE
from .pi_dual import PiDual

METHODS: dict[str, type[Method]] = {
    "ce": CE,
    "pi_dual": PiDual,
}

__all__ = ["CE", "METHODS", "Method", "PiDual"]
