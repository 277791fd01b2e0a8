"""`pidual detect` and `pidual report`: what a run found."""

import contextlib
import json
from pathlib import Path
from typing import Any

import click

from ..errors import TooManyIssues, UsageError
from .common import check_ending, print_table, write_table


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--cutoff", default=None, metavar="auto|NUMBER", help="Labels of lower quality are issues.  [default: auto]"
)
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="The N most suspicious labels are issues.")
@click.option(
    "--fail-over", metavar="PERCENT", help="Exit with 3 when more than this share of the labels are issues, such as 5%."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="CSV or Parquet file for the issues; in CSV, text that a spreadsheet would calculate, such as =1+1, has an "
    "apostrophe before it, which pidual takes off again.  [default: CSV on stdout]",
)
@click.option("--json", "as_json", is_flag=True, help="Print counts and cut-off as JSON instead of the issues.")
def detect(
    run: Path, cutoff: str | None, budget: int | None, fail_over: str | None, out: Path | None, as_json: bool
) -> None:
    """List the labels of a RUN that look wrong, most suspicious first; the report is updated to match."""
    from ..run import Run

    if cutoff is not None and budget is not None:
        raise UsageError("Give --cutoff or --budget, not both.")
    check_ending(out)
    limit = parse_share(fail_over) if fail_over is not None else None
    opened = Run.open(run)
    issues = opened.detect(parse_cutoff(cutoff), budget)
    chosen, n = opened.summary["cutoff"], opened.config["data"]["n_rows"]
    if out is not None:
        write_table(issues, out)
    if as_json:
        click.echo(
            json.dumps({"n_issues": len(issues), "n_rows": n, "share": len(issues) / n, "cutoff": chosen}, indent=2)
        )
    elif out is None:
        print_table(issues)
    if limit is not None and len(issues) / n > limit:
        raise TooManyIssues(
            f"{len(issues):,} of {n:,} labels look wrong ({len(issues) / n:.1%}), more than the {limit:.1%} allowed."
        )


def parse_cutoff(text: str | None) -> Any:
    """auto, or a number between 0 and 1."""
    if text is None or text == "auto":
        return "auto"
    with contextlib.suppress(ValueError):
        return float(text)
    raise UsageError(f"--cutoff takes auto or a number between 0 and 1, not '{text}'.")


def parse_share(text: str) -> float:
    """5% or 0.05."""
    with contextlib.suppress(ValueError):
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        if 0 <= share <= 1:
            return share
    raise UsageError(f"--fail-over takes a share such as 5% or 0.05, not '{text}'.")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
def report(run: Path) -> None:
    """Build the report of a RUN again and print its path."""
    from ..run import Run

    opened = Run.open(run)
    with opened.writing("report.html"):
        click.echo(opened.report())
