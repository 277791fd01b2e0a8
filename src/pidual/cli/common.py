"""What the commands share: lines for people, progress, signals, files to write."""

import contextlib
import ctypes
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..errors import DataWarning, KeyNotice, UsageError, VerdictWarning
from ..errors.messages import explaining_failed_writes, handling_warnings, printable
from ..files import without_passwords, write_csv
from ..options.launcher import is_first_process as is_first_process

if TYPE_CHECKING:
    import pandas as pd

SECONDS_BETWEEN_LINES = 10.0
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT = 1 << 30
LARGE = 32 << 20  # allocations from here on still come from the system and go back to it


def say(text: str) -> None:
    """Print a line for people on stderr, from the first process only."""
    if is_first_process():
        click.echo(printable(text), err=True)


def said_warnings() -> contextlib.AbstractContextManager[None]:
    """Show a warning about the data as a sentence, without the line of code it came from; commands print verdicts."""
    return handling_warnings(
        {VerdictWarning: lambda _: None, DataWarning: lambda text: say(f"Warning: {text}"), KeyNotice: say}
    )


@contextlib.contextmanager
def terminal_progress(quiet: bool) -> Iterator[Any]:
    """Make the progress for this terminal: a bar, plain lines elsewhere, or nothing."""
    from ..fit.terminal import Silent, choose_progress

    yield Silent() if quiet or not is_first_process() else choose_progress()


@contextlib.contextmanager
def embedding_progress(quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """Count what is embedded: a bar on a terminal, plain lines elsewhere, or nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = "embedding", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, said = bar.add_task(""), time.monotonic()

    def count(done: int, total: int) -> None:
        nonlocal said
        if is_terminal(sys.stderr):
            bar.start()
            bar.update(task, completed=done, total=total)
        elif time.monotonic() - said > SECONDS_BETWEEN_LINES or done == total:
            said = time.monotonic()
            say(f"Embedding: {done:,} of {total:,} items.")

    try:
        yield None if quiet or not is_first_process() else count
    finally:
        if bar.live.is_started:
            bar.stop()


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop at the next step; a second one stops at once."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        say("Stopping after this step; press Ctrl-C again to stop at once.")

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def writing(out: Path) -> contextlib.AbstractContextManager[None]:
    """Say that what was written to a run before is kept where it cannot be written to."""
    way_out = "the state saved before is kept. Free some space, then continue with --resume."
    return explaining_failed_writes(f"to {out}", way_out)


def check_ending(path: Path | None, endings: tuple[str, ...] = (".csv", ".parquet")) -> None:
    """Refuse a file to write, before the work is done, of another kind than these."""
    if path is not None and path.suffix not in endings:
        raise UsageError(f"{path} must end in {', '.join(endings[:-1])} or {endings[-1]}.")


def write_table(frame: "pd.DataFrame", path: Path) -> None:
    """Write CSV, Parquet or JSON (a list of objects), by the ending, atomically."""
    from ..files import replacing

    with writing_file(path), replacing(path) as temporary:
        if path.suffix == ".csv":
            write_csv(frame, temporary)
        elif path.suffix == ".json":
            frame.to_json(temporary, orient="records", date_format="iso", indent=2, double_precision=10)
        else:
            frame.to_parquet(temporary, index=False)


def put_table(frame: "pd.DataFrame", out: Path | None) -> None:
    """Write a table to a file, or print it if none is named."""
    if out is not None:
        write_table(frame, out)
    else:
        print_table(frame)


def writing_file(path: Path) -> contextlib.AbstractContextManager[None]:
    """Say which file cannot be written."""
    return explaining_failed_writes(path, "choose another place.")


def command_line() -> str:
    """Return the command as it was given, for the record, without passwords."""
    program = "python -m pidual" if Path(sys.argv[0]).name == "__main__.py" else shlex.quote(Path(sys.argv[0]).name)
    return without_passwords(f"{program} {shlex.join(sys.argv[1:])}")


def is_terminal(stream: TextIO) -> bool:
    """Return whether people read what is written to this stream as it comes."""
    return stream.isatty()


def print_table(frame: "pd.DataFrame") -> None:
    """Print CSV on stdout; a terminal gets it without characters that would move its cursor."""
    text = write_csv(frame)
    click.echo(printable(text, keep="\n") if is_terminal(sys.stdout) else text, nl=False)


def name_of(table: Path | str) -> str:
    """Return the name of a table or folder without its endings; `.` and `*.csv` are called what their folder is."""
    address = re.sub(r"^[\w+.-]+://|\?.*", "", table) if isinstance(table, str) else None
    path = Path(address or os.path.abspath(table))
    while re.search(r"[*?\[]", path.name) and not path.exists():
        path = path.parent
    return path.name.lstrip(".").split(".")[0]


def next_name(path: Path) -> Path:
    """Return where the run after another one goes: runs/labels, runs/labels-2, runs/labels-3."""
    numbered = re.fullmatch(r"(.+)-(\d+)", path.name)
    return path.with_name(f"{numbered[1]}-{int(numbered[2]) + 1}" if numbered else f"{path.name}-2")


def keep_freed_memory() -> None:
    """Let the C library keep up to a gigabyte that is freed, where it is glibc; elsewhere nothing happens.

    glibc gives large blocks back to the system and asks for them again, zeroed page by page, at every step of training
    on the CPU: a tenth to a fifth of the processor time of a small CNN (benchmarks/allocator.py). For the process of a
    command; a library must not change its host's. MALLOC_* variables of the user's win.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    for option, variable, value in (
        (M_MMAP_THRESHOLD, "MALLOC_MMAP_THRESHOLD_", LARGE),
        (M_TRIM_THRESHOLD, "MALLOC_TRIM_THRESHOLD_", KEPT),
    ):
        if variable not in os.environ:
            mallopt(option, value)
