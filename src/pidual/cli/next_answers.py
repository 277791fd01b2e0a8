"""`pidual next`: which items to ask about again, and whom, or which to have checked."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .common import check_ending, next_name, put_table, say
from .options import PATH, key_option, run_argument, table_option

if TYPE_CHECKING:
    import pandas as pd

    from ..api.run import Run


@click.command("next")
@run_argument
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="Number of answers to ask for.")
@click.option(
    "--gold",
    type=click.IntRange(min=1),
    metavar="N",
    help="Instead: list N items to have checked, in a table to fill in for `pidual fit ... --truth FILE`.",
)
@click.option(
    "--per-annotator", type=click.IntRange(min=1), metavar="N", help="Largest number of answers from one annotator."
)
@click.option(
    "--out", type=PATH, help="CSV or Parquet file, or .json for tasks of Label Studio.  [default: CSV on stdout]"
)
@click.option("--names", is_flag=True, help="Name annotators by their real ids; needs the table and the key.")
@table_option
@key_option
def next_answers(
    run: Path,
    budget: int | None,
    gold: int | None,
    per_annotator: int | None,
    out: Path | None,
    names: bool,
    table: Path | None,
    key_file: Path | None,
) -> None:
    """List items of a RUN where one more answer helps most, or items to have checked.

    With --budget, the list also names the annotator to ask. The value of an answer is how much it is expected to reduce
    the error of the item's posterior (the Brier score that the posterior expects of itself), given how often the
    annotator is right on each class. Nobody is asked twice about an item. Tasks for Label Studio have the same items in
    the same order, with the annotator to ask in pidual_ask; they need the table of the run.

    With --gold, items are spread over what the consensus states, and still a random sample. Those whose class is known
    are left out. Somebody you trust writes the class into the column truth, or nothing where nobody can tell.
    """
    from ..api.run import Run

    if (budget is None) == (gold is None):
        raise UsageError("Pass either --budget N, to ask for more answers, or --gold N, to have items checked.")
    if gold is not None:
        if per_annotator or names or table or key_file:
            raise UsageError("--per-annotator, --names, --table and --key-file are for --budget; leave them out.")
        check_ending(out)
        _list_gold(Run.open(run), gold, out)
        return
    assert budget is not None
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


def _list_gold(run: "Run", n: int, out: Path | None) -> None:
    """List items to have checked, and say what to expect of them and how to go on."""
    from ..detect.gold import LEAST_GOLD
    from ..detect.next_gold import expected_widths, known_items
    from ..run.decisions import read_decisions

    listed = run.next_gold(n)
    put_table(listed, out)
    say(
        f"{len(listed):,} of {len(run.items):,} items, for somebody you trust to fill in the column truth; leave it "
        "empty where nobody can tell."
    )
    if (n_known := len(known_items(run)) + len(listed)) < LEAST_GOLD:
        say(f"From {LEAST_GOLD} checked items on, they correct what is stated of all: have more checked.")
    else:
        widths = expected_widths(run, n_known).items()
        expected = ", ".join(f"±{100 * width:.1f} points for {name}" for name, width in widths)
        say(f"With {n_known:,} checked items, expect 95% intervals of about {expected}.")
    source, file = run.config.source, "FILE" if out is None else shlex.quote(str(out))
    merge = f", with the rows of {source.truth} in {file}, too" if source.truth else ""
    fit = "pidual fit ..."
    if len(read_decisions(run)):
        fit = f"pidual fit --from {shlex.quote(str(run.path))}"
    elif source.command is not None and source.before is None:
        command = re.sub(r""" --(out|truth)[ =]('[^']*'|"[^"]*"|\S)+""", "", source.command)
        fit = f"{command} --out {shlex.quote(str(next_name(run.path)))}"
    say(f"Then{merge}: {fit} --truth {file}")


def _real_names(run: "Run", table: Path | None, key_file: Path | None) -> dict[str, str]:
    from ..show.table import names_of_annotators, open_table

    known = names_of_annotators(*open_table(run, table), key_file)
    here = set() if run.annotators is None else set(run.annotators["annotator"].astype(str))
    return {name: real for name, real in known.items() if name in here}


def _write_tasks(run: "Run", listed: "pd.DataFrame", out: Path, table: Path | None) -> None:
    """Write tasks for Label Studio, in the order of the list."""
    from ..show.export import label_studio, open_table

    asked: dict[str, list[Any]] = {}
    if "annotator" in listed:
        asked["pidual_ask"] = [None if name != name else str(name) for name in listed["annotator"].astype(object)]
    items = listed["item"].astype(str).tolist()
    if run.summary.label_sets is not None:
        pairs = run.predictions.frame.drop_duplicates("item").set_index("item").loc[items]
        items, asked["pidual_ask_about"] = pairs["tagged_item"].astype(str).tolist(), pairs["tag"].astype(str).tolist()
    label_studio.write_tasks(label_studio.tasks_of(run, open_table(run, table), items, asked), out)
