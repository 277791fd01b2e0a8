"""Write the pages of which the code is the source: `make docs`.

cli.md            what `--help` says of every command
options.md        every option of training, methods and networks
files.md          every column of every table of a run
exit_codes.md     what a command exits with
methods/index.md  what there is of methods
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import click

from pidual import errors
from pidual.cli import CONTEXT, cli
from pidual.methods import METHODS
from pidual.nets import NETWORKS
from pidual.options import KINDS, Training, defaults, signature
from pidual.predictions import columns as tables

DOCS = Path(__file__).parent
WIDTH = 110
WRITTEN = "Written by `make docs` from the code."
PARAMETER = re.compile(r"^(\*{0,2}[\w, *]+?)(?: : .*)?$")


def pages() -> dict[str, str]:
    """Every page by its name."""
    return {
        "cli.md": command_line(),
        "options.md": options(),
        "files.md": tables_of_a_run(),
        "exit_codes.md": exit_codes(),
        "methods/index.md": methods(),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [list(head), ["---"] * len(head), *cells]) + "\n"


# --- the command line ---


def commands(group: click.Group, path: tuple[str, ...]) -> dict[tuple[str, ...], click.Command]:
    """Every command and command group below `group`, by the words that call it."""
    found: dict[tuple[str, ...], click.Command] = {path: group}
    for name, command in sorted(group.commands.items()):
        found |= commands(command, (*path, name)) if isinstance(command, click.Group) else {(*path, name): command}
    return found


def help_text(command: click.Command, path: tuple[str, ...]) -> str:
    """What `--help` prints, at a width of its own."""
    settings = {**CONTEXT, "terminal_width": WIDTH}
    return command.get_help(click.Context(command, info_name=" ".join(path), **settings))


def command_line() -> str:
    """What `--help` says of every command."""
    parts = ["# The command line\n\nWritten by `make docs` from `--help`.\n"]
    for path, command in commands(cli, ("pidual",)).items():
        text = "\n".join(f"    {line}".rstrip() for line in help_text(command, path).splitlines())
        parts.append(f"## {' '.join(path)}\n{text}\n")
    return "\n".join(parts)


# --- options ---


def options() -> str:
    """Every option that `--set` takes."""
    rows = [
        [f"`{option.name}`", f"`{shown(option.default)}`", what(Training, option.name)] for option in fields(Training)
    ]
    parts = [
        f"""# Options

{WRITTEN}

`pidual fit --set NAME=VALUE` takes every option on this page, those of the network as `--set network.NAME=VALUE`; the most frequent ones have flags of their own ([the command line](cli.md)).
In Python: `PiDualClassifier(training__clip=1.0, method__lam=7, network__width=64)`, or `FitOptions(options={{"clip": 1.0, "lam": 7, "network.width": 64}})`.
Defaults are those of the code. `pidual fit` puts others in their place by the method and the size of the data ([settings](settings.md)); `config.json` of a run has those that were used.

## Training
""",
        table(["option", "default", "meaning"], rows),
        "\n## Methods\n",
    ]
    for name, method in METHODS.items():
        own = option_rows(method)
        parts.append(f"\n### {name}\n[{method.title}](methods/{name}.md).\n")
        parts.append(table(["option", "default", "range", "meaning"], own) if own else "It has no options.\n")
    parts.append("\n## Networks\n")
    for name, network in NETWORKS.items():
        own = option_rows(network)
        parts.append(f"\n### {name}\n{summary_of(network)}\n")
        parts.append(table(["option", "default", "range", "meaning"], own) if own else "It has no options.\n")
    return "\n".join(parts)


def option_rows(kind: type) -> list[list[str]]:
    """Options of a class: name, default, range, meaning."""
    given = {name: value for name, value in defaults(kind).items() if name != "standardize"}
    return [
        [f"`{name}`", f"`{shown(value)}`", range_of(signature(kind)[name].annotation), what(kind, name)]
        for name, value in given.items()
    ]


def shown(value: object) -> str:
    """A default as one would write it."""
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def range_of(kind: Any) -> str:
    """What values an option takes, in words."""
    kind, *ranges = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    words = [words for _, words in ranges] or ([KINDS[kind][1]] if kind in KINDS else [])
    return "; ".join(words)


def what(kind: type, name: str) -> str:
    """What the docstring of a class, or of the class it is made from, says of a parameter."""
    for base in kind.__mro__:
        found = parameters(base.__doc__ or "")
        if name in found:
            return found[name]
    return ""


def parameters(docstring: str) -> dict[str, str]:
    """The section "Parameters" of a docstring: what it says, by name."""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n|\Z)", inspect.cleandoc(docstring), re.DOTALL)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else []:
        if line.startswith(" "):
            found |= {name: f"{found.get(name, '')} {line.strip()}".strip() for name in names}
        elif head := PARAMETER.match(line):
            names = [name.strip() for name in head[1].split(",")]
    return found


def summary_of(kind: Callable[..., Any]) -> str:
    """The first paragraph of a docstring."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


