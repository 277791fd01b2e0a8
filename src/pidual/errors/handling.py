"""Turn warnings for users into values and lines, and failed writes into a sentence."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import DataWarning, PidualError


@contextlib.contextmanager
def handling_warnings(handlers: Mapping[type[Warning], Callable[[str], object]]) -> Iterator[None]:
    """Pass the texts of all warnings of these kinds on; others are shown as ever."""
    with warnings.catch_warnings():
        for kind in handlers:
            warnings.simplefilter("always", kind)
        show = warnings.showwarning

        def handle(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            handler = next((handlers[kind] for kind in handlers if issubclass(category, kind)), None)
            if handler is None:
                show(message, category, *place, **more)
            else:
                handler(str(message))

        warnings.showwarning = handle
        yield


@contextlib.contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the texts of all warnings about the data that come up inside."""
    found: list[str] = []
    with handling_warnings({DataWarning: found.append}):
        yield found


@contextlib.contextmanager
def explaining_failed_writes(place: object, way_out: str, kind: type[PidualError] = PidualError) -> Iterator[None]:
    """Say where an error of the file system, such as a full disk, happened, and the way out."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise kind(f"Cannot write {place} ({reason}); {way_out}") from error
