"""`pidual pairs`."""

import json
from pathlib import Path

import click

from ..errors import RunError, TooManyIssues
from .common import print_table, said_warnings, say, write_table
from .options import PATH, json_option, key_option, names, parse_number, table_argument

FILES = ("scores", "predictions", "annotators")


@click.command()
@table_argument
@click.option("--left", metavar="COLUMN", help="Column of the item shown first.  [default: left, model_a, text1, ...]")
@click.option("--right", metavar="COLUMN", help="Column of the other item.  [default: right, model_b, text2, ...]")
@click.option(
    "--label",
    metavar="COLUMN",
    help="Column of the answer: left, right or tie (also a, b, 1, 2, model_a, model_b), or the name of the better item."
    "  [default: winner, label or preference]",
)
@click.option("--annotator", metavar="COLUMN", help="Column of the annotator.  [default: as for `pidual fit`]")
@click.option("--pi", callback=names, metavar="A,B,...", help="Further columns that say how each answer was made.")
@click.option("--x", metavar="PATH", help="Inputs of the items, with their names: CSV or Parquet with a column item.")
@click.option("--x-text", "text", metavar="COLUMN", help="Use text as input: name of its column in --x.")
@click.option("--out", type=PATH, help="Folder for scores.csv, predictions.csv and annotators.csv.")
@click.option("--fail-over", metavar="PERCENT", help="Exit with 3 if more than this share of the answers look wrong.")
@click.option("--keep-ids", is_flag=True, help="Keep the ids of people instead of replacing them by pseudonyms.")
@key_option
@json_option("Print noise, pull of the left side and scores as JSON.")
def pairs(
    table: Path,
    left: str | None,
    right: str | None,
    label: str | None,
    annotator: str | None,
    pi: list[str] | None,
    x: str | None,
    text: str | None,
    out: Path | None,
    fail_over: str | None,
    keep_ids: bool,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Score items by comparisons of two at a time, and find answers that look wrong.

    TABLE has one comparison per row: two items, in the order they were shown, and which one is better.
    """
    limit = None
    if fail_over is not None:
        limit = parse_number(fail_over, "--fail-over takes a share such as 5% or 0.05", lambda n: 0 <= n <= 1)
    from ..api.pairs import NOT_CLEAR, judge_pairs
    from ..data import load_inputs
    from ..data.pairs import read_pairs

    with said_warnings():
        inputs = None if x is None else load_inputs(x, text=text)
        columns = {"left": left, "right": right, "label": label, "annotator": annotator}
        found = judge_pairs(read_pairs(table, **columns, pi=pi, keep_ids=keep_ids, key_file=key_file), inputs)
    n, pull, noise = len(found.predictions), found.order_pull, found.noise
    if found.verdict != "ok":
        say(f"This is {found.verdict}. {NOT_CLEAR}")
    who = "" if found.annotators is None else f" by {len(found.annotators):,} annotators"
    say(f"{n:,} answers about {len(found.scores):,} items{who}; {found.n_issues:,} look wrong.")
    say(f"{noise.rate:.1%} of the answers go against the better item ({noise.low:.1%} to {noise.high:.1%}).")
    more = "more" if pull[0] >= 0 else "less"
    say(
        f"The left side is preferred {abs(pull[0]) * 100:.1f} points {more} often than it deserves "
        f"({pull[1] * 100:.1f} to {pull[2] * 100:.1f})."
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if (frame := getattr(found, name)) is not None:
                write_table(frame, out / f"{name}.csv")
        say(f"Tables: {', '.join(f'{out / name}.csv' for name in FILES if getattr(found, name) is not None)}")
    if as_json:
        said = {"n_issues": found.n_issues, "n": n, "verdict": found.verdict, "noise": noise.to_json()}
        click.echo(json.dumps({**said, "order_pull": pull, "scores": found.scores.to_dict("records")}))
    elif out is None:
        print_table(found.scores.round(4))
    if limit is not None and found.verdict == "failed":
        raise RunError("The comparisons cannot be judged; see above.")
    if limit is not None and found.n_issues / n > limit:
        raise TooManyIssues(
            f"{found.n_issues:,} of {n:,} answers look wrong ({found.n_issues / n:.1%}), more than the {limit:.1%} "
            "allowed."
        )
