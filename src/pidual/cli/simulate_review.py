"""`pidual simulate-review`: how many wrong labels a review in our order would find, where clean labels are known."""

from pathlib import Path

import click

from .common import check_ending, print_table, write_table


@click.command("simulate-review")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="CSV or Parquet file.  [default: CSV on stdout]")
def simulate_review(run: Path, out: Path | None) -> None:
    """Count the wrong labels among the first that a RUN lists, on data whose clean labels are known (fit --y).

    Beside the number found in our order stand those found by the classifier's probability of the given label, which is
    how cleanlab ranks labels by default, and at random, and the largest number possible; then the share of labels that
    are right when those found have been corrected.
    """
    from ..run import Run

    check_ending(out)
    table = Run.open(run).simulate_review()
    if out is not None:
        write_table(table, out)
    else:
        print_table(table)
