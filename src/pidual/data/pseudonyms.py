"""Pseudonyms in place of people's ids, and the secret key they are made with."""

import contextlib
import fnmatch
import hashlib
import os
import re
import secrets
import shlex
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import DataError, KeyNotice, UsageError
from .people import has_address
from .sources import check_file

KEY_NAME = ".pidual.key"
LONGEST_KEY = 200  # bytes of a file that are read
_MADE = re.compile("a-[0-9a-f]{12}")


def pseudonym(name: str, key: bytes) -> str:
    """What a table calls the person `name`: the same in every table and column with the same key."""
    return "a-" + hashlib.blake2b(name.encode(), key=key, digest_size=6).hexdigest()


def are_pseudonyms(names: Iterable[str]) -> bool:
    """Whether all names are pseudonyms already."""
    return all(_MADE.fullmatch(name) for name in names)


def pseudonyms(source: str, ids: Any, key: Callable[[], bytes] | None, whole: bool) -> Any:
    """Keyed hashes of the ids, which cannot be undone or made again without the key; not `whole`: of addresses only.

    Ids that are all pseudonyms already stay as they are.
    """
    names = ids.to_pylist()
    if key is None or are_pseudonyms(names):  # of a table that was imported
        return ids
    made = [pseudonym(name, key()) if whole or has_address(name) else name for name in names]
    if len(set(made)) < len(made):  # at 200,000 annotators this happens to one key in 14,000
        raise DataError(
            f"{source}: two annotators get the same pseudonym with this key; remove the key file so that another "
            "key is drawn, or keep the ids with keep_ids=True (--keep-ids)."
        )
    return pa.array(made, pa.string())


def load_key(path: Path, *, make: bool = True) -> bytes:
    """Read the key in `path`; if there is none, make it, or raise an error unless `make`."""
    try:
        if not path.exists():
            if not make:
                raise UsageError(
                    f"There is no key of the pseudonyms at {path}; say where the key of the run is with key_file= "
                    "(--key-file)."
                )
            if _make_key(path):
                _announce(path, _keep_from_git(path))
        check_file(path)
        with path.open("rb") as file:
            key = _parse_key(file.read(LONGEST_KEY))
        others = key is not None and _others_can_read(path)
    except OSError as error:
        raise UsageError(
            f"the key for annotator pseudonyms cannot be read or written at {path} ({error.strerror}); name another "
            "place with key_file= (--key-file), or keep the ids as they are with keep_ids=True (--keep-ids)."
        ) from None
    if key is None:
        raise UsageError(
            f"{path} is not a key file of pidual (64 hex digits); name another with key_file= (--key-file), or "
            "remove it to create a new key."
        )
    if others:
        raise UsageError(
            f"{path} can be read by others, who could find out with it whose pseudonym is whose; restrict it with "
            f"chmod 600 {shlex.quote(str(path))}, or name another key with key_file= (--key-file)."
        )
    return key


def _parse_key(text: bytes) -> bytes | None:
    """Return the key that a file with this text holds; None if it is none."""
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return None
    return key if len(key) == 32 else None


def _make_key(path: Path) -> bool:
    """Write a new key that only its owner can read; the first of several processes wins, and gets True."""
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            os.link(temporary, path)  # fails if there is one already, unlike a rename
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True


def _announce(path: Path, kept_from_git: bool) -> None:
    """Say that there is a new key, what it is for and what to do with it."""
    git = " (it is listed in .gitignore)" if kept_from_git else ", also from version control"
    warnings.warn(
        f"A new secret key was made at {path}: people's ids are replaced by pseudonyms, which can be traced back to "
        f"people only with this key. Keep it with the table, and keep it secret{git}.",
        KeyNotice,
        stacklevel=7,
    )


def _keep_from_git(path: Path) -> bool:
    """List the key in the .gitignore beside it; False where that cannot be written."""
    ignored = path.parent / ".gitignore"
    try:
        text = ignored.read_text(encoding="utf-8", errors="surrogateescape") if ignored.exists() else ""
        if not any(_speaks_of(line.strip(), path.name) for line in text.splitlines()):
            with ignored.open("a", encoding="utf-8") as file:
                file.write(("\n" if text and not text.endswith("\n") else "") + f"{path.name}\n")
    except OSError:
        return False
    return True


def _speaks_of(line: str, name: str) -> bool:
    """Whether a line of .gitignore already decides about the file, one way or the other."""
    pattern = line.removeprefix("!").removeprefix("/").removeprefix("**/")
    return not line.startswith("#") and fnmatch.fnmatchcase(name, pattern)


def _others_can_read(path: Path) -> bool:
    """Whether the mode of the key lets others read it, where the file system has modes."""
    if os.name == "nt" or not stat.S_IMODE(path.stat().st_mode) & 0o077:
        return False
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(prefix=f"{path.name}.", dir=path.parent) as private:
        return not stat.S_IMODE(os.stat(private.name).st_mode) & 0o077  # made with 0600
    return True
