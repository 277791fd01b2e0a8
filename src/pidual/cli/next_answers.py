"""`pidual next`: which items to ask about again, and whom."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import check_ending, put_table, say
from .options import PATH, key_option, run_argument, table_option

if TYPE_CHECKING:
    import pandas as pd

    from ..api.run import Run


@click.command("next")
@run_argument
@click.option("--budget", required=True, type=click.IntRange(min=1), metavar="N", help="Number of answers to ask for.")
@click.option(
    "--per-annotator", type=click.IntRange(min=1), metavar="N", help="Largest number of answers from one annotator."
)
@click.option(
    "--out",
    type=PATH,
    help="CSV or Parquet file, or .json for tasks of Label Studio.  [default: CSV on stdout]",
)
@click.option("--names", is_flag=True, help="Name annotators by their real ids; needs the table and the key.")
@table_option
@key_option
def next_answers(
    run: Path,
    budget: int,
    per_annotator: int | None,
    out: Path | None,
    names: bool,
    table: Path | None,
    key_file: Path | None,
) -> None:
    """List the items of a RUN where one more answer helps most.

    The list also names the annotator to ask. The value of an answer is how much it is expected to reduce the error of
    the item's posterior (the Brier score that the posterior expects of itself), given how often the annotator is right
    on each class. Nobody is asked twice about an item. Tasks for Label Studio
    have the same items in the same order, with the annotator to ask in pidual_ask; they need the table of the run.
    """
    from ..api.run import Run

    check_ending(out, (".csv", ".parquet", ".json"))
    opened = Run.open(run)
    listed = opened.next_answers(budget, per_annotator=per_annotator)
    if names and "annotator" in listed:
        known = _real_names(opened, table, key_file)
        listed["annotator"] = [known.get(str(name), name) for name in listed["annotator"]]
    if out is not None and out.suffix == ".json":
        _write_tasks(opened, listed, out, table)
    else:
        put_table(listed, out)
    error = 1 - float((opened.items["consensus_quality"]).mean())
    say(f"{len(listed):,} of {len(opened.items):,} items; {error:.1%} of the consensus is expected to be wrong now.")


def _real_names(run: "Run", table: Path | None, key_file: Path | None) -> dict[str, str]:
    """Return real ids by the names that the run has."""
    from ..show.table import names_of_annotators, open_table

    known = names_of_annotators(*open_table(run, table), key_file)
    here = set() if run.annotators is None else set(run.annotators["annotator"].astype(str))
    return {name: real for name, real in known.items() if name in here}


def _write_tasks(run: "Run", listed: "pd.DataFrame", out: Path, table: Path | None) -> None:
    """Write tasks for Label Studio, in the order of the list."""
    from ..show.export import label_studio, open_table

    asked = {}
    if "annotator" in listed:
        asked["pidual_ask"] = [None if name != name else str(name) for name in listed["annotator"].astype(object)]
    items = listed["item"].astype(str).tolist()
    label_studio.write_tasks(run, *open_table(run, table), out, only=items, more=asked)
