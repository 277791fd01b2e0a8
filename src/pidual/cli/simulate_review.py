"""`pidual simulate-review`: how many wrong labels a review in our order would find, where clean labels are known."""

from pathlib import Path

import click

from .common import check_ending, put_table
from .options import out_option, run_argument


@click.command("simulate-review")
@run_argument
@out_option
def simulate_review(run: Path, out: Path | None) -> None:
    """Count the wrong labels that a review of a RUN would find.

    Needs data with clean labels (fit --y). Prints the number of wrong labels among the first n: in our order, by the
    classifier's probability of the given label, which is cleanlab's default ranking, at random, and the largest
    possible number; then the share of right labels after those found have been corrected.
    """
    from ..api.run import Run

    check_ending(out)
    put_table(Run.open(run).simulate_review(), out)
