"""`pidual data check` and `pidual data relabel`."""

import json
from pathlib import Path

import click

from ..errors import DataError
from .common import terminal_progress


@click.group()
def data() -> None:
    """Check the datasets of the benchmarks, and make the one that is not published."""


DATA_FOLDER = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("data"),
    envvar="PIDUAL_DATA",
    show_default=True,
    show_envvar=True,
    metavar="DIR",
    help="Where the datasets lie in their authors' file formats.",
)


@data.command()
@click.argument("name")
@DATA_FOLDER
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def check(name: str, folder: Path, as_json: bool) -> None:
    """Check the files of the dataset NAME, or of all: are they there, whole, aligned and as noisy as published?

    One line per check: ok, note (it can be used, though not all of it is there), missing or wrong. Exits with 1 if
    anything is missing or wrong.
    """
    from ..datasets import DATASETS
    from ..paper.datasets.check import check_dataset

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
@click.option("--seed", type=int, default=0, show_default=True, help="Of the annotators and of their answers.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def relabel(name: str, folder: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Relabel a clean dataset with imperfect annotators, the way ImageNet-PI was made.

    cifar10_pi: trains 16 small CNNs on the CIFAR-10 training images in DIR and writes DIR/cifar-10-pi; minutes on one
    core for 10,000 images.
    """
    from ..paper.datasets.cifar10_pi import make_cifar10_pi

    with terminal_progress(quiet) as progress:
        made = make_cifar10_pi(folder, seed=seed, note=progress.note)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    levels = " and ".join(f"{level['noise']:.1%}" for level in made["levels"].values())
    least = min(row["accuracy"] for row in made["annotators"])
    click.echo(
        f"{made['n_images']:,} images relabelled by {len(made['annotators'])} annotators, each right about at least "
        f"{least:.1%} of them; {levels} of the labels are wrong. Check them with `pidual data check {name}`."
    )
