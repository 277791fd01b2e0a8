"""Options and arguments that several commands share, and how their values are read."""

import contextlib
import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..errors import UsageError

METHOD_NAMES = (
    *("ce", "forward_t", "co_teaching", "divide_mix", "elr", "elr_plus", "sop", "sop_plus", "cores", "cores_star"),
    *("pes", "pes_semi", "het", "het_xl", "tram", "tram_plus_plus", "afm", "distill_pi", "pi_dual", "pi_dual_plus"),
    "latent_truth",
)
NETWORK_NAMES = ("mlp", "small_cnn", "wrn_28_10", "resnet50", "resnet34", "preact_resnet18")
LIBRARIES = ("torchvision", "timm")
FORMATS = (
    *("label-studio", "label-studio-min", "argilla", "doccano", "prodigy", "potato", "inspect", "promptfoo"),
    *("deepeval", "lm-eval", "hf", "table"),
)


Command = Callable[..., Any]


def given_on_command_line(name: str) -> bool:
    """Return whether an option of the command that runs is on its command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Split a comma-separated list into its parts as written; a comma within double quotes separates nothing."""
    if value is None:
        return None
    parts = [part.strip() for part in re.findall(r'(\s*"(?:[^"]|"")*"[^,]*|[^,]*)(?:,|$)', value)]
    return [part for part in parts if part]


def unquoted(part: str) -> tuple[str, str]:
    """Split a part of a list into name and what follows it in `"NAME":KIND`; without quotes, all of it is the name."""
    match = re.fullmatch(r'"((?:[^"]|"")*)"\s*(?::\s*(.*))?', part)
    return (match[1].replace('""', '"'), match[2] or "") if match else (part, "")


def in_quotes(name: str) -> str:
    """Return a name as a part of a list, whatever is in it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _parse_labels(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str]:
    return [unquoted(part)[0] for part in names(context, parameter, value) or []]


def parse_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """Parse KEY=VALUE pairs; a value is JSON where it can be (0.1, true, null, [1, 2]), else text."""
    parsed = {}
    for pair in value:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{pair}' is not of the form KEY=VALUE.")
        parsed[key.strip()] = parse_value(text)
    return parsed


def _parse_same(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Parse OLD=NEW pairs of labels."""
    parsed = {}
    for pair in value:
        old, _, new = (part.strip() for part in pair.partition("="))
        if not old or not new:
            raise click.BadParameter(f"'{pair}' is not of the form OLD=NEW.")
        parsed[old] = new
    return parsed


def parse_value(text: str) -> Any:
    """Parse JSON where it is, none, else text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None if text.lower() == "none" else text


def parse_number(text: str, takes: str, is_valid: Callable[[float], bool]) -> float:
    """Parse 5% as 0.05, and a number as it is."""
    with contextlib.suppress(ValueError):
        number = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        if is_valid(number):
            return number
    raise UsageError(f"{takes}, not '{text}'.")


def compose(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several, in the order in which help shows them."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


class Place(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A path, or an address such as s3://bucket/labels.parquet, which stays the text it is."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        return value if isinstance(value, Path) or "://" in value else Path(value)


PATH = click.Path(path_type=Path)
PLACE = Place()
run_argument = click.argument("run", type=PATH)
table_argument = click.argument("table", type=PLACE)
out_option = click.option("--out", type=PATH, help="CSV or Parquet file.  [default: CSV on stdout]")
table_option = click.option(
    "--table", type=PLACE, help="Path or address of the table.  [default: where the run read it]"
)
key_option = click.option("--key-file", type=PATH, help="Key file.  [default: .pidual.key beside the table]")
scale_option = click.option(
    "--scale", type=click.Choice(["cpu", "paper"]), default="cpu", show_default=True, help="Recipe to use."
)
server_options = compose(
    click.option("--project", type=int, metavar="N", help="Number of the project in Label Studio."),
    click.option(
        "--api-key-file", type=PATH, help="File with the API key.  [default: environment variable LABEL_STUDIO_API_KEY]"
    ),
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Show no progress.")


def json_option(text: str = "Print JSON.") -> Callable[[Command], Command]:
    """Make the option --json of a command, which prints this."""
    return click.option("--json", "as_json", is_flag=True, help=text)


embed_option = click.option(
    "--embed",
    metavar="MODEL",
    help="Turn texts or pictures into vectors by a model: its name on the Hugging Face hub (downloaded if needed), a "
    "folder for sentence-transformers, timm:NAME, torchvision:NAME, an ONNX file, or package.module:function.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of CPU threads.  [default: 1 for small networks, otherwise OMP_NUM_THREADS or all cores]",
)
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
data_options = compose(
    click.option(
        "--x",
        "x",
        metavar="PATH",
        help="Inputs: .npy, .npz, CSV or Parquet with numeric columns (or a folder of parts), or a folder of images.",
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
    embed_option,
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
        "--labels",
        callback=names,
        metavar="A,B,...",
        help="For answers that are sets of labels: columns of 0 and 1, one per class, or patterns such as 'tag_*'.",
    ),
    click.option(
        "--label-separator", metavar="TEXT", help="For answers that are sets of labels: what separates them, as in a|b."
    ),
    click.option(
        "--multi-label",
        is_flag=True,
        help="Judge each class by itself, yes or no: for an export with several choices per answer.",
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
        callback=_parse_same,
        metavar="OLD=NEW",
        help="Merge the label OLD into NEW, such as o.k.=ok; repeatable.",
    ),
    click.option(
        "--exact-labels",
        is_flag=True,
        help="Do not merge labels that differ in letter case, spaces or Unicode form alone.",
    ),
    click.option(
        "--no-answer",
        callback=_parse_labels,
        metavar="A,B,...",
        help="Labels that mean no answer, such as unsure,tie,-1, in any spelling: left out of the votes, and counted "
        "for each annotator.",
    ),
    click.option(
        "--levels",
        callback=_parse_labels,
        metavar="A,B,...",
        help="Labels are ratings on this scale, from low to high, such as 1,2,3,4,5: each is read as the class that it "
        "speaks for, by who gave it.",
    ),
    click.option(
        "--truth-classes",
        callback=_parse_labels,
        metavar="A,B,...",
        help="With --levels: the classes, from low to high, such as fail,pass.",
    ),
    click.option("--y", metavar="COLUMN", help="Clean label, for evaluation only.  [default: y if there is one]"),
    click.option(
        "--split", metavar="COLUMN", help="Column with train, valid or test.  [default: split if there is one]"
    ),
)
judging_options = compose(
    click.option(
        "--probs",
        metavar="PATH",
        help="Judge labels by your own classifier's probabilities for each item, instead of inputs: .npy, "
        ".npz with pred_probs, CSV or Parquet, with one column per class in sorted order. They should be out of "
        "sample: from a classifier not trained on the label it judges.",
    ),
    click.option("--no-x", is_flag=True, help="Judge labels by each other and by PI alone, without inputs."),
)
training_options = compose(
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
        type=PATH,
        help="Secret key of the pseudonyms; created if missing.  [default: .pidual.key beside TABLE]",
    ),
)
