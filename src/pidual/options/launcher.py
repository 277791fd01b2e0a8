"""Which of several processes this one is, by the variables that a launcher such as torchrun sets.

A process is one of several only where RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all set (LOCAL_RANK and
LOCAL_WORLD_SIZE count where they are). Some of them alone, left over from another program, mean nothing: the process is
on its own. All of them with values that contradict each other are an error.
"""

import os
from typing import NamedTuple

from ..errors import UsageError

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Place(NamedTuple):
    """Number of this process among all and among those of its machine, and how many there are."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


def place_among_processes() -> Place:
    """Return where this process stands; Place() if it is the only one."""
    if any(not os.environ.get(name) for name in _NEEDED):
        return Place()
    place = Place(*(_number(name, default) for name, default in _DEFAULTS.items()))
    if not (place.rank < place.world and place.local_rank < place.local_world <= place.world):
        said = ", ".join(f"{name}={value}" for name, value in zip(_DEFAULTS, place, strict=True))
        raise UsageError(
            f"The environment says {said}, which is impossible; unset these variables, or start with torchrun."
        )
    return place


def is_first_process() -> bool:
    """Return whether this is the first process or the only one, as it is where variables cannot be."""
    try:
        return place_among_processes().rank == 0
    except UsageError:
        return True


_DEFAULTS = {"RANK": "", "WORLD_SIZE": "", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def _number(name: str, default: str) -> int:
    text = os.environ.get(name) or default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(
            f"The environment variable {name} is {text[:60]!r}, and a launcher of processes sets it to a whole number; "
            "unset it, or start with torchrun."
        )
    return int(text)
