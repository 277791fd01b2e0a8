"""Locks of open files, which end with the process that holds them, however that ends."""

from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: processes do not know about each other there
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[Any] | int) -> bool:
    """Hold an open file against other processes; False where the system, or the file's file system, has no locks.

    Raises BlockingIOError where another process holds it.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
