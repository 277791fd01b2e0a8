"""`pidual fit --from RUN`: the data and options of a run once more."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..errors import UsageError
from .job import ASKED, NAMED, given_training

if TYPE_CHECKING:
    from ..api.run import Run
    from ..fit.options import FitOptions
    from ..run.records.config import Read

MOVED = ("x", "probs", "key_file")  # files that may be elsewhere now
FREE = (*MOVED, *NAMED, "settings", "accelerator", "threads")
READ = ("format", "item", "label", "annotator", "y", "split", "same", "exact_labels")


def given(name: str) -> bool:
    """Whether an option is on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)


def data_again(run: "Run", table: Path | None, options: dict[str, Any]) -> Path:
    """Fill in the options that say how the data of a run was read; where its table is."""
    for name in options:
        if name not in FREE and given(name):
            raise UsageError(f"--{name.replace('_', '-')} is that of the run with --from; leave it out.")
    source = run.config.source
    asked, read = source.asked, source.read
    if asked is None or read is None or source.table is None:
        raise UsageError(
            f"{run.path} does not say how its data was read: it was made in Python, where fit_table(..., from_run=...) "
            "takes it; or fit its table again, with --truth."
        )
    options |= {name: getattr(asked, name) for name in ASKED if not (name in MOVED and given(name))}
    options |= {name: getattr(read, name) for name in READ}
    options |= {"keep_ids": run.config.data.keep_ids, "new_key": False}
    table = table or Path(source.table)
    if options["key_file"] is not None:
        options["key_file"] = Path(options["key_file"])
    options["annotators"] = annotators_again(table, read)
    return table


def annotators_again(table: Path, read: "Read") -> list[str] | None:
    """The columns of a wide table that hold answers, as --annotators names them."""
    from ..data import open_source

    if not read.annotators:
        return None
    columns = open_source(table, format=read.format).columns
    names = [columns[number] for number in read.annotators if number < len(columns)]
    return [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]


def fit_again(run: "Run", options: dict[str, Any]) -> "FitOptions":
    """The options of the fit of a run, with those that are on the command line."""
    from ..fit.again import options_again

    changes = {name: options[name] for name in ("accelerator", "threads") if given(name)}
    return options_again(run, options=options["settings"] | given_training(options), **changes)


def next_name(path: Path) -> Path:
    """Where the run after another one goes: runs/labels, runs/labels-2, runs/labels-3."""
    path = Path(path)
    numbered = re.fullmatch(r"(.+)-(\d+)", path.name)
    return path.with_name(f"{numbered[1]}-{int(numbered[2]) + 1}" if numbered else f"{path.name}-2")
