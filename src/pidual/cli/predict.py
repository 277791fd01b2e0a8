"""`pidual predict`."""

import json
from pathlib import Path

import click

from .common import check_ending, embedding_progress, print_table, write_table
from .options import PATH, embed_option, json_option, run_argument


@click.command()
@run_argument
@click.argument("x", type=str)
@click.option(
    "--out", type=PATH, help="CSV (see `pidual detect` for its apostrophes) or Parquet file.  [default: CSV on stdout]"
)
@click.option(
    "--y",
    "labels",
    type=PATH,
    help="File of clean labels (.txt, one per line, or a table with column y or label); prints the accuracy.",
)
@click.option(
    "--weights",
    type=click.Choice(["selected", "last"]),
    default="selected",
    show_default=True,
    help="Epoch to predict with.",
)
@embed_option
@json_option("Print JSON: the predictions, or with --y the accuracy.")
def predict(
    run: Path, x: str, out: Path | None, labels: Path | None, weights: str, embed: str | None, as_json: bool
) -> None:
    """Predict labels of the inputs X with a RUN; no privileged information is needed.

    The model of --embed is that of the fit. A run loads it by itself only if it is one of the Hugging Face hub that is
    on this machine: any other has to be named again.
    """
    check_ending(out)
    from ..api.run import Run

    opened = Run.open(run)
    with embedding_progress() as progress:
        frame = opened.predict(x, weights=weights, embed=embed, progress=progress)
    if out is not None:
        write_table(frame, out)
    if labels is not None:
        from ..data.known_classes import read_clean_labels, spell_like_classes

        inputs, read = opened.model.inputs, opened.config.source.read
        clean = read_clean_labels(labels, frame["item"], inputs.item, paths=inputs.kind == "images")
        clean = spell_like_classes(labels, clean, opened.model.classes, None if read is None else read.same)
        accuracy = float((frame["predicted_label"].astype(str) == clean).mean())
        words = f"accuracy {accuracy:.4f} on {len(frame):,} inputs"
        click.echo(json.dumps({"accuracy": accuracy, "n": len(frame)}) if as_json else words)
    elif out is None and as_json:
        click.echo(frame.to_json(orient="records", indent=2))
    elif out is None:
        print_table(frame)
