"""`pidual judge`."""

import json
from pathlib import Path
from typing import Any

import click

from ..errors import RunError, TooManyIssues, UsageError
from .common import check_ending, embedding_progress, print_table, said_warnings, say, write_table
from .detect import DIGITS
from .options import PATH, embed_option, json_option, parse_number, quiet_option, run_argument, table_argument


@click.command()
@run_argument
@table_argument
@click.option("--x", metavar="PATH", help="Inputs of the answers, made as those of the RUN.")
@click.option("--probs", metavar="PATH", help="Probabilities by your classifier, for a RUN that was fitted with some.")
@click.option("--no-x", is_flag=True, help="There are no inputs, as in the RUN; it need not be said.")
@embed_option
@click.option("--item", metavar="COLUMN", help="Column that names the item.  [default: as in the RUN]")
@click.option("--label", metavar="COLUMN", help="Column of the given label.  [default: as in the RUN]")
@click.option("--annotator", metavar="COLUMN", help="Column of the annotator.  [default: as in the RUN]")
@click.option(
    "--key-file",
    type=PATH,
    help="Key of the pseudonyms of the RUN.  [default: that of the RUN, or .pidual.key beside TABLE]",
)
@click.option(
    "--fail-over",
    metavar="PERCENT",
    help="Exit with 3 if more than this share of the labels, such as 5%, look wrong, and with 1 if the fit failed.",
)
@click.option("--out", type=PATH, help="CSV, Parquet or JSON file for the judged labels.  [default: CSV on stdout]")
@json_option("Print counts and estimates as JSON instead of the labels.")
@quiet_option
def judge(
    run: Path,
    table: Path | str,
    x: str | None,
    probs: str | None,
    no_x: bool,
    embed: str | None,
    item: str | None,
    label: str | None,
    annotator: str | None,
    key_file: Path | None,
    fail_over: str | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Judge the answers of TABLE by a RUN, without a new fit.

    The classifier, the annotators and the cut-off are those of the RUN; annotators it does not know count as everybody
    does there. TABLE has the PI columns of the RUN, and no label that the RUN does not know. What is said about an item
    depends on its own answers alone: parts of TABLE give the same rows, if all answers to an item are in one part.
    """
    check_ending(out, (".csv", ".parquet", ".json"))
    given = [name for name, value in (("--x", x), ("--probs", probs), ("--no-x", no_x)) if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be used together; give one of them.")
    limit = None
    if fail_over is not None:
        limit = parse_number(fail_over, "--fail-over takes a share such as 5% or 0.05", lambda n: 0 <= n <= 1)
    from ..api.run import Run
    from ..detect.totals import merge

    opened = Run.open(run)
    kind = opened.model.inputs.kind
    if given and (given[0] == "--probs") != (kind == "probabilities") and kind != "none":
        fitted = "--probs" if kind == "probabilities" else "inputs"
        raise UsageError(f"{run} was fitted with {fitted}, not with {given[0]}; judge answers in the same way.")
    verdict = opened.summary.verdict
    if verdict.status == "failed":
        failure = f"the fit in {run} failed, so nothing can be judged by it; fit again."
        if limit is not None:
            raise RunError(failure[0].upper() + failure[1:])
        say(f"Warning: {failure}")
    with said_warnings(), embedding_progress(quiet) as progress:
        how: dict[str, Any] = {"item": item, "label": label, "annotator": annotator, "key_file": key_file}
        judged = opened.judge(table, x or probs, **how, embed=embed, progress=progress)
    totals = merge(judged)
    n, noise, share = totals.n_rows, totals.noise, totals.n_issues / max(1, totals.n_rows)
    own = [name for name in judged if judged[name].dtype == "float32"]  # PI is as it was given
    plain = judged.astype(dict.fromkeys(own, "float64")).round(dict.fromkeys(own, DIGITS))
    if out is not None:
        write_table(plain if out.suffix == ".csv" else judged, out)
    if as_json:
        counts = {"n_rows": n, "n_items": totals.n_items, "n_issues": totals.n_issues, "share": share}
        about = {"noise": noise, "cutoff": opened.summary.cutoff, "verdict": verdict}
        click.echo(json.dumps(counts | {name: record.to_json() for name, record in about.items()}, indent=2))
    elif not quiet:
        say(
            f"{totals.n_issues:,} of {n:,} labels look wrong ({share:.1%}); an estimated {noise.rate:.1%} are "
            f"({noise.low:.1%} to {noise.high:.1%})."
        )
    if out is None and not as_json:
        print_table(plain)
    if limit is not None and share > limit:
        raise TooManyIssues(
            f"{totals.n_issues:,} of {n:,} labels look wrong ({share:.1%}), more than the {limit:.1%} allowed."
        )
