"""Files and folders that exist either in full or not at all; maps of files that are read once; CSV files for people.

Whoever opens such a CSV file in a spreadsheet finds no cell that is a formula.
"""

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
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

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


_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # apostrophes that were there before count too, so that one can be taken off
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA_MARK = r"^'('*[=+\-@\t\r])"  # what `plain_cells` makes of a formula; \1 is the formula


def write_csv(frame: "pd.DataFrame", path: Path | None = None) -> str:
    """Write a frame as CSV in which no spreadsheet takes a text for a formula, or return it as text."""
    plain = plain_cells(frame)
    # Only where it ends lines does Python's writer put a carriage return in quotes.
    texts = [text for position in range(plain.shape[1]) for text in _texts(plain.iloc[:, position])]
    has_return = any("\r" in text for text in [*map(str, plain.columns), *texts])
    written: str | None = plain.to_csv(path, index=False, lineterminator="\r\n" if has_return else "\n")
    return written or ""


def plain_cells(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a frame to be written as CSV in which no spreadsheet takes a text for a formula.

    Text, and names of columns, that begin with = + - @ tab or carriage return get an apostrophe before them; `data`
    takes it off again. Numbers stay as they are, also those held as text.
    """
    changed = {position: _plain_column(frame.iloc[:, position]) for position in range(frame.shape[1])}
    changed = {position: column for position, column in changed.items() if column is not None}
    if changed:
        frame = frame.copy(deep=False)
        for position, column in changed.items():
            frame.isetitem(position, column)
    return frame.set_axis([plain_cell(name) for name in frame.columns], axis=1)


def plain_cell(value: Any) -> Any:
    """Return a cell that is not a formula: text that a spreadsheet would calculate has an apostrophe before it."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value


def _plain_column(column: "pd.Series[Any]") -> Any:
    """Return the column with plain cells; None where nothing changes."""
    changed = {text: plain for text in _texts(column) if (plain := plain_cell(text)) != text}
    if not changed:
        return None
    if hasattr(column, "cat"):
        return column.cat.rename_categories([changed.get(name, name) for name in column.cat.categories])
    return column.map(lambda value: changed.get(value, value) if isinstance(value, str) else value)


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Return the different texts of a column."""
    if column.dtype.kind in "biufcmM":
        return []
    values = column.cat.categories if hasattr(column, "cat") else column.dropna().unique()
    return [value for value in values if isinstance(value, str)]
