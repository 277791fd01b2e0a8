"""`pidual annotators`: what a run says about each annotator."""

from pathlib import Path

import click

from ..errors import UsageError
from .common import check_ending, put_table
from .options import key_option, out_option, run_argument, table_option


@click.command()
@run_argument
@click.option(
    "--names", is_flag=True, help="Add a column with the real ids; needs the table and the key of the pseudonyms."
)
@table_option
@key_option
@out_option
def annotators(run: Path, names: bool, table: Path | None, key_file: Path | None, out: Path | None) -> None:
    """Print the table of annotators of a RUN (annotators.parquet).

    With --names, the table has a column with the real ids: keep that file private.
    """
    from ..api.run import Run

    check_ending(out)
    opened = Run.open(run)
    frame = opened.annotators
    if frame is None or not len(frame):
        raise UsageError(f"{run} has no information about who gave the labels.")
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
