"""Warnings about the data as values: collected at one place, and carried from there with the job."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ..errors import DataWarning


@contextlib.contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """The texts of all warnings about the data that come up inside; other warnings are shown as ever."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, DataWarning):
                notes.append(str(message))
            else:
                show(message, category, *place, **more)

        warnings.showwarning = note
        yield notes
