"""Read the data and the options of a fit that a command line names, for `fit` and `sweep`."""

import fnmatch
import re
import shlex
import sys
import warnings
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataWarning, UsageError
from ..errors.messages import no_method
from ..files import without_passwords
from .common import command_line, embedding_progress
from .options import LIBRARIES, METHOD_NAMES, NETWORK_NAMES, given_on_command_line, in_quotes, unquoted

if TYPE_CHECKING:
    from ..api.run import Run
    from ..data import AnnotationTable, Inputs
    from ..fit.options import FitOptions

NAMED = ("epochs", "batch_size", "lr", "precision")  # of training, with an option of their own
ASKED = (
    "x",
    "columns",
    "text",
    "image_size",
    "embed",
    "probs",
    "no_x",
    "pi",
    "key_file",
)  # kept to read the data again
READ = ("item", "label", "annotator", "y", "split", "same", "exact_labels", "no_answer")  # how to read the table
SCALE = ("levels", "truth_classes")  # the same of ratings
SETS = ("labels", "label_separator", "multi_label")  # the same of answers that are sets of labels
MOVED = ("x", "embed", "probs", "key_file")  # files of a run that may be elsewhere when it is fitted again
SCALE_LEVELS, SEVERAL = range(3, 12), 1.5  # labels of a scale, and answers to an item that it needs
FREE = (*MOVED, *NAMED, "settings", "accelerator", "threads")  # options beside --from


def check_method_name(name: str, *groups: str) -> None:
    """Refuse a method that does not exist, without loading torch; a method added in Python has loaded it already."""
    if "pidual.learn.methods" not in sys.modules and name not in (*METHOD_NAMES, *groups):
        raise UsageError(no_method(name, METHOD_NAMES, groups))


def _check_options(options: dict[str, Any]) -> None:
    """Refuse what can be refused before torch is loaded and data is read."""
    from ..fit.settings import split_settings
    from ..options import Training

    check_method_name(options["method"] or "auto", "auto")
    library, _, inner = (options["network"] or "").partition(":")
    known = options["network"] in (None, *NETWORK_NAMES) or (library in LIBRARIES and inner)
    if "pidual.learn.nets" not in sys.modules and not known:
        names = ", ".join([*NETWORK_NAMES, *(f"{library}:NAME" for library in LIBRARIES)])
        raise UsageError(f"There is no network '{options['network']}'; choose one of {names}.")
    inputs = {"probs": "--probs", "no_x": "--no-x", "x": "--x", "columns": "--x-columns", "text": "--x-text"}
    first, *others = [name for option, name in inputs.items() if options.get(option)] or [""]
    if first in ("--probs", "--no-x"):
        others += [f"--{name.replace('_', '-')}" for name in ("image_size", "embed") if options[name]]
        if others:
            raise UsageError(f"{first} and {others[0]} cannot be used together; give one of them.")
        if given_on_command_line("method") and options["method"] not in ("auto", "latent_truth"):
            raise UsageError(
                f"{first} needs the method latent_truth, which judges all answers to an item together, not "
                f"'{options['method']}'; leave --method out."
            )
    check_given_once(options, NAMED)
    Training(**split_settings(options["settings"]).training | _given_training(options), seed=options["seed"])


