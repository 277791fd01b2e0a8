"""Write the pages that are made from the code: `make docs`.

cli.md            the help of every command, and their exit codes
options.md        every option of training, methods and networks
run_directory.md  every column of the tables of a run, and the fields of its other files, below what people wrote
methods/index.md  the table of methods, below what people wrote
api.md            every name of the Python API in a line, below what people wrote
api/NAME.md       a page for each of them, which mkdocstrings fills from its docstring when the site is built
"""

import ast
import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import click
import msgspec

import pidual
from pidual import errors
from pidual.cli import CONTEXT, cli
from pidual.learn.methods import METHODS
from pidual.learn.nets import NETWORKS
from pidual.options import KINDS, Training, defaults, signature
from pidual.run.predictions import columns as tables
from pidual.run.records.config import Config, Epoch
from pidual.run.records.reading import Record
from pidual.run.records.summary import Summary

DOCS = Path(__file__).parent
WIDTH = 110
PAPER = ("benchmark", "sweep", "data check", "data relabel")  # commands for experiments
WRITTEN = "This page is written from the code by `make docs`."
PARAMETER = re.compile(r"^(\*{0,2}[\w, *]+?)(?: : .*)?$")


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
    """The help of every command but those for experiments (`PAPER`); options as of `pidual fit` by name alone."""
    parts = [
        "# The command line\n\nThis page has the `--help` of commands, written by `make docs`. Each also takes `-h`, `--help`. Those for experiments have a [page of their own](paper/benchmark.md) instead: `pidual benchmark`, `sweep`, `data check` and `data relabel`.\n"
    ]
    fit = {one.opts[0]: one.help for one in cli.commands["fit"].params if isinstance(one, click.Option)}
    every = commands(cli, ("pidual",))
    for path in list(every):
        if len(path) > 1 and (isinstance(every[path], click.Group) or " ".join(path[1:]).startswith(PAPER)):
            del every[path]
    for path, command in every.items():
        again = [one for one in command.params if isinstance(one, click.Option) and fit.get(one.opts[0]) == one.help]
        again = again if len(again) > 3 and path[-1] != "fit" else []
        shown = copy.copy(command)
        shown.params = [one for one in command.params if one not in again]
        lines = (line for line in help_text(shown, path).splitlines() if "-h, --help " not in line)
        text = "\n".join(f"    {line}".rstrip() for line in lines)
        parts.append(f"## {' '.join(path)}\n{text}\n")
        if again:
            names = ", ".join(f"`{max(one.opts, key=len)}`" for one in again)
            parts.append(f"As in [`pidual fit`](#pidual-fit): {names}.\n")
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

Pass any option on this page with `pidual fit --set NAME=VALUE`, and options of the network with `--set network.NAME=VALUE`. The most common ones also have their own flags ([the command line](cli.md)).
In Python: `PiDualClassifier("elr", training__clip=1.0, method__lam=7, network__width=64)`, or `FitOptions(options={{"clip": 1.0, "lam": 7, "network.width": 64}})`.
The table lists the defaults of the code. `pidual fit` replaces some of them depending on the method and the size of the data ([how](settings.md)); `config.json` of a run records the values that were used.

