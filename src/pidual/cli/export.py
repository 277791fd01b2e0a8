"""`pidual export`: the labels of a run, corrected, in the form they came in."""

import json
from pathlib import Path

import click

from ..errors import UsageError


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path), required=False)
@click.option(
    "--to",
    required=True,
    type=click.Choice(["csv", "parquet", "jsonl", "label-studio"]),
    help="csv, parquet, jsonl: the table with wrong labels corrected; label-studio: tasks to look at again.",
)
@click.option(
    "--sure",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="P",
    help="Change labels only where the consensus is at least this likely.",
)
@click.option("--table", type=click.Path(path_type=Path), help="Where the table is.  [default: where the run read it]")
@click.option("--force", is_flag=True, help="Replace OUT.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export(run: Path, out: Path | None, to: str, sure: float, table: Path | None, force: bool, as_json: bool) -> None:
    """Write the table of a RUN to OUT with the labels that look wrong replaced by the consensus.

    OUT is NAME.clean.csv by default, where NAME is that of the table.
    A table in the format it came in (CSV, Parquet, JSON Lines) keeps its rows, order, columns, ids and spelling, and
    differs in the changed labels alone, in CSV and JSON Lines byte for byte. A file .changes.csv beside OUT lists them
    with the old label and why. OUT has ids of people as the table has them.
    """
    from ..export import changes_path, export_run
    from ..run import Run

    opened = Run.open(run)
    name = Path(opened.config["data"]["table"]).name.split(".")[0]
    out = out or Path(f"{name}.tasks.json" if to == "label-studio" else f"{name}.clean.{to}")
    for path in (out, *([] if to == "label-studio" else [changes_path(out)])):
        if path.exists() and not force:
            raise UsageError(f"{path} exists; choose another name, or replace it with --force.")
    changes = export_run(opened, out, to, sure=sure, table=table)
    n_issues = int(opened.summary["n_issues"])
    if as_json:
        listed = None if to == "label-studio" else str(changes_path(out))
        click.echo(json.dumps({"out": str(out), "changes": listed, "n_changed": len(changes), "n_issues": n_issues}))
    elif to == "label-studio":
        click.echo(f"{out}: a task for each of {len(opened.items):,} items, doubtful ones first")
    else:
        click.echo(
            f"{out}: {len(changes):,} of {n_issues:,} labels that look wrong changed\n{changes_path(out)}: which"
        )
