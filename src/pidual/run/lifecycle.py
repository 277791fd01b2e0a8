"""The directory a run is written to: whether it may be, who writes to it now, and how a new run replaces an old one.

    check_directory(out, ...)        refuse a directory that must not be written to; changes nothing
    with locked(out):                one writer at a time
        folder = choose_folder(out, ...)     `out` itself, or `out/.new` beside a run that is to be replaced
        ...                                  everything is written to `folder`
        promote(out, folder)              a finished run in `out/.new` becomes the run in `out`

Only files that pidual writes are ever removed, and those of an old run only when the new one is complete. A kill at any
moment leaves either the old run or what is needed to finish the exchange, which `finish_exchange` does.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..files import lock, read_json

RUN_FILES = (
    *("config.json", "metrics.jsonl", "model.json", "model.safetensors", "model-last.safetensors"),
    *("predictions.parquet", "items.parquet", "annotators.parquet", "annotator_classes.parquet"),
    *("thumbnails.parquet", "previews.parquet", "report.html"),
    "summary.json",  # marks a finished run: the last to be moved
)
LOCK, NEW, COMPLETE, MOVING = ".lock", ".new", ".complete", ".moving"
STATE = "state"
_STATE_FILE = re.compile(r"state\.safetensors|\w+-[ab]\.rows|\w+\.memory|[0-9a-f]{32}\.lock")
_STATE_FOLDER = re.compile(r"before|merged|point-\d+|group-\d+-of-\d+")
CONFIG_PARTS = ("pidual", "created", "method", "data", "training")  # which no other file has together


def check_directory(out: Path, *, force: bool, resume: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a directory that must not be written to.

    `force`, `resume`: whether what is there may be replaced, or continued.
    `inputs`: files and folders that it is made from; a directory that holds one of them is not replaced.
    """
    if force and resume:
        raise UsageError(
            "--force (force=True in Python) starts over and --resume (resume=True) continues; give one of them."
        )
    if _is_empty(out):
        return
    if not is_run(out):
        raise RunError(
            f"{out} exists and is not a run directory, or {out / RUN_FILES[0]} is damaged or missing; choose another "
            "directory (--out)."
        )
    if not (force or resume):
        raise RunError(
            f"{out} already holds a run; continue it with --resume, replace it with --force (resume=True or "
            "force=True in Python), or choose another directory (--out)."
        )
    place = out.resolve()
    for path in map(Path, inputs if force else ()):
        if path.exists() and path.resolve().is_relative_to(place):
            raise RunError(
                f"{path} is in {out}, which would be replaced; move it, or choose another directory (--out)."
            )


def _is_empty(out: Path) -> bool:
    """Return whether nothing is there, or only what a kill before the first file was complete has left."""
    if not out.is_dir():
        return not (out.exists() or out.is_symlink())
    return all(path.name == LOCK or _is_left_over(path.name) for path in out.iterdir())


def is_run(out: Path) -> bool:
    """Return whether this is the directory of a run, finished or not, by what its config.json holds."""
    folders = (out, out / COMPLETE, out / MOVING)  # the config is in one of these while runs are exchanged
    return any(_is_config(folder / RUN_FILES[0]) for folder in folders)


def _is_config(path: Path) -> bool:
    try:
        values = read_json(path)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and all(values.get(name) for name in CONFIG_PARTS)