## Training
""",
        table(["option", "default", "meaning"], rows),
        "\n## Methods\nThe options of a [method](methods/index.md#all-methods) are on its page.\n",
    ]
    parts.append("\n## Networks\n")
    for name, network in NETWORKS.items():
        own = option_rows(network)
        parts.append(f"\n### {name}\n{summary_of(network)}\n")
        parts.append(table(["option", "default", "range", "meaning"], own) if own else "This network has no options.\n")
    return "\n".join(parts)


def page_of(method: str) -> str:
    """Where a method is described: on a page of its own, or in a section of the page of the method it extends."""
    pages = {path.name: path.read_text() for path in (DOCS / "methods").glob("*.md")}
    if f"{method}.md" in pages:
        return f"{method}.md"
    (page,) = (name for name, text in pages.items() if f"\n## {method}\n" in text)
    return f"{page}#{method}"


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
    """The values an option may have, in words."""
    kind, *ranges = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    words = [words for _, words in ranges] or ([KINDS[kind][1]] if kind in KINDS else [])
    return "; ".join(words)


def what(kind: type, name: str) -> str:
    """The description of a parameter in the docstring of a class or of a parent class."""
    for base in kind.__mro__:
        found = parameters(base.__doc__ or "")
        if name in found:
            return found[name]
    return ""


def parameters(docstring: str) -> dict[str, str]:
    """The section "Parameters" of a docstring: description by name."""
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

JSON_WORDS = {"int": "whole number", "float": "number", "str": "text", "list": "list"}


def described(kind: type[Record]) -> tuple[str, dict[str, tuple[str, str]]]:
    """What a record is, and of each field its name in the file, its type and what it means."""
    meaning: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        meaning |= parameters(base.__doc__ or "")
    rows = {}
    for field in msgspec.structs.fields(kind):
        found = msgspec.inspect.type_info(field.type)
        options = found.types if isinstance(found, msgspec.inspect.UnionType) else [found]
        word = type(options[0]).__name__.removesuffix("Type").lower()
        rows[field.encode_name] = (JSON_WORDS.get(word, "object"), meaning[field.name])
    return summary_of(kind), rows


OTHER_FILES: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "summary.json": described(Summary),
    "config.json": described(Config),
    "metrics.jsonl": described(Epoch),
    "reviews.sqlite": (
        "The table `decisions` has one row per decision; rows are never changed.",
        {
            "id": ("whole number", "number of the decision"),
            "at": ("text", "date and time"),
            "reviewer": ("text", "name of the reviewer"),
            "row": ("whole number", "row of the table of labels"),
            "decision": ("text", "`keep`, `change`, `unsure` or `undo`"),
            "label": ("text", "the right label according to the reviewer"),
            "undoes": ("whole number", "the decision that an undo takes back"),
            "request": ("text", "id of the request, so that none is saved twice"),
        },
    ),
}

KIND_WORDS = {
    "label": "class",
    "name": "name",
    "share": "share",
    "number": "number",
    "count": "whole number",
    "flag": "bool",
    "text": "text",
    "png": "bytes of a PNG",
}
TABLES: dict[str, tuple[str, Mapping[str, tables.Column], str]] = {
    "predictions.parquet": (
        "One row per annotation.",
        tables.PREDICTIONS_COLUMNS,
        "The remaining columns are the scores of the method (float32; [methods](methods/index.md)) and the PI columns, under the names they have in the table; if such a name is taken by a column above, it becomes `pi_NAME`.",
    ),
    "items.parquet": (
        "One row per item.",
        tables.ITEMS_COLUMNS,
        "With up to 20 classes, the table has a column `p_CLASS` for each class instead of `top_1` to `top_5`.",
    ),
    "annotators.parquet": ("One row per annotator, sorted by `harm`.", tables.ANNOTATORS_COLUMNS, ""),
    "annotator_classes.parquet": (
        "One row per annotator and true class.",
        tables.ANNOTATOR_CLASSES_COLUMNS,
        "",
    ),
    "thumbnails.parquet": ("One row per kept picture.", tables.THUMBNAILS_COLUMNS, ""),
    "previews.parquet": ("One row per kept text or column of a suspicious item.", tables.PREVIEWS_COLUMNS, ""),
}


def tables_of_a_run() -> str:
    """Every column of every table of a run, and the fields of its other files."""
    by_people, heading, _ = (DOCS / "run_directory.md").read_text().partition("## Columns and fields\n")
    parts = [
        f"""{by_people}{heading}{WRITTEN.replace("page", "section")} A class or name is a category, a share a float32 from 0 to 1. *Always*: every run has the column; *gaps*: single values may be missing.
"""
    ]
    for name, (about, columns, more) in TABLES.items():
        lines, ends = [], {f"{one}_{end}" for one in columns for end in ("low", "high") if is_end(columns, one, end)}
        for column, of in columns.items():
            notes = [KIND_WORDS[of.kind], *["always"] * of.required, *["gaps"] * of.missing]
            names = f"`{column}`" + (f", `{column}_low`, `{column}_high`" if f"{column}_low" in ends else "")
            meaning = of.meaning + ("; ends of its 95% interval" if f"{column}_low" in ends else "")
            lines += [] if column in ends else [f"- {names} ({', '.join(notes)}): {meaning}\n"]
        parts.append(f"### {name}\n{about}\n\n{''.join(lines)}")
        if more:
            parts.append(f"{more}\n")
    for name, (about, fields_of) in OTHER_FILES.items():
        lines = [f"- `{field}` ({kind}): {meaning}\n" for field, (kind, meaning) in fields_of.items()]
        parts.append(f"### {name}\n{about}\n\n{''.join(lines)}")
    return "\n".join(parts)


def is_end(columns: Mapping[str, Any], name: str, end: str) -> bool:
    """Whether a column is the end of the 95% interval of another one, and says no more."""
    meaning = columns[f"{name}_{end}"].meaning if f"{name}_{end}" in columns else ""
    return meaning.endswith(f" end of the 95% interval of `{name}`")


def exit_codes() -> str:
    """Exit codes of the commands, and the exceptions of the same errors in Python."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PidualError)]
    rows = [[f"`{kind.__name__}`", kind.exit_code, summary_of(kind)] for kind in found]
    return f"""## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | failed: data or a run that cannot be used, too little memory, or a fit whose verdict is `failed` (with `fit --keep-going` that is 0) |
| 2 | wrong usage: an unknown option or column, or an impossible value |
| 3 | `pidual detect --fail-over`: more labels look wrong than allowed |
| 130 | interrupted by Ctrl-C; continue with `--resume` |

An error message is one sentence: what is wrong, where, and what to do. Messages go to stderr, data to stdout.

In Python, the same errors are exceptions:

{table(["exception", "code", "meaning"], rows)}
A `pidual.DataWarning` means that the data can be used, but perhaps not in the way you meant. Its kind `pidual.errors.VerdictWarning` says that a fit or a judgement `failed` or is `doubtful`, with the reasons.
"""


