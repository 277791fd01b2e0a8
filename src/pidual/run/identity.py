"""Whether what is continued is what was started: the same data and options."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import RunError


def find_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Find what differs between two records, as JSON has them: its name, what it was and what it is now.

    The parts of `new` are compared; of parts that are mappings, what is in them.
    """
    for part, now in json.loads(json.dumps(dict(new))).items():
        was = old.get(part, {} if isinstance(now, dict) else None)
        pairs = {part: (was, now)}
        if isinstance(now, dict) and isinstance(was, dict):
            pairs = {name: (was.get(name), now.get(name)) for name in {**was, **now}}
        yield from ((name, before, after) for name, (before, after) in pairs.items() if before != after)


def refuse_change(
    what: str, name: str, was: Any, now: Any, way_out: str, contents: Mapping[str, str] | None = None
) -> None:
    """Say what has changed since `what` was started; `contents` has names of fingerprints, and what they are of."""
    if contents and name in contents:
        raise RunError(f"{what} was started with other contents of {contents[name]}; {way_out}")
    raise RunError(f"{what} was started with {name} = {was!r:.200}, and now it is {now!r:.200}; {way_out}")
