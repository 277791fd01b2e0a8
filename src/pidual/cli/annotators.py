"""`pidual annotators`: what a run says about each annotator."""

from pathlib import Path

import click

from ..errors import UsageError
from .common import check_ending, print_table, write_table


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--names", is_flag=True, help="Add a column with the real ids; needs the table and the key of the pseudonyms."
)
@click.option("--table", type=click.Path(path_type=Path), help="Path of the table.  [default: where the run read it]")
@click.option("--key-file", type=click.Path(path_type=Path), help="Key file.  [default: .pidual.key beside the table]")
@click.option("--out", type=click.Path(path_type=Path), help="CSV or Parquet file.  [default: CSV on stdout]")
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
        from ..show.export.table import names_of_annotators, open_table

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
    if out is not None:
        write_table(frame, out)
    else:
        print_table(frame)
