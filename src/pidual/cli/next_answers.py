"""`pidual next`: which items to ask about again, and whom."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .common import check_ending, put_table, say
from .options import PATH, key_option, run_argument, table_option

if TYPE_CHECKING:
    import pandas as pd

    from ..api.run import Run


@click.command("next")
@run_argument
@click.option(
    "--budget",
    required=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Number of answers to ask for; with --cost, the amount to spend on them.",
)
@click.option(
    "--per-annotator", type=click.IntRange(min=1), metavar="N", help="Largest number of answers from one annotator."
)
@click.option(
    "--cost",
    type=PATH,
    metavar="FILE",
    help="Table with the cost of an answer: columns annotator and cost. Name annotators by their pseudonyms, or by "
    "their real ids, which need the table and the key of the pseudonyms.",
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
    budget: float,
    per_annotator: int | None,
    cost: Path | None,
    out: Path | None,
    names: bool,
    table: Path | None,
    key_file: Path | None,
) -> None:
    """List the items of a RUN where one more answer helps most.

    The list also names the annotator to ask. The value of an answer is how much it is expected to reduce the error of
    the item's posterior (the Brier score that the posterior expects of itself), given how often the annotator is right
    on each class; with --cost, this reduction per cost. Nobody is asked twice about an item. Tasks for Label Studio
    have the same items in the same order, with the annotator to ask in pidual_ask; they need the table of the run.
    """
    from ..api.run import Run

    check_ending(out, (".csv", ".parquet", ".json"))
    opened = Run.open(run)
    prices = None if cost is None else read_costs(opened, cost, table, key_file)
    listed = opened.next_answers(budget, per_annotator=per_annotator, cost=prices)
    if names and "annotator" in listed:
        known = real_names(opened, table, key_file)
        listed["annotator"] = [known.get(str(name), name) for name in listed["annotator"]]
    if out is not None and out.suffix == ".json":
        write_tasks(opened, listed, out, table)
    else:
        put_table(listed, out)
    error = 1 - float((opened.items["consensus_quality"]).mean())
    spent = "" if cost is None else f" for {listed['cost'].sum():,.6g}"
    say(
        f"{len(listed):,} of {len(opened.items):,} items{spent}; {error:.1%} of the consensus is expected to be wrong "
        "now."
    )


def read_costs(run: "Run", path: Path, table: Path | None, key_file: Path | None) -> dict[str, float]:
    """Read what an answer of each annotator costs, by the name that the run has."""
    import pandas as pd

    from ..data import as_text, keys, open_source

    source = open_source(path)
    who, price = source.find("annotator", "worker", "annotator_id"), source.find("cost", "price")
    if who is None or price is None:
        raise UsageError(f"{path} has no column '{'annotator' if who is None else 'cost'}'; give annotator and cost.")
    columns = source.read([who, price])
    found = keys(source, who, columns[who])
    ids = as_text(found.names).to_pylist()
    costs = pd.to_numeric(pd.Series(columns[price].to_pandas()), errors="coerce")
    wrong = costs.isna().to_numpy().nonzero()[0]
    if len(wrong):
        raise UsageError(f"{path}, row {wrong[0] + 1}: the cost is not a number; correct it.")
    given = {ids[code]: float(value) for code, value in zip(found.codes, costs, strict=True) if code >= 0}
    here = set() if run.annotators is None else set(run.annotators["annotator"].astype(str))
    if set(given) <= here:
        return given
    own = {real: name for name, real in real_names(run, table, key_file).items()}
    return {name if name in here else own.get(name, name): value for name, value in given.items()}


def real_names(run: "Run", table: Path | None, key_file: Path | None) -> dict[str, str]:
    """Real ids by the names that the run has."""
    from ..show.table import names_of_annotators, open_table

    known = names_of_annotators(*open_table(run, table), key_file)
    here = set() if run.annotators is None else set(run.annotators["annotator"].astype(str))
    return {name: real for name, real in known.items() if name in here}


def write_tasks(run: "Run", listed: "pd.DataFrame", out: Path, table: Path | None) -> None:
    """Write tasks for Label Studio, in the order of the list."""
    from ..show.export import label_studio, open_table

    asked = {}
    if "annotator" in listed:
        asked["pidual_ask"] = [None if name != name else str(name) for name in listed["annotator"].astype(object)]
    items = listed["item"].astype(str).tolist()
    label_studio.write_tasks(run, *open_table(run, table), out, only=items, more=asked)
