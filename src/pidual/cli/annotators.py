"""`pidual annotators`: what a run says about each annotator."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .common import check_ending, put_table
from .options import key_option, out_option, run_argument, table_option

if TYPE_CHECKING:
    import pandas as pd


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

    With --names, the table has a column with the real ids: keep that file private.
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
    put_table(frame, out)


def _by_gold(frame: "pd.DataFrame", by_class: "pd.DataFrame | None", run: Path) -> "pd.DataFrame":
    """Return what items of known class say, a row for each annotator and class."""
    if by_class is None or "gold_kappa" not in frame:
        raise UsageError(f"{run} knows too few classes of items; fit with --truth FILE, of at least 20 items.")
    accuracy = {"annotator_quality": "accuracy", "quality_low": "accuracy_low", "quality_high": "accuracy_high"}
    kept = [name for name in frame if name in ("annotator", *accuracy) or str(name).startswith("gold_")]
    of_class = [name for name in by_class if name in ("annotator", "true_class") or str(name).startswith("gold_")]
    found = frame[kept].rename(columns=accuracy).merge(by_class[of_class].astype({"annotator": str}), on="annotator")
    return found.rename(columns=lambda name: name.removeprefix("gold_"))
