"""`pidual next`: which items to ask about again, and whom."""

from pathlib import Path

import click

from .common import check_ending, print_table, say, write_table


@click.command("next")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--budget", required=True, type=click.IntRange(min=1), metavar="N", help="Number of answers you can ask for."
)
@click.option("--per-annotator", type=click.IntRange(min=1), metavar="N", help="Most answers to ask of one annotator.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="CSV or Parquet file, or .json for tasks of Label Studio.  [default: CSV on stdout]",
)
@click.option("--table", type=click.Path(path_type=Path), help="Path of the table.  [default: where the run read it]")
def next_answers(run: Path, budget: int, per_annotator: int | None, out: Path | None, table: Path | None) -> None:
    """List the items of a RUN where one more answer is worth most, and who should give it.

    An answer is worth as much as it is expected to lower the error of the item's posterior (the Brier score that it
    expects of itself), given how often the annotator is right on each class. Nobody is asked twice about an item.
    Tasks for Label Studio hold the same items in the same order; they need the table of the run.
    """
    from ..run import Run

    check_ending(out, (".csv", ".parquet", ".json"))
    opened = Run.open(run)
    listed = opened.next_answers(budget, per_annotator=per_annotator)
    if out is None:
        print_table(listed)
    elif out.suffix == ".json":
        from ..export import open_table
        from ..export.label_studio import write_tasks

        write_tasks(opened, *open_table(opened, table), out, only=listed["item"].astype(str).tolist())
    else:
        write_table(listed, out)
    error = 1 - float((opened.items["consensus_quality"]).mean())
    say(f"{len(listed):,} of {len(opened.items):,} items; {error:.1%} of the consensus is expected to be wrong now.")
