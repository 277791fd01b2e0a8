"""`pidual data import`, `pidual data pull`, `pidual data check` and `pidual data relabel`."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, UsageError
from .common import check_ending, terminal_progress, write_table, writing_file
from .options import PATH, PLACE, annotators_option, format_option, json_option, quiet_option, server_options, unquoted

if TYPE_CHECKING:
    import pandas as pd


@click.group()
def data() -> None:
    """Import labels from other tools; check or make datasets of the benchmarks."""


DATA_FOLDER = click.option(
    "--data",
    "folder",
    type=PATH,
    default=Path("data"),
    envvar="PIDUAL_DATA",
    show_default=True,
    show_envvar=True,
    metavar="DIR",
    help="Folder of the datasets, in their authors' file formats.",
)


@data.command("import")
@click.argument("table", metavar="SOURCE", type=PLACE)
@click.argument("out", type=PATH)
@format_option
@annotators_option
@click.option("--label", metavar="NAME", help="Control or question that gives the label, where there are several.")
@click.option("--item", metavar="COLUMN", help="Column that names the item.  [default: item or task]")
@click.option("--annotator", metavar="COLUMN", help="Column of the annotator.  [default: as for `pidual fit`]")
@click.option("--keep-ids", is_flag=True, help="Keep the ids of people instead of replacing them by pseudonyms.")
@click.option(
    "--key-file",
    type=PATH,
    help="Secret key of the pseudonyms, made if there is none.  [default: .pidual.key beside SOURCE]",
)
@click.option("--force", is_flag=True, help="Replace OUT.")
@json_option("Print a summary as JSON.")
def import_(
    table: Path | str,
    out: Path,
    format: str | None,
    annotators: list[str] | None,
    label: str | None,
    item: str | None,
    annotator: str | None,
    keep_ids: bool,
    key_file: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the labels in SOURCE to OUT (.csv or .parquet), one row per answer.

    SOURCE is an export of Label Studio (JSON, JSON_MIN, CSV), Argilla, doccano, Prodigy or Potato, a dataset of Hugging
    Face, a table with one column per annotator (--annotators), or any table that `pidual fit` reads. OUT has the
    columns item, label and annotator, further information about an answer (seconds, changes, interactions, trial,
    hour, pre_annotated), clean labels as y, and the fields of the items. The command prints how to fit OUT.
    """
    import functools

    from ..data import key_path, load_key, long_frame, open_source

    check_ending(out)
    if out.exists() and not force:
        raise UsageError(f"{out} exists; choose another name, or replace it with --force.")
    listed = [unquoted(part)[0] for part in annotators or []]
    opened = open_source(table, format=format, label=label, annotators=listed)
    key = functools.cache(lambda: load_key(key_file or key_path(table)))
    frame = long_frame(opened, None if keep_ids else key, item=item, label=label, annotator=annotator)
    write_table(frame, out)
    made = describe(frame, opened.guess, out)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    parts = {"answers": "rows", "items": "items", "annotators": "annotators", "classes": "classes", "clean": "clean"}
    counts = ", ".join(f"{what} {made[key]:,}" for what, key in parts.items() if made[key])
    click.echo(f"{out}: {counts}\nNext: {made['next']}")


def describe(frame: "pd.DataFrame", guess: Any, out: Path) -> dict[str, Any]:
    """Describe what an imported table holds, and the command that fits it."""
    pi = [name for name in (guess.pi if guess else None) or [] if name in frame]
    words = ["pidual", "fit", str(out)]
    if guess and guess.columns:
        words += ["--x-columns", guess.columns[0].rpartition("_")[0] + "_*"]
    elif guess and guess.text:
        words += ["--x-text", guess.text]
    else:
        words += ["--item", guess.image] if guess and guess.image else []
        words += ["--x", "..."]
    words += ["--pi", ",".join(pi)] if pi and pi != ["annotator"] else []
    return {
        "out": str(out),
        "rows": len(frame),
        "items": int(frame["item"].nunique()),
        "annotators": int(frame["annotator"].nunique()) if "annotator" in frame else 0,
        "classes": int(frame["label"].nunique()),
        "clean": int(frame.loc[frame["y"].notna(), "item"].nunique()) if "y" in frame else 0,
        "next": shlex.join(words),
    }


