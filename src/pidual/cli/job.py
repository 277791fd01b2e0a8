"""What `fit` and `sweep` share: their options, and reading the data and settings these name."""

import re
import sys
from collections.abc import Callable, Container
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..errors import UsageError
from ..errors.messages import no_method
from .columns import guess_options, matching, without_names
from .common import command_line, names, parse_same, parse_settings, unquoted

if TYPE_CHECKING:
    from ..data import AnnotationTable

METHOD_NAMES = (
    *(
        "ce",
        "forward_t",
        "co_teaching",
        "divide_mix",
        "elr",
        "elr_plus",
        "sop",
        "sop_plus",
        "cores",
        "cores_star",
        "pes",
    ),
    *("pes_semi", "het", "het_xl", "tram", "tram_plus_plus", "afm", "distill_pi", "pi_dual", "pi_dual_plus"),
    "latent_truth",
)
NETWORK_NAMES = ("mlp", "small_cnn", "wrn_28_10", "resnet50", "resnet34", "preact_resnet18")
LIBRARIES = ("torchvision", "timm")
NAMED = ("epochs", "batch_size", "lr", "precision")  # of training, with an option of their own
ASKED = ("x", "columns", "text", "image_size", "probs", "no_x", "pi", "key_file")  # kept to read the data again
Command = Callable[..., Any]


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator of several, in the order in which help shows them."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of CPU threads.  [default: 1 for small networks, otherwise OMP_NUM_THREADS or all cores]",
)
FORMATS = ("label-studio", "label-studio-min", "argilla", "doccano", "hf", "table")
format_option = click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Tool that wrote TABLE; label-studio-min is JSON_MIN or CSV.  [default: recognised from its content]",
)
annotators_option = click.option(
    "--annotators",
    callback=names,
    metavar="A,B,...",
    help="For a wide TABLE: columns with the answers of one annotator each, or patterns such as 'rater_*'.",
)
table_argument = click.argument("table", type=click.Path(path_type=Path))
data_options = together(
    click.option(
        "--x",
        "x",
        metavar="PATH",
        help="Inputs: .npy, .npz, CSV or Parquet with numeric columns, or a folder of images.",
    ),
    click.option(
        "--x-columns",
        "columns",
        callback=names,
        metavar="A,B,...",
        help="Input columns of --x or, without --x, of TABLE, where a pattern such as 'embedding_*' also works; put "
        "a name with a comma in double quotes.",
    ),
    click.option(
        "--x-text",
        "text",
        metavar="COLUMN",
        help="Use text as input: name of its column in --x or, without --x, in TABLE.",
    ),
    click.option(
        "--image-size", type=click.IntRange(min=1), metavar="PIXELS", help="Resize images to this many pixels per side."
    ),
    format_option,
    annotators_option,
    click.option("--item", metavar="COLUMN", help="Column that names the item.  [default: item or task]"),
    click.option(
        "--label",
        metavar="COLUMN",
        help="Column of the given label; for an export, the control or question.  [default: label]",
    ),
    click.option(
        "--annotator",
        metavar="COLUMN",
        help="Column of the annotator.  [default: annotator, worker, rater or labeler, or one of these with _id; "
        "otherwise the only column whose name says who gave the label, such as completed_by]",
    ),
    click.option(
        "--pi",
        callback=names,
        metavar="A,B,...",
        help="Privileged information: columns that say how each label was made. NAME or NAME:KIND, where KIND is "
        "category, number, duration or raw; put a name with a comma or colon in double quotes, as in "
        """'"time, s":number'.  [default: the annotator; for an export, all columns it has]""",
    ),
    click.option(
        "--same",
        multiple=True,
        callback=parse_same,
        metavar="OLD=NEW",
        help="Merge the label OLD into NEW, such as o.k.=ok; repeatable.",
    ),
    click.option(
        "--exact-labels",
        is_flag=True,
        help="Do not merge labels that differ in letter case, spaces or Unicode form alone.",
    ),
    click.option("--y", metavar="COLUMN", help="Clean label, for evaluation only.  [default: y if there is one]"),
    click.option(
        "--split", metavar="COLUMN", help="Column with train, valid or test.  [default: split if there is one]"
    ),
)
judging_options = together(
    click.option(
        "--probs",
        metavar="PATH",
        help="Judge labels by your own classifier's probabilities for each item, instead of inputs: .npy, "
        ".npz with pred_probs, CSV or Parquet, with one column per class in sorted order. They should be out of "
        "sample: from a classifier not trained on the label it judges.",
    ),
    click.option("--no-x", is_flag=True, help="Judge labels by each other and by PI alone, without inputs."),
)
training_options = together(
    click.option(
        "--method", help="Method; `pidual methods` lists them.  [default: auto, chosen from the data; sweep: pi_dual]"
    ),
    click.option(
        "--setting",
        default="default",
        show_default=True,
        type=click.Choice(["default", "paper"]),
        help="Preset for options you do not set. paper is the paper's protocol for CIFAR; for images, it uses "
        "WRN-28-10, which needs a GPU.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        callback=parse_settings,
        metavar="KEY=VALUE",
        help="Set any option of the method, of training or of the network (network.KEY=VALUE); repeatable.",
    ),
    click.option(
        "--network",
        metavar="NAME",
        help=f"{', '.join(NETWORK_NAMES)}, torchvision:NAME or timm:NAME.  [default: depends on the inputs]",
    ),
    click.option("--epochs", type=int, help="Number of passes over the data."),
    click.option("--batch-size", type=int, help="Rows per step (items, if the method judges items)."),
    click.option("--lr", type=float, help="Learning rate."),
    click.option(
        "--valid-fraction",
        type=float,
        help="Share of items held out as noisy validation set.  [default: latent_truth: 0, others: 0.1, images "
        "with --setting paper: 0.02]",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Random seed."),
    click.option("--precision", help="Numerical precision: 32-true, bf16-mixed, ..."),
    click.option("--accelerator", default="auto", show_default=True, help="Device: cpu, cuda, ..."),
    threads_option,
    click.option("--keep-ids", is_flag=True, help="Keep the ids of people instead of replacing them by pseudonyms."),
    click.option(
        "--key-file",
        type=click.Path(path_type=Path),
        help="Secret key of the pseudonyms; created if missing.  [default: .pidual.key beside TABLE]",
    ),
)


def check_method_name(name: str, *groups: str) -> None:
    """Refuse a method that does not exist, without loading torch; a method added in Python has loaded it already."""
    if "pidual.learn.methods" not in sys.modules and name not in (*METHOD_NAMES, *groups):
        raise UsageError(no_method(name, METHOD_NAMES, groups))


def check_inputs_given_once(options: dict[str, Any]) -> None:
    """Refuse two kinds of inputs, and a method that cannot judge labels without a network of x."""
    without_x = [option for option in ("probs", "no_x") if options.get(option)]
    if not without_x:
        return
    inputs = {"x": "--x", "columns": "--x-columns", "text": "--x-text", "image_size": "--image-size"}
    given = [name for option, name in inputs.items() if options[option]]
    first, *others = [*(f"--{option.replace('_', '-')}" for option in without_x), *given]
    if others:
        raise UsageError(f"{first} and {others[0]} cannot be used together; give one of them.")
    chosen = click.get_current_context().get_parameter_source("method") is not ParameterSource.DEFAULT
    if chosen and options["method"] not in ("auto", "latent_truth"):
        raise UsageError(
            f"{first} needs the method latent_truth, which judges all answers to an item together, not "
            f"'{options['method']}'; leave --method out."
        )
    options["method"] = "latent_truth"


def check_options(options: dict[str, Any]) -> None:
    """Refuse what can be refused before torch is loaded and data is read."""
    from ..fit.settings import split_settings
    from ..options import Training

    check_method_name(options["method"] or "auto", "auto")
    check_inputs_given_once(options)
    network = options["network"]
    library, _, inner = (network or "").partition(":")
    if (
        "pidual.learn.nets" not in sys.modules
        and network not in (None, *NETWORK_NAMES)
        and not (library in LIBRARIES and inner)
    ):
        known = ", ".join([*NETWORK_NAMES, *(f"{library}:NAME" for library in LIBRARIES)])
        raise UsageError(f"There is no network '{network}'; choose one of {known}.")
    check_given_once(options, NAMED)
    Training(**split_settings(options["settings"]).training | given_training(options), seed=options["seed"])


def given_training(options: dict[str, Any]) -> dict[str, Any]:
    """Options of training that were given by options of their own."""
    return {name: options[name] for name in NAMED if options[name] is not None}


def check_given_once(options: dict[str, Any], named: tuple[str, ...]) -> None:
    """Refuse a setting that has an option of its own and is in --set as well."""
    for name in named:
        if options[name] is not None and name in options["settings"]:
            raise UsageError(f"{name} is given twice, with --{name.replace('_', '-')} and with --set; give it once.")


def what_is_left(table: "AnnotationTable", pi_given: bool) -> list[str]:
    """Columns that may be PI where nobody has said what is, and people who may have given the labels."""
    from ..data.people import listed

    left = []
    if table.unused and not pi_given:
        left.append(
            f"{table.source}: not used: {listed(list(table.unused), 5)}. Name the columns that say how a label was "
            "made, such as who gave it and how long it took, with --pi: they help to find wrong labels."
        )
    if table.people and "annotator" not in table.frame:
        left.append(
            f"{table.source}: {listed(list(table.people))} holds people, but no column says who gave each label; if "
            "these people did, name it with --annotator, so that each of them is judged."
        )
    return left


def load_job(table: Path, **options: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Read table and inputs, and sort the options of `fit` into those of the library; torch is loaded last."""
    check_options(options)
    asked = {name: options.get(name) for name in ASKED}
    from ..data import load_inputs, load_probabilities, no_inputs, open_source, read_table, table_inputs
    from ..data.features import expect_inputs
    from ..data.sources.in_arrow import OnlyRows

    listed = [unquoted(part)[0] for part in options["annotators"] or []]
    opened = open_source(table, format=options["format"], label=options["label"], annotators=listed)
    guess_options(opened, options)
    given = [name_and_kind(opened, part) for part in options["pi"] or []]
    pi = [name for name, _ in given] if options["pi"] is not None else None
    keys = ("item", "label", "annotator", "y", "split", "same", "exact_labels", "keep_ids", "key_file")
    columns, text, x = [unquoted(part)[0] for part in options["columns"] or []], options["text"], options["x"]
    columns = columns if x is not None else matching(opened, columns)
    here = [*columns, *([text] if text else [])] if x is None else None
    if here:
        expect_inputs(opened, options["item"], columns, text)
    new_key = options.get("new_key", True)
    read = read_table(opened, pi=pi, x_columns=here, new_key=new_key, **{key: options[key] for key in keys})
    opened = opened if read.file_rows is None else OnlyRows(opened, read.file_rows)
    if x is not None:
        inputs = load_inputs(x, columns=columns, text=text, item=options["item"], image_size=options["image_size"])
    elif columns or text:
        inputs = table_inputs(opened, columns=columns, text=text, item=options["item"])
    elif options.get("probs"):
        x = options["probs"]
        inputs = load_probabilities(x, read.classes, item=options["item"])
    elif options.get("no_x"):
        x, inputs = "none", no_inputs()
    else:
        image = opened.guess and opened.guess.image
        raise UsageError(
            "There is no input to learn from; pass one with --x, --x-columns or --x-text, or give a classifier's "
            "probabilities with --probs, or judge labels without any input with --no-x."
            + (
                f" (The items are images: give the folder that the files in {image!r} are in with --x.)"
                if image
                else ""
            )
        )
    from ..fit.options import FitOptions

    fit_options = FitOptions(
        method=options["method"] or "auto",
        setting=options["setting"],
        options=options["settings"] | given_training(options),
        network=options["network"],
        valid_fraction=options["valid_fraction"],
        pi_kinds={column: kind for column, (_, kind) in zip(read.pi_columns, given, strict=False) if kind},
        seed=options["seed"],
        accelerator=options["accelerator"],
        threads=options["threads"],
    )
    source = {
        "table": str(table),
        "x": x or f"{table} ({text or ','.join(columns)})",
        "command": command_line() if options["keep_ids"] or not listed else without_names(command_line()),
        "read": {
            "format": options["format"],
            "annotators": opened.positions,
            **{key: options[key] for key in keys[:7]},
        },
        "asked": asked | {"key_file": None if asked["key_file"] is None else str(asked["key_file"])},
    }
    return read, inputs, fit_options, source


def name_and_kind(table: Container[str], part: str) -> tuple[str, str]:
    """Column and kind (or "") of a part of --pi: NAME, NAME:KIND, "NAME" or "NAME":KIND."""
    from ..data.pi import KINDS

    name, kind = unquoted(part)
    if name != part or ":" not in part:
        return name, kind
    name, _, kind = (word.strip() for word in part.rpartition(":"))
    if match := re.fullmatch(r"(.+?)\s*:\s*(raw:[^:]*:[^:]*)", part):  # raw:MEAN:STD has colons of its own
        name, kind = match.groups()
    known = kind.partition(":")[0] in KINDS
    return (part, "") if not known and part in table else (name, kind)
