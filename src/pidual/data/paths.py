"""Where tables are: a file, a folder of parts, a pattern, or an address such as s3://bucket/labels.parquet.

An address is opened by the file systems of Arrow (s3, gs, abfs, hdfs) or else by those of fsspec, with the credentials
that they find themselves; one within the address is used, and stands in no message.
"""

import glob
import gzip
import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from ..errors import UsageError
from ..errors.messages import first_line, quoted
from ..files import without_passwords

_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+://")  # two letters at least: C:/ is a disk
_OF_ARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs")
_LOCAL = pa.fs.LocalFileSystem()
_PATTERN = re.compile(r"[*?\[]")


class File(NamedTuple):
    """A file, wherever it is; messages call it by its name, which has no passwords."""

    name: str
    path: str
    system: Any = _LOCAL

    @property
    def endings(self) -> list[str]:
        """Its endings in lower case: .csv and .gz of labels.csv.gz."""
        return [suffix.lower() for suffix in PurePosixPath(self.path.partition("?")[0]).suffixes]

    @property
    def kind(self) -> str:
        """Its ending, the one before .gz."""
        found = self.endings
        return found[-2] if found[-1:] == [".gz"] and len(found) > 1 else (found or [""])[-1]

    @property
    def is_here(self) -> bool:
        """Whether it is a file of this machine, which may be read by its path."""
        return self.system is _LOCAL

    def open(self, *, unpacked: bool = True) -> Any:
        """Open its bytes, those within if it is gzipped."""
        packed = unpacked and self.endings[-1:] == [".gz"]
        if self.is_here:
            return gzip.open(self.path) if packed else open(self.path, "rb")
        found = self.system.open_input_file(self.path)
        return gzip.GzipFile(fileobj=found) if packed else found


def is_address(path: object) -> bool:
    """Return whether this is an address, not a path of this machine."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


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


def beside(table: str | Path) -> Path:
    """Return the folder that a table is in; for an address or a table in memory the present one."""
    found = Path() if is_address(str(table)) else Path(table).parent
    while _is_pattern(found):
        found = found.parent
    return found


def has_parts(path: str | Path) -> bool:
    """Return whether this is a pattern of files of this machine, such as parts/*.parquet."""
    return not is_address(str(path)) and _is_pattern(Path(path))


def is_there(path: str | Path) -> bool:
    """Return whether there is something at a path, or like a pattern, of this machine."""
    return not is_address(str(path)) and (Path(path).exists() or (has_parts(path) and bool(glob.glob(str(path)))))


def find_files(place: str | Path) -> list[File]:
    """Return the files at a path or address, in order of name: one, those of a folder, or those like a pattern.

    In a folder, and in folders within it, files count whose names do not begin with a dot or `_`.
    """
    if not is_address(str(place)):
        path = Path(place)
        if not is_folder(path) and not _is_pattern(path):
            check_file(path)
            return [File(str(path), str(path))]
        return _listed(_LOCAL, path.as_posix(), "", str(place))
    name, scheme = without_passwords(str(place)), str(place).partition("://")[0]
    if scheme == "file":
        return find_files(Path(unquote(urlsplit(str(place)).path)))
    try:
        if scheme in _OF_ARROW:
            system, at = pa.fs.FileSystem.from_uri(str(place))
        else:
            import fsspec

            found, at = fsspec.core.url_to_fs(str(place))
            system = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(found))
        return _listed(system, at, f"{scheme}://", name)
    except ImportError as error:
        raise UsageError(f"{name} needs another package ({first_line(error)}); install it.") from None
    except (OSError, ValueError) as error:
        reason = without_passwords(first_line(error).replace(str(place), name))
        raise UsageError(f"{name} cannot be opened ({reason}); check address, credentials and network.") from None


def _is_pattern(path: Path) -> bool:
    """Return whether there is no file of this name, and signs of a pattern are in it."""
    try:
        return _PATTERN.search(str(path)) is not None and not path.exists()
    except (OSError, ValueError):  # no path at all: `check_file` says so
        return False


def _listed(system: Any, path: str, before: str, name: str) -> list[File]:
    """Return the files of a folder, or like a pattern; `before` is what their names begin with."""
    sign = re.search(r"\*", path) if before else _PATTERN.search(path) if _is_pattern(Path(path)) else None
    folder, rest = (path[: sign.start()].rpartition("/")[0], path[sign.start() :]) if sign else (path, "")
    folder = folder or ("/" if path.startswith("/") else ".")
    info = system.get_file_info(folder)
    if info.type == pa.fs.FileType.File:
        found = [path]
    elif info.type == pa.fs.FileType.NotFound:
        raise UsageError(f"{name} does not exist; check the {'address' if before else 'path'}.")
    else:
        within = system.get_file_info(pa.fs.FileSelector(folder, recursive=not sign or "/" in rest))
        paths = {each.path.removeprefix("./"): each for each in within if each.type == pa.fs.FileType.File}
        inside = {each: PurePosixPath(each.removeprefix(folder)).parts for each in paths}
        found = sorted(each for each, parts in inside.items() if not any(part[0] in "._" for part in parts))
        if sign:
            found = [each for each in found if PurePosixPath("/", each).match(str(PurePosixPath("/", path)))]
            if not found:
                raise UsageError(f"{name} is like no file there; check the pattern.")
    return [File(each if not before else without_passwords(_called(each, before)), each, system) for each in found]


def _called(path: str, before: str) -> str:
    return path if "://" in path else before + path.lstrip("/")
