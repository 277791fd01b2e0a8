"""`pidual predict`."""

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, DataWarning, UsageError
from .common import check_ending, print_table, write_table

if TYPE_CHECKING:
    import pandas as pd

    from ..run.records.model import InputSchema


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("x", type=str)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="CSV (see `pidual detect` for its apostrophes) or Parquet file.  [default: CSV on stdout]",
)
@click.option(
    "--y",
    "labels",
    type=click.Path(path_type=Path),
    help="File of clean labels (.txt, one per line, or a table with column y or label); prints the accuracy.",
)
@click.option(
    "--weights",
    type=click.Choice(["selected", "last"]),
    default="selected",
    show_default=True,
    help="Epoch to predict with.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the predictions, or with --y the accuracy.")
def predict(run: Path, x: str, out: Path | None, labels: Path | None, weights: str, as_json: bool) -> None:
    """Predict labels of the inputs X with a RUN; no privileged information is needed."""
    check_ending(out)
    from ..api.run import Run

    opened = Run.open(run)
    frame = opened.predict(x, weights=weights)
    if out is not None:
        write_table(frame, out)
    if labels is not None:
        clean = read_labels(labels, frame["item"], opened.model.inputs)
        read = opened.config.source.read
        clean = like_classes(labels, clean, opened.model.classes, None if read is None else read.same)
        accuracy = float((frame["predicted_label"].astype(str) == clean).mean())
        words = f"accuracy {accuracy:.4f} on {len(frame):,} inputs"
        click.echo(json.dumps({"accuracy": accuracy, "n": len(frame)}) if as_json else words)
    elif out is None and as_json:
        click.echo(frame.to_json(orient="records", indent=2))
    elif out is None:
        print_table(frame)


def read_labels(path: Path, items: "pd.Series[Any]", schema: "InputSchema") -> "pd.Series[str]":
    """Clean labels of the inputs `items`: lines of text, or the column y (or label) of a table.

    A table is joined by its column of items where the inputs have names or it has another number of rows; else it is in
    order, as `pidual fit` takes inputs without names.
    """
    import pandas as pd

    from ..data import open_source

    if path.suffix == ".txt" and path.is_file():
        labels = pd.Series(path.read_text(encoding="utf-8", errors="replace").splitlines(), dtype=object).str.strip()
    else:
        source = open_source(path)
        column, item = source.find("y", "label"), schema.item
        item = item if item in source.columns else source.find("item", "task")
        if column is None:
            from ..data.people import listed

            raise UsageError(f"{path} has no column 'y' or 'label'. Its columns: {listed(source.columns)}.")
        labels = read_texts(source, column)
        named = read_texts(source, item) if item is not None else None
        in_order = len(labels) == len(items) and pd.api.types.is_integer_dtype(items)
        if named is not None and not in_order:
            labels = labels_by_item(path, labels, named, items, paths=schema.kind == "images")
        elif named is not None and (named != items.astype(str)).any() and set(named) == set(items.astype(str)):
            warnings.warn(
                f"{path} is read in order, because it has as many rows as there are inputs, although its items are "
                "their numbers in another order; if its labels belong to items by name, sort it by item.",
                DataWarning,
                stacklevel=2,
            )
    if len(labels) != len(items):
        raise DataError(f"{path} has {len(labels):,} labels for {len(items):,} inputs; give one for each, in order.")
    if labels.isna().any():
        raise DataError(f"{path} has no label in row {int(labels.isna().argmax())} (counted from 0); fill it in.")
    return labels


def like_classes(
    path: Path, labels: "pd.Series[str]", classes: list[Any], same: dict[str, str] | None = None
) -> "pd.Series[str]":
    """The labels as the model spells its classes, of which there must be one at least."""
    from ..data import spelled_like

    names = [str(name) for name in classes]
    spelled = labels.map(spelled_like(labels.unique(), names, same))
    if not spelled.isin(names).any():
        raise DataError(
            f"{path}: no label is a class of the model (labels are such as '{labels.iloc[0]}', classes such as "
            f"'{names[0]}'); write them the same way."
        )
    return spelled


def read_texts(source: Any, column: str) -> "pd.Series[str]":
    """A column as text, None where a value is missing."""
    import pandas as pd

    from ..data import as_text, keys

    codes, names = keys(source, column, source.read([column])[column])
    known = [*as_text(names).to_pylist(), None]
    return pd.Series([known[code] for code in codes], dtype=object)


def labels_by_item(
    path: Path, labels: "pd.Series[str]", named: "pd.Series[str]", items: "pd.Series[Any]", *, paths: bool
) -> "pd.Series[str]":
    """The label of each of `items`, from rows that name their items; an item may have several rows that agree."""
    import pandas as pd

    from ..data import rows_by_name

    found = labels.groupby(named).agg(["first", "nunique"])  # a missing label is none of them
    several = found.index[found["nunique"] > 1]
    if len(several):
        raise DataError(f"{path} has more than one clean label for item '{several[0]}'; keep one.")
    names = items.astype(str)
    rows = rows_by_name(names.to_numpy(), found.index.astype(str), paths=paths, source="the inputs")
    placed = pd.Series(found["first"].to_numpy()[rows >= 0], index=rows[rows >= 0]).reindex(range(len(items)))
    lost = names[placed.isna()]
    if len(lost):
        raise DataError(
            f"{path} has no label for {len(lost):,} of {len(items):,} inputs, such as '{lost.iloc[0]}'; add them."
        )
    return placed