# --- files, exit codes, methods ---

KIND_WORDS = {
    "label": "class: a category of text or whole numbers",
    "name": "category of text",
    "share": "float32 from 0 to 1",
    "number": "float",
    "count": "whole number",
    "flag": "bool",
    "text": "text",
    "png": "bytes of a PNG",
}
TABLES: dict[str, tuple[str, Mapping[str, tables.Column], str]] = {
    "predictions.parquet": (
        "One row for every annotation.",
        tables.PREDICTIONS_COLUMNS,
        "Then the scores of the method (float32; [methods](methods/index.md)) and the PI columns, under their names in the table; one that has a name from above is called `pi_NAME`.",
    ),
    "items.parquet": (
        "One row for every item.",
        tables.ITEMS_COLUMNS,
        "With up to 20 classes a column `p_CLASS` (float32 from 0 to 1) for each class in place of `top_1` to `top_5`.",
    ),
    "annotators.parquet": ("One row for every annotator.", tables.ANNOTATORS_COLUMNS, ""),
    "annotator_classes.parquet": (
        "One row for every annotator and true class.",
        tables.ANNOTATOR_CLASSES_COLUMNS,
        "",
    ),
    "thumbnails.parquet": ("One row for every picture kept.", tables.THUMBNAILS_COLUMNS, ""),
    "previews.parquet": ("One row for every text or column kept of an item.", tables.PREVIEWS_COLUMNS, ""),
}


def tables_of_a_run() -> str:
    """Every column of every table of a run."""
    parts = [
        f"""# Columns of a run's tables

{WRITTEN} What each column says is in [the run directory](run_directory.md#what-the-tables-say), with the files that are not tables.

*Always* says whether every run has the column; *missing* whether values of it may be missing. Every file is checked against this when it is read.
"""
    ]
    for name, (about, columns, more) in TABLES.items():
        rows = [
            [f"`{column}`", KIND_WORDS[of.kind], "yes" if of.required else "", "yes" if of.missing else ""]
            for column, of in columns.items()
        ]
        parts += [f"## {name}\n{about}\n", table(["column", "type", "always", "missing"], rows)]
        if more:
            parts.append(f"{more}\n")
    return "\n".join(parts)


def exit_codes() -> str:
    """What a command exits with, and which exception that is in Python."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PidualError)]
    rows = [[f"`{kind.__name__}`", kind.exit_code, summary_of(kind)] for kind in found]
    return f"""# Exit codes

{WRITTEN}

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed: data or a run that cannot be used, too little memory, or a fit whose verdict is `failed` (`fit --keep-going` exits with 0 then) |
| 2 | wrong usage: an unknown option or column, or an impossible value |
| 3 | `pidual detect --fail-over`: more labels look wrong than allowed |
| 130 | interrupted, by Ctrl-C; `--resume` goes on |

A message says in one sentence what is wrong, where, and what to do. It goes to stderr; data goes to stdout.

In Python the same are exceptions:

{table(["exception", "code", "meaning"], rows)}
Warnings of class `pidual.DataWarning` say that data can be used, though perhaps not as you meant.
"""


def methods() -> str:
    """A table of the methods."""
    rows = [
        [
            f"[{name}]({name}.md)",
            method.title,
            "yes" if method.needs_pi else "",
            method.networks,
            method.stages,
            method.per_row_state or "",
            ", ".join(f"`{score}`" for score in method.scores[1:]),
            method.reference,
        ]
        for name, method in METHODS.items()
    ]
    head = ["method", "title", "uses PI", "networks", "stages", "keeps per row", "own scores", "source"]
    return f"""# Methods

{WRITTEN} `pidual methods` prints the same; `--method NAME` takes one. Which to take: [choose a method](../choose_a_method.md).

{table(head, rows)}
Every method has `label_quality`. Every page has the same parts: idea with its equation, when it helps, parameters, scores, result, source.
"""


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else DOCS
    for name, text in pages().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        print(f"written: {folder / name}")
