"""`pidual annotators`: what a run says about each annotator."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..errors.messages import printable
from .common import check_ending, is_terminal, put_table
from .options import key_option, out_option, run_argument, table_option

if TYPE_CHECKING:
    import pandas as pd

SHORT = ("quality", "num_labelled", "num_issues", "harm", "worst_class", "worst_confusion")  # shown on a terminal


@click.command()
@run_argument
@click.option(
    "--names", is_flag=True, help="Add a column with the real ids; needs the table and the key of the pseudonyms."
)
@click.option(
    "--gold", is_flag=True, help="Print accuracy, kappa and, by class, sensitivity and specificity by --truth."
)
@click.option(
    "--order",
    metavar="COLUMN",
    help="Compare answers to one item in two orders, by this PI column; one called order or position is found.",
)
@table_option
@key_option
@out_option
def annotators(
    run: Path, names: bool, gold: bool, order: str | None, table: Path | None, key_file: Path | None, out: Path | None
) -> None:
    """Print the table of annotators of a RUN (annotators.parquet).

    A terminal gets a few of its columns, a file or a pipe all of them as CSV. With --names, the table has a column with
    the real ids: keep that file private.
    """
    from ..api.run import Run

    check_ending(out)
    opened = Run.open(run)
    frame = opened.annotators
    if frame is None or not len(frame):
        raise UsageError(f"{run} has no information about who gave the labels.")
    if order is not None:
        from ..detect.judges import add_orders

        if order not in (columns := opened.predictions.pi_columns):
            raise UsageError(f"{run} has no PI column '{order}'; it has {', '.join(columns) or 'none'}.")
        frame = add_orders(frame, opened.predictions, order)
        if "order_pairs" not in frame:
            raise UsageError(f"In {run} nobody answered an item with two values of '{order}'.")
    if gold:
        frame = _by_gold(frame, opened.annotator_classes, run)
    if names:
        from ..show.table import names_of_annotators, open_table

        known = names_of_annotators(*open_table(opened, table), key_file)
        ids = frame["annotator"].astype(str)
        lost = [name for name in ids if name not in known]
        if lost:
            raise UsageError(
                f"the key does not fit: {len(lost)} of {len(ids)} pseudonyms of {run} match nobody in the table; name "
                "the key that the run was made with with --key-file."
            )
        frame = frame.assign(annotator=ids)
        frame.insert(1, "name", [known[name] for name in ids])
    if out is None and is_terminal(sys.stdout):
        shown = [name for name in frame if str(name).startswith("order_")] if order is not None else SHORT
        click.echo("\n".join(_aligned(frame, None if gold else ("annotator", "name", *shown))))
    else:
        put_table(frame, out)


def _aligned(frame: "pd.DataFrame", shown: Any) -> list[str]:
    """Return lines of some columns (None: all), each number with its interval."""
    frame = frame.rename(columns={"annotator_quality": "quality"})
    ends = {f"{name}_{end}" for name in frame for end in ("low", "high")} & {*frame}
    names = [str(name) for name in frame if name not in ends and (shown is None or name in shown)]
    columns = [[name, *_cells(frame, name)] for name in names]
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(frame: "pd.DataFrame", name: str) -> list[str]:
    """Return the values of a column as text, with the interval where it has one."""

    def text(value: Any) -> str:
        if value is None or value != value:
            return ""
        if isinstance(value, float):
            return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
        return printable(str(value))

    values = [text(value) for value in frame[name].tolist()]
    if f"{name}_low" not in frame:
        return values
    ends = zip(*(map(text, frame[f"{name}_{end}"].tolist()) for end in ("low", "high")), strict=True)
    return [f"{value} ({low} to {high})" if value else "" for value, (low, high) in zip(values, ends, strict=True)]


def _by_gold(frame: "pd.DataFrame", by_class: "pd.DataFrame | None", run: Path) -> "pd.DataFrame":
    """Return what items of known class say, a row for each annotator and class."""
    if by_class is None or "gold_kappa" not in frame:
        raise UsageError(f"{run} knows too few classes of items; fit with --truth FILE, of at least 20 items.")
    accuracy = {"annotator_quality": "accuracy", "quality_low": "accuracy_low", "quality_high": "accuracy_high"}
    kept = [name for name in frame if name in ("annotator", *accuracy) or str(name).startswith("gold_")]
    of_class = [name for name in by_class if name in ("annotator", "true_class") or str(name).startswith("gold_")]
    found = frame[kept].rename(columns=accuracy).merge(by_class[of_class].astype({"annotator": str}), on="annotator")
    return found.rename(columns=lambda name: name.removeprefix("gold_"))
