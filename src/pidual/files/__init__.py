"""Files and folders that exist either in full or not at all; and maps of files that are read once."""

import contextlib
import hashlib
import json
import mmap
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows: processes do not know about each other there
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it takes the place of `path` in one step.

    Who may read the file is decided by the umask, as for any new file.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    os.close(handle)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(mode)  # safetensors puts a file of its own there, open to nobody else
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`; when the block ends well it takes the place of `path`, or where that links to.

    If that fails, the earlier folder is back in its place.
    """
    path = path.resolve()
    new, old = (path.with_name(f".{path.name}.{ending}") for ending in ("new", "old"))
    if old.exists() and not path.exists():  # a process was killed between the two moves
        old.rename(path)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        yield new
        if path.exists():
            path.rename(old)
        try:
            new.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path` atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Return the value stored as JSON in `path`."""
    return json.loads(path.read_text(encoding="utf-8"))


def fingerprint(parts: Iterable[bytes | memoryview]) -> str:
    """Return the BLAKE2b digest of all parts, one after the other, in hexadecimal digits, to tell data apart."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def release(array: Any) -> None:
    """Let the pages of a memory map that is only read go out of this process, where the system can; others stay."""
    file = getattr(array, "_mmap", None)
    if isinstance(file, mmap.mmap) and not array.flags.writeable and hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)


def without_passwords(text: str) -> str:
    """Return text with stars for the passwords in its URLs (user:password@host, ?password=..., ?sig=...)."""
    text = re.sub(r"(\w://[^/\s:@]*:)\S+@", r"\1***@", text)
    text = re.sub(r"(\b(?!abfss?\b)\w+://)[^/\s:@]+@", r"\1***@", text)  # a token; abfs has its container there
    words = "pass|pwd|secret|token|key|sig|credential"
    return re.sub(rf"(?i)([?&][^=&\s]*(?:{words})[^=&\s]*=)[^&\s'\"]+", r"\1***", text)


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
