"""Text of the data made fit for a message; warnings as values and lines; failed writes as a sentence.

quoted(value)       in an error or a warning: quoted, and not longer than a line
printable(text)     on a terminal: nothing in it can move the cursor or turn the direction of writing
"""

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from . import DataWarning, PidualError

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")


def quoted(value: object, limit: int = 60) -> str:
    """Write a value of the data in quotes (numbers without), cut where it is long."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    shown = repr(value[: limit + 1] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def listed(names: Sequence[object], limit: int = 30) -> str:
    """List the first of several names, each cut where it is long, and how many there are beyond them."""
    shown = [name if len(name) <= 60 else name[:57] + "..." for name in (str(name)[:61] for name in names[:limit])]
    return ", ".join(shown) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def no_method(name: str, methods: Iterable[str], groups: Sequence[str] = ()) -> str:
    """Say that no method has a name: which one may be meant, and all there are; groups are allowed as well."""
    methods = list(methods)
    close = get_close_matches(name, methods, 1)
    hint = f", did you mean {quoted(close[0])}? Use" if close else "; use"
    return f"There is no method {quoted(name)}{hint} one of {', '.join([*methods, *groups])}."


def first_line(error: object) -> str:
    """Return the first line of another library's message, without its full stop."""
    return str(error).split("\n", 1)[0].rstrip(". ")


def printable(text: str, keep: str = "") -> str:
    r"""Return text with control characters, and those that turn the direction of writing, spelled out, such as \x1b.

    Parameters
    ----------
    text : str
    keep : str
        Control characters to leave as they are, such as the ends of lines.
    """

    def spelled(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii")

    return _CONTROL.sub(spelled, text)


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