def _given_training(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of training that were given by options of their own."""
    return {name: options[name] for name in NAMED if options[name] is not None}


def check_given_once(options: dict[str, Any], named: tuple[str, ...]) -> None:
    """Refuse a setting that has an option of its own and is in --set as well."""
    for name in named:
        if options[name] is not None and name in options["settings"]:
            raise UsageError(f"{name} is given twice, with --{name.replace('_', '-')} and with --set; give it once.")


def _describe_columns(table: "AnnotationTable", opened: Any, options: dict[str, Any]) -> list[str]:
    """Name columns that may be items or PI where nobody has said what is, people, and labels that may be a scale."""
    from ..data.people import listed

    items = _items_of_rows(table, opened)
    left = [
        f"{table.source}: column {name} differs in every row: is it the item? Then --item {name}." for name in items
    ]
    unused = [name for name in table.unused if name not in items]
    if unused and options["pi"] is None:
        advice = (
            " Name the columns that say how a label was made, such as who gave it and how long it took, with --pi: "
            "they help to find wrong labels."
        )
        found = opened.guess is not None and bool(opened.guess.pi)
        left.append(f"{table.source}: not used: {listed(unused, 5)}.{'' if found else advice}")
    if table.people and "annotator" not in table.frame:
        left.append(
            f"{table.source}: {listed(list(table.people))} holds people, but no column says who gave each label; if "
            "these people did, name it with --annotator, so that each of them is judged."
        )
    if scale := _find_scale(table):
        levels = ",".join(scale)
        left.append(
            f"{table.source}: labels are {scale[0]} to {scale[-1]}. If this is a scale, use --levels {levels} "
            "--truth-classes LOW,HIGH."
        )
    return left


def _items_of_rows(table: "AnnotationTable", opened: Any) -> list[str]:
    """Return columns of a wide table without items that are not used and differ in every row."""
    import pyarrow as pa

    from ..data.columns import keys

    if opened.positions is None or "item" not in opened.made:
        return []
    n, read = len(table.frame["item"].cat.categories), opened.read(list(table.unused))
    flat = {name: column for name, column in read.items() if not pa.types.is_nested(column.type)}
    return [name for name, column in flat.items() if len(keys(opened, name, column).names) == n]


def _find_scale(table: "AnnotationTable") -> list[str]:
    """Return the labels in order where they are whole numbers in a row and items have several; else none."""
    names = [str(name) for name in table.classes]
    several = len(table) >= SEVERAL * len(table.frame["item"].cat.categories)
    if len(names) not in SCALE_LEVELS or not several or not all(re.fullmatch(r"-?\d+", name) for name in names):
        return []
    values = sorted(map(int, names))
    codes = values[0] == 0 and values[-1] < 10  # of classes, rather than a scale
    in_a_row = values[-1] - values[0] == len(names) - 1
    return [str(value) for value in values] if in_a_row and not codes else []


def load_job(
    table: Path | str, options: dict[str, Any], *, quiet: bool = False, advise: bool = False
) -> tuple["AnnotationTable", "Inputs", "FitOptions", dict[str, Any]]:
    """Read table and inputs, and sort the options of `fit` into those of the library; torch is loaded last.

    `advise`: warn of columns and labels that may be more than is made of them.
    """
    _check_options(options)
    from ..data import open_source, read_table
    from ..data.features import expect_inputs
    from ..data.sources.in_arrow import OnlyRows

    listed = [unquoted(part)[0] for part in options["annotators"] or []]
    with warnings.catch_warnings():
        if options["multi_label"]:  # the warning says to
            warnings.filterwarnings("ignore", ".* answers with several labels: ")
        opened = open_source(table, format=options["format"], label=options["label"], annotators=listed)
    used = options | _guess_inputs(opened, options)
    if used["levels"] or used["truth_classes"]:
        from ..fit.levels import in_classes

        how = {name: used[name] for name in ("item", "label", "annotator", "no_answer")}
        opened, text = in_classes(opened, used["levels"], used["truth_classes"], **how)
        warnings.warn(text, DataWarning, stacklevel=2)
    given = [name_and_kind(opened, part) for part in options["pi"] or []]
    pi = [name for name, _ in given] if options["pi"] is not None else None
    columns, text, x = [unquoted(part)[0] for part in used["columns"] or []], used["text"], options["x"]
    columns = columns if x is not None else _matching(opened, columns)
    here = [*columns, *([text] if text else [])] if x is None else None
    if here:
        expect_inputs(opened, used["item"], columns, text)
    how = {name: used[name] for name in (*READ, *SETS, "keep_ids", "key_file")}
    read = read_table(opened, pi=pi, x_columns=here, new_key=options.get("new_key", True), **how)
    opened = opened if read.file_rows is None else OnlyRows(opened, read.file_rows)
    with embedding_progress(quiet) as progress:
        place, inputs = _read_inputs(table, opened, read, used | {"columns": columns, "progress": progress})
    for said in _describe_columns(read, opened, used) if advise else []:
        warnings.warn(said, DataWarning, stacklevel=2)
    from ..fit.options import FitOptions

    judging = options.get("probs") or options.get("no_x")
    fit_options = FitOptions(
        method="latent_truth" if judging else options["method"] or "auto",
        options=options["settings"] | _given_training(options),
        pi_kinds={column: kind for column, (_, kind) in zip(read.pi_columns, given, strict=False) if kind},
        **{name: options[name] for name in ("setting", "network", "valid_fraction", "seed", "accelerator", "threads")},
    )
    asked = {name: options.get(name) for name in ASKED}
    asked |= {name: without_passwords(str(asked[name])) for name in ("x", "probs") if asked[name]}
    source = {
        "table": without_passwords(str(table)),
        "x": without_passwords(place),
        "command": command_line() if options["keep_ids"] or not listed else _without_annotators(command_line()),
        "read": {
            "format": options["format"],
            "annotators": opened.positions,
            **{name: used[name] for name in (*READ, *SETS, *SCALE)},
        },
        "asked": asked | {"key_file": None if asked["key_file"] is None else str(asked["key_file"])},
    }
    return read, inputs, fit_options, source


def _read_inputs(
    table: Path | str, opened: Any, read: "AnnotationTable", options: dict[str, Any]
) -> tuple[str, "Inputs"]:
    """Read the inputs that are asked for, and say where they are."""
    from ..data import load_inputs, load_probabilities, no_inputs, table_inputs

    x, columns, text, item = (options[name] for name in ("x", "columns", "text", "item"))
    how = {name: options[name] for name in ("columns", "text", "item", "embed", "progress")}
    if x is not None:
        return x, load_inputs(x, image_size=options["image_size"], **how)
    if columns or text:
        inputs = table_inputs(opened, **how)
        return f"{table} ({text or ','.join(columns)})", inputs
    if options.get("probs"):
        of_sets = read.sets is not None
        return options["probs"], load_probabilities(options["probs"], read.all_classes, item=item, sets=of_sets)
    if options.get("no_x"):
        return "none", no_inputs()
    image = opened.guess and opened.guess.image
    raise UsageError(
        "There is no input to learn from; pass one with --x, --x-columns or --x-text, or give a classifier's "
        "probabilities with --probs, or judge labels without any input with --no-x."
        + (f" (The items are images: give the folder that the files in {image!r} are in with --x.)" if image else "")
    )


def _guess_inputs(opened: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the inputs of an export where none are given, and the item where a field names images."""
    guess = opened.guess
    if guess is None:
        return {}
    names_images = options["x"] and guess.image and options["item"] is None and Path(options["x"]).is_dir()
    found = {"item": guess.image} if names_images else {}
    if any(options.get(name) for name in ("x", "columns", "text", "probs", "no_x", "image_size")):
        return found
    return found | {"text": guess.text, "columns": [in_quotes(name) for name in guess.columns]}


def _matching(opened: Any, columns: list[str]) -> list[str]:
    """Return the columns of the table that are named, or that are like a pattern."""
    found: list[str] = []
    for name in columns:
        like = [] if name in opened else [each for each in opened.columns if fnmatch.fnmatchcase(each, name)]
        found += like or [name]
    return found


def _without_annotators(command: str) -> str:
    """Return a command line without the columns of annotators, whose names say who they are."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        kept.append("--annotators=..." if word.startswith("--annotators=") else word)
        if word == "--annotators":
            next(words, None)
            kept.append("...")
    return shlex.join(kept)


def name_and_kind(table: Container[str], part: str) -> tuple[str, str]:
    """Split a part of --pi into column and kind (or ""): NAME, NAME:KIND, "NAME" or "NAME":KIND."""
    from ..data.pi import KINDS

    name, kind = unquoted(part)
    if name != part or ":" not in part:
        return name, kind
    name, _, kind = (word.strip() for word in part.rpartition(":"))
    if match := re.fullmatch(r"(.+?)\s*:\s*(raw:[^:]*:[^:]*)", part):  # raw:MEAN:STD has colons of its own
        name, kind = match.groups()
    known = kind.partition(":")[0] in KINDS
    return (part, "") if not known and part in table else (name, kind)


# --- `pidual fit --from RUN` ---


def read_as_before(run: "Run", table: Path | str | None, options: dict[str, Any]) -> tuple[Path | str, dict[str, Any]]:
    """Return where the table of a run is, and options that read its data as it was read then."""
    from ..data.embedding_models import find_model

    for name in options:
        if name not in FREE and given_on_command_line(name):
            raise UsageError(f"--{name.replace('_', '-')} is that of the run with --from; leave it out.")
    source = run.config.source
    asked, read = source.asked, source.read
    if asked is None or read is None or source.table is None:
        raise UsageError(
            f"{run.path} does not say how its data was read: it was made in Python, where fit_table(..., from_run=...) "
            "takes it; or fit its table again, with --truth."
        )
    moved = [name for name in MOVED if given_on_command_line(name)]
    options = options | {name: getattr(asked, name) for name in ASKED if name not in moved}
    options |= {name: getattr(read, name) for name in ("format", *READ, *SETS, *SCALE)}
    options |= {"keep_ids": run.config.data.keep_ids, "new_key": False, "annotators": None}
    recorded = {"TABLE": None if table else source.table, "--x": asked.x, "--probs": asked.probs}
    for option, place in recorded.items():  # the run may be a stranger's
        if place and "://" in place and option.removeprefix("--") not in moved:
            what = f"{run.path} says that its data is at {place}, and an address is opened only where you give it"
            raise UsageError(f"{what}; give it again as {option}.")
    if options["embed"] is not None and "embed" not in moved:
        find_model(options["embed"], "texts", of_run=True)  # which refuses what only the user may name
    table = table or Path(source.table)
    if options["key_file"] is not None:
        options["key_file"] = Path(options["key_file"])
    if read.annotators:  # the columns of a wide table that hold answers
        from ..data import open_source

        columns = open_source(table, format=read.format).columns
        options["annotators"] = [in_quotes(columns[number]) for number in read.annotators if number < len(columns)]
    return table, options


def fit_again(run: "Run", options: dict[str, Any]) -> "FitOptions":
    """Return the options of the fit of a run, with those that are on the command line."""
    from ..fit.refit import refit_options

    changes = {name: options[name] for name in ("accelerator", "threads") if given_on_command_line(name)}
    return refit_options(run, options=options["settings"] | _given_training(options), **changes)
