"""Whether a path leads to something that can be read."""

from pathlib import Path

from ..errors import UsageError
from ..errors.messages import first_line, quoted


def is_folder(path: str | Path) -> bool:
    """Return whether there is a folder of this name."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # no path at all: `check_file` says so
        return False


def check_file(path: Path) -> None:
    """Raise where there is no file to read; a pipe or a device would keep a reader waiting."""
    try:
        found = path.is_file()
    except (OSError, ValueError) as error:  # a name too long, or with a zero byte
        raise UsageError(f"{quoted(str(path))} is not a path ({first_line(error)}); check it.") from None
    if not found:
        what = "is not a regular file; copy its content to one" if path.exists() else "does not exist; check the path"
        raise UsageError(f"{path} {what}.")