@data.command()
@click.argument("url")
@server_options
@click.option("--out", type=PATH, required=True, help="JSON file to write.")
@click.option("--force", is_flag=True, help="Replace OUT.")
def pull(url: str, project: int | None, out: Path, api_key_file: Path | None, force: bool) -> None:
    """Write the tasks and annotations of a project of Label Studio to OUT.

    URL is the address of the server, such as https://label.example.org. OUT is what Label Studio exports as JSON, and
    names people as it does. After a fit, `pidual export RUN --to label-studio --push URL` writes predictions and
    decisions to the same tasks. Needs `pip install 'pidual[label-studio]'`.
    """
    from ..data.exports.label_studio import connected, read_key
    from ..files import replacing

    if project is None or out.suffix != ".json":
        raise UsageError("Say which project with --project N, its number in /projects/N, and let OUT end in .json.")
    if out.exists() and not force:
        raise UsageError(f"{out} exists; choose another name, or replace it with --force.")
    with connected(url, project, read_key(api_key_file)) as (_, content):
        tasks = json.loads(content)
    with writing_file(out), replacing(out) as temporary:
        temporary.write_bytes(content)
    n_answers = sum(len(task["annotations"]) for task in tasks)
    click.echo(f"{out}: {len(tasks):,} tasks with {n_answers:,} annotations\nNext: pidual fit {shlex.quote(str(out))}")


@data.command()
@click.argument("name")
@DATA_FOLDER
@json_option()
def check(name: str, folder: Path, as_json: bool) -> None:
    """Verify the files of the dataset NAME, or of all datasets.

    Checks that files are present, complete, aligned with the images and as noisy as published. Prints one line per
    check: ok, note (usable, but incomplete), missing or wrong. Exits with 1 if anything is missing or wrong.
    """
    from ..data.datasets import DATASETS
    from ..data.datasets.check import check_dataset

    done = {key: check_dataset(key, folder) for key in (DATASETS if name == "all" else [name])}
    failed = {key: sum(each.status in ("missing", "wrong") for each in checks) for key, checks in done.items()}
    if as_json:
        rows = [
            {"dataset": key, "ok": not failed[key], "checks": [vars(each) for each in checks]}
            for key, checks in done.items()
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        for key, checks in done.items():
            for each in checks:
                click.echo(f"{each.status:8}{key}: {each.what}: {each.detail}")
    unusable = {key: n for key, n in failed.items() if n}
    if unusable:
        counts = ", ".join(f"{key} ({n} of {len(done[key])} checks)" for key, n in unusable.items())
        raise DataError(f"missing or wrong in {folder}: {counts}.")


@data.command()
@click.argument("name", type=click.Choice(["cifar10_pi"]))
@DATA_FOLDER
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the annotators and their answers.")
@json_option("Print a summary as JSON.")
@quiet_option
def relabel(name: str, folder: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Relabel a clean dataset with imperfect annotators, as ImageNet-PI was made.

    cifar10_pi: train 16 small CNNs on the CIFAR-10 training images in DIR and write DIR/cifar-10-pi; this takes minutes
    on one core for 10,000 images.
    """
    from ..paper.make_cifar10_pi import make_cifar10_pi

    with terminal_progress(quiet) as progress:
        made = make_cifar10_pi(folder, seed=seed, note=progress.note)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    levels = " and ".join(f"{level['noise']:.1%}" for level in made["levels"].values())
    least = min(row["accuracy"] for row in made["annotators"])
    click.echo(
        f"{made['n_images']:,} images relabelled by {len(made['annotators'])} annotators, each right on at least "
        f"{least:.1%} of them; {levels} of the labels are wrong. Check them with `pidual data check {name}`."
    )
