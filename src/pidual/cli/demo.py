"""`pidual demo`."""

import json
from pathlib import Path

import click

from .common import terminal_progress
from .options import PATH, json_option, quiet_option


@click.command()
@click.option(
    "--out",
    type=PATH,
    default=Path("runs/demo"),
    show_default=True,
    help="Directory of the runs.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@json_option("Print the results as JSON.")
@quiet_option
def demo(out: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Show the main job on data that comes with the package.

    The data are handwritten digits, relabelled by 16 imperfect annotators.
    """
    from .digits_demo import run_demo

    with terminal_progress(quiet) as progress:
        rows, shown = run_demo(out, seed=seed, progress=progress)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Column, Table

    view = Table(
        *(Column(name, no_wrap=True) for name in ("dataset", "wrong", "method", "accuracy", "AUC", "gate AUC", "time"))
    )
    for row in rows:
        gate = "" if row["gate_auc"] is None else f"{row['gate_auc']:.3f}"
        view.add_row(
            row["dataset"],
            f"{row['noise_rate']:.1%}",
            row["method"],
            f"{row['test_accuracy']:.1%}",
            f"{row['detection_auc']:.3f}",
            gate,
            f"{row['seconds']:.0f} s",
        )
    Console().print(view)
    click.echo(f"Report: {shown}")
