"""`pidual detect` and `pidual report`: what a run found."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import RunError, TooManyIssues, UsageError
from .common import check_ending, print_table, say, write_table

if TYPE_CHECKING:
    import pandas as pd

    from ..run import Run


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--cutoff",
    default=None,
    metavar="auto|NUMBER",
    help="List labels of lower quality for which another is suggested.  [default: auto, the labels that look wrong]",
)
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="List the N labels of lowest quality instead.")
@click.option(
    "--per-class",
    metavar="N|PERCENT",
    help="List the N labels of lowest quality of each given class, or such a share, instead: rare classes come too.",
)
@click.option("--class", "classes", multiple=True, metavar="NAME", help="List only labels that say this; repeatable.")
@click.option(
    "--annotator", "annotators", multiple=True, metavar="ID", help="List only labels by this one; repeatable."
)
@click.option(
    "--fail-over",
    metavar="PERCENT",
    help="Exit with 3 when more than this share of the labels look wrong, such as 5%, and with 1 when the fit failed.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="CSV, Parquet or JSON file for the labels; in CSV, text that a spreadsheet would calculate, such as =1+1, has "
    "an apostrophe before it, which pidual takes off again.  [default: CSV on stdout]",
)
@click.option("--json", "as_json", is_flag=True, help="Print counts and cut-off as JSON instead of the labels.")
def detect(
    run: Path,
    cutoff: str | None,
    budget: int | None,
    per_class: str | None,
    classes: tuple[str, ...],
    annotators: tuple[str, ...],
    fail_over: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """List the labels of a RUN that look wrong, most suspicious first, with the reasons; the run stays as it is."""
    from ..detect import Choice
    from ..run import Run

    check_ending(out, (".csv", ".parquet", ".json"))
    choice = Choice(parse_cutoff(cutoff), budget, parse_per_class(per_class), classes, annotators)
    limit = parse_share(fail_over) if fail_over is not None else None
    if limit is not None and choice != Choice(choice.cutoff):
        raise UsageError("--fail-over counts all labels that look wrong; leave out what lists others or some of them.")
    opened = Run.open(run)
    if limit is not None:
        refuse_failed(opened)
    listed = opened.list_labels(choice)
    if out is not None:
        write_table(listed, out)
    describe(opened, choice, listed, as_json=as_json)
    if out is None and not as_json:
        print_table(listed)
    n = opened.config["data"]["n_rows"]
    if limit is not None and len(listed) / n > limit:
        raise TooManyIssues(
            f"{len(listed):,} of {n:,} labels look wrong ({len(listed) / n:.1%}), more than the {limit:.1%} allowed."
        )


def refuse_failed(run: "Run") -> None:
    """Refuse to count what a failed fit found."""
    verdict, guard = run.summary.get("verdict") or {}, run.summary["guard"]
    if verdict.get("status") == "failed" or guard.get("collapsed"):
        why = [*verdict.get("reasons", []), "training collapsed"][0]
        raise RunError(
            f"The fit in {run.path} failed ({why.rstrip('.')}), so that nothing can be said of its labels; fit again."
        )


def describe(run: "Run", choice: Any, listed: "pd.DataFrame", *, as_json: bool) -> None:
    """Say how many labels are listed and how many of them are expected to be wrong."""
    from ..detect import expected_precision

    summary, n = run.summary, run.config["data"]["n_rows"]
    precision = expected_precision(listed["label_quality"], summary, choice)
    if as_json:
        found = {
            "n_listed": len(listed),
            "n_rows": n,
            "share": len(listed) / n,
            "expected_precision": precision,
            "n_issues": summary["n_issues"],
            "cutoff": summary.get("cutoff"),
            "verdict": summary.get("verdict"),
        }
        click.echo(json.dumps(found, indent=2))
        return
    verdict = summary.get("verdict") or {}
    if verdict.get("status", "ok") != "ok":
        say(f"Warning: the fit is {verdict['status']}: {' '.join(verdict.get('reasons', []))}")
    if precision is not None:
        labels = "label" if len(listed) == 1 else "labels"
        say(f"{len(listed):,} {labels} listed; about {precision:.0%} expected to be wrong.")


def parse_cutoff(text: str | None) -> float | None:
    """A number between 0 and 1; None for auto."""
    if text is None or text == "auto":
        return None
    with contextlib.suppress(ValueError):
        return float(text)
    raise UsageError(f"--cutoff takes auto or a number between 0 and 1, not '{text}'.")


def parse_per_class(text: str | None) -> float | None:
    """20, or 5%."""
    if text is None:
        return None
    with contextlib.suppress(ValueError):
        number = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        if 0 < number < 1 or (number >= 1 and number == int(number) and not text.endswith("%")):
            return number
    raise UsageError(f"--per-class takes a number of labels such as 20 or a share such as 5%, not '{text}'.")


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
