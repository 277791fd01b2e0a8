"""What the commands share: lines for people, progress, signals, files to write, lists of names."""

import contextlib
import json
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..errors import DataWarning, KeyNotice, PidualError, UsageError
from ..errors.messages import printable
from ..files import without_passwords
from ..files.spreadsheet import write_csv
from ..options.launcher import is_first_process as is_first_process

if TYPE_CHECKING:
    import pandas as pd

    from ..run.records.summary import Calibration, Rate


def say(text: str) -> None:
    """A line for people, on stderr, from the first process only."""
    if is_first_process():
        click.echo(printable(text), err=True)


@contextlib.contextmanager
def said_warnings() -> Iterator[None]:
    """Show a warning about the data as a sentence, without the line of code it came from."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.simplefilter("always", KeyNotice)
        show = warnings.showwarning

        def say_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, DataWarning):
                say(f"Warning: {message}")
            elif issubclass(category, KeyNotice):
                say(str(message))
            else:
                show(message, category, *place, **more)

        warnings.showwarning = say_warning
        yield


@contextlib.contextmanager
def terminal_progress(quiet: bool) -> Iterator[Any]:
    """Progress for this terminal: a bar, plain lines elsewhere, or nothing."""
    from ..fit.terminal import Silent, choose_progress

    yield Silent() if quiet or not is_first_process() else choose_progress()


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


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Say where an error of the file system, such as a full disk, happened, and the way out."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise PidualError(
            f"Cannot write to {out} ({reason}); the state saved before is kept. Free some space, then continue with "
            "--resume."
        ) from error


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


@contextlib.contextmanager
def writing_file(path: Path) -> Iterator[None]:
    """Say which file an error of the file system, such as a full disk, keeps from being written."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise PidualError(f"Cannot write {path} ({reason}); choose another place.") from error


def command_line() -> str:
    """The command as it was given, for the record, without passwords."""
    program = "python -m pidual" if Path(sys.argv[0]).name == "__main__.py" else shlex.quote(Path(sys.argv[0]).name)
    return without_passwords(f"{program} {shlex.join(sys.argv[1:])}")


def is_terminal(stream: TextIO) -> bool:
    """Whether people read what is written to this stream as it comes."""
    return stream.isatty()


def print_table(frame: "pd.DataFrame") -> None:
    """Print CSV on stdout; a terminal gets it without characters that would move its cursor."""
    text = write_csv(frame)
    click.echo(printable(text, keep="\n") if is_terminal(sys.stdout) else text, nl=False)


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """The parts of a comma-separated list as they are written; a comma within double quotes separates nothing."""
    if value is None:
        return None
    parts = [part.strip() for part in re.findall(r'(\s*"(?:[^"]|"")*"[^,]*|[^,]*)(?:,|$)', value)]
    return [part for part in parts if part]


def unquoted(part: str) -> tuple[str, str]:
    """The name in a part of a list, and what follows it in `"NAME":KIND`; a name without quotes is the whole part."""
    match = re.fullmatch(r'"((?:[^"]|"")*)"\s*(?::\s*(.*))?', part)
    return (match[1].replace('""', '"'), match[2] or "") if match else (part, "")


def parse_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is JSON where it can be (0.1, true, null, [1, 2]), else text."""
    parsed = {}
    for pair in value:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{pair}' is not of the form KEY=VALUE.")
        parsed[key.strip()] = parse_value(text)
    return parsed


def parse_same(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """OLD=NEW pairs of labels."""
    parsed = {}
    for pair in value:
        old, _, new = (part.strip() for part in pair.partition("="))
        if not old or not new:
            raise click.BadParameter(f"'{pair}' is not of the form OLD=NEW.")
        parsed[old] = new
    return parsed


def parse_value(text: str) -> Any:
    """JSON where it is, none, else text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None if text.lower() == "none" else text


def describe_shares(found: "Calibration") -> str:
    """How many labels are wrong by decisions of reviewers, for people."""
    parts = [f"{share_between(found.noise, 1)} of all labels are wrong"]
    if found.precision is not None:
        parts.append(f"{share_between(found.precision, 0)} of those that looked wrong")
    parts.append(f"the consensus of {share_between(found.consensus, 1)} of the items")
    return f"By the decisions: {', '.join(parts)}."


def share_between(found: "Rate", digits: int) -> str:
    """A share with its interval."""
    return f"{found.rate:.{digits}%} ({found.low:.{digits}%} to {found.high:.{digits}%})"


def name_of(table: Path) -> str:
    """The name of a table or folder without its endings; `.` is called what its folder is called."""
    return Path(os.path.abspath(table)).name.lstrip(".").split(".")[0]


def in_percent(share: float) -> str:
    """A share in whole per cent; "0%" and "100%" are exact."""
    if 0 < share < 0.005 or 0.995 <= share < 1:
        return "under 1%" if share < 0.5 else "over 99%"
    return f"{share:.0%}"


def ends_in_percent(low: float | None, high: float | None) -> list[str]:
    """Both ends of an interval of shares; none where it is unknown, or all of it is over 99%."""
    return [] if low is None or high is None or low >= 0.995 else [in_percent(low), in_percent(high)]