def methods() -> str:
    """How to choose a method, as people wrote it, and a table of all."""
    rows = [
        [
            f"[{name}]({page_of(name)})",
            method.title,
            "yes" if method.needs_pi else "",
            method.networks,
            method.per_row_state or "",
            method.reference,
        ]
        for name, method in METHODS.items()
    ]
    head = ["method", "title", "uses PI", "networks", "keeps per row", "source"]
    by_people, heading, _ = (DOCS / "methods" / "index.md").read_text().partition("## All methods\n")
    return f"""{by_people}{heading}
`pidual methods` prints this table, which is written from the code; `--method NAME` selects a method.

{table(head, rows)}
Every method has the score `label_quality`. Every page has the same sections: idea with its equation, when it helps, parameters, scores, result, source.
"""


# --- the Python API ---

API = {  # names by what they are for, in the order of the menu: those of `pidual.__all__`, and of `BESIDE`
    "Fit": ["CrowdClassifier", "PiDualClassifier", "fit_table", "FitOptions", "Provenance"],
    "Judge labels": ["judge", "Judgement", "find_label_issues", "judge_pairs", "PairsJudgement"],
    "Read a run": ["Run", "Predictions", "merge", "Totals"],
    "Data": [
        *("read_table", "AnnotationTable", "load_inputs", "Inputs"),
        *("make_crowd", "Crowd", "load_dataset", "NoisyDataset"),
    ],
    "Train": ["PiDualLoss", "Callback", "Method", "PiDual", "LatentTruth", "METHODS"],
    "Errors": [
        *("PidualError", "UsageError", "DataError", "RunError", "DivergedError", "Interrupted", "TooManyIssues"),
        "DataWarning",
    ],
}
BESIDE = {  # what functions return and take that is not at the root: where it is
    "Crowd": "data.datasets.synthetic",
    "Judgement": "api.judge",
    "NoisyDataset": "data.datasets.base",
    "PairsJudgement": "api.pairs",
    "Provenance": "fit.options",
    "Totals": "detect.totals",
}
INTERNAL = {  # members for the package itself
    "AnnotationTable": "long",
    "Run": "about_items|checked|digests|forget|holding|known|moved|n_rows|read_predictions|trained|trains|write_report"
    "|write_thumbnails|writing",
}


def path_of(name: str) -> str:
    """Where users import a name from."""
    return f"pidual.{BESIDE[name]}.{name}" if name in BESIDE else f"pidual.{name}"


def object_of(name: str) -> Any:
    """What has this name."""
    home, _, name = path_of(name).rpartition(".")
    return getattr(import_module(home), name)


def source_of(name: str) -> Path:
    """The file that defines a name."""
    thing = object_of(name)
    home = thing.__module__ if hasattr(thing, "__module__") else f"pidual.{pidual._HOMES[name]}"
    return Path(import_module(home).__file__ or "")


def docstring_of(name: str) -> str:
    """The docstring of a class or function or, below its value, of anything else."""
    thing = object_of(name)
    if callable(thing):
        return inspect.cleandoc(thing.__doc__ or "")
    body = ast.parse(source_of(name).read_text()).body
    for one, below in pairwise(body):
        if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == name and isinstance(below, ast.Expr):
            return inspect.cleandoc(ast.literal_eval(below.value))
    return ""


def api() -> str:
    """What to use for what, as people wrote it, and every name in a line; links to where names were lead there."""
    by_people, heading, _ = (DOCS / "api.md").read_text().partition("## Every name\n")
    parts = [f"{by_people}{heading}{WRITTEN.replace('page', 'section')}\n"]
    for group, names in API.items():
        rows = []
        for name in names:
            first = re.sub(r"\s+", " ", docstring_of(name).split("\n\n")[0])
            was = f"pidual.{BESIDE.get(name) or pidual._HOMES[name]}.{name}"
            rows.append([f'<a id="{was}"></a>[`{name}`](api/{name}.md)', first])
        parts.append(f"\n### {group}\n{table(['name', 'what it is'], rows)}")
    return "".join(parts)


def api_page(name: str) -> str:
    """The page of a name, for mkdocstrings to fill; members of a class that has its own page are there."""
    thing, options = object_of(name), []
    bases = {base.__name__ for base in thing.__mro__[1:]} if isinstance(thing, type) else set()
    if bases & {one for names in API.values() for one in names}:
        options.append("inherited_members: false")
    if not callable(thing):
        options.append("show_attribute_values: false")
    if name in INTERNAL:
        options.append(f'filters: ["!^_", "!^({INTERNAL[name]})$"]')
    lines = ["    options:", *(f"      {option}" for option in options)] if options else []
    source = f"src/pidual/{source_of(name).relative_to(Path(pidual.__file__).parent).as_posix()}"
    return "\n".join(["---", f"source: {source}", "---", f"::: {path_of(name)}", *lines, ""])


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": lambda: "\n".join([command_line(), exit_codes()]),
    "options.md": options,
    "run_directory.md": tables_of_a_run,
    "methods/index.md": methods,
    "api.md": api,
    **{f"api/{name}.md": partial(api_page, name) for names in API.values() for name in names},
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else DOCS
    for name, page in PAGES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(page())
        print(f"written: {folder / name}")