@contextlib.contextmanager
def locked(out: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a directory against other writers; the lock ends with this process, however that ends.

    Where another process has it, `patience` is for how many seconds to wait.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = _open_lock(out / LOCK, time.monotonic() + patience)
    except BlockingIOError:
        raise RunError(
            f"Another process is writing to {out}; wait until it is done, or choose another directory (--out)."
        ) from None
    except OSError as error:
        raise RunError(
            f"Cannot write to {out} ({os.strerror(error.errno or 0)}); choose another directory (--out)."
        ) from error
    try:
        yield
    finally:
        (out / LOCK).unlink(missing_ok=True)
        os.close(handle)


def choose_folder(out: Path, *, force: bool, resume: bool) -> Path:
    """Return the folder that a run is written to, cleared of what does not belong to it; `out` is locked and checked.

    That is `out`, or `out/.new` where a run in `out` stays until the new one is complete. Such a run is also what
    `resume` continues, where there is one.
    """
    finish_exchange(out)
    new = out / NEW
    _remove_link(new)
    going_on = resume and begun_folder(out) == new
    if not going_on:
        _remove_run(new)
    if going_on or (force and (out / "config.json").exists()):
        new.mkdir(exist_ok=True)
        _remove_left_over(new)
        return new
    _remove_left_over(out)
    return out


def begun_folder(out: Path) -> Path:
    """Return the folder of the run that `resume` continues: a new one begun beside the old one, or that in `out`."""
    new = out / NEW
    return new if _is_own(new) and (new / "config.json").exists() else out


def promote(out: Path, folder: Path) -> None:
    """Let the complete run in `folder` be the run in `out`."""
    if folder != out:
        folder.rename(out / COMPLETE)
        finish_exchange(out)


def finish_exchange(out: Path) -> None:
    """Let a new run that is complete take the place of the old one, or finish that after a kill."""
    complete, moving = out / COMPLETE, out / MOVING
    if _is_own(complete) and not (complete / "summary.json").exists():
        _remove_run(complete)  # no run that `promote` has put there
    elif _is_own(complete):
        _remove_files(out)
        complete.rename(moving)
    if _is_own(moving):
        _move_files(moving, out)


def settle(out: Path) -> None:
    """Finish an exchange of runs that a kill has cut short, before the run in `out` is read."""
    if _is_own(out / COMPLETE) or _is_own(out / MOVING):
        with locked(out):
            finish_exchange(out)


def _remove_run(folder: Path) -> None:
    """Remove the files of a run, and the folder if nothing else is in it."""
    if _is_own(folder):
        _remove_files(folder)
        with contextlib.suppress(OSError):  # not empty: what else is there is not ours
            folder.rmdir()


def _remove_left_over(folder: Path) -> None:
    """Remove what a kill has left of files that were being written."""
    for path in folder.iterdir():
        if _is_left_over(path.name):
            path.unlink(missing_ok=True)


def remove_state(folder: Path) -> None:
    """Remove resume points, and the folder if nothing else is in it."""
    _remove_link(folder)
    if not _is_own(folder):
        return
    for path in folder.iterdir():
        if path.is_dir() and _STATE_FOLDER.fullmatch(path.name):
            remove_state(path)
        elif _STATE_FILE.fullmatch(path.name) or (path.name.startswith(".") and path.name.endswith(".tmp")):
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is_own(folder: Path) -> bool:
    """Return whether this is a folder; a link to one may lead anywhere."""
    return folder.is_dir() and not folder.is_symlink()


def _remove_link(path: Path) -> None:
    """Remove a link, not what it leads to."""
    if path.is_symlink():
        path.unlink()


def _is_left_over(name: str) -> bool:
    """Return whether this is the name of a temporary file of one of a run; see `files.replacing`."""
    return name.endswith(".tmp") and any(name.startswith(f".{of}.") for of in RUN_FILES)


def _open_lock(path: Path, until: float) -> int:
    """Return a locked handle of the file, which another process may be removing at this moment."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                if not lock(handle):  # no locks here
                    return handle
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(handle), path.stat()):
                        return handle
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.05)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _remove_files(folder: Path) -> None:
    for name in RUN_FILES:
        (folder / name).unlink(missing_ok=True)
    _remove_left_over(folder)
    remove_state(folder / STATE)


def _move_files(source: Path, target: Path) -> None:
    """Move every file to the same place in another folder, summary.json last; what is there already is replaced."""
    target.mkdir(exist_ok=True)
    for path in sorted(source.iterdir(), key=lambda path: path.name == "summary.json"):
        if path.is_dir():
            _move_files(path, target / path.name)
        else:
            path.replace(target / path.name)
    source.rmdir()


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
