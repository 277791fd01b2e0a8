"""Open a table, whatever it is in: a file, a pandas frame, or an export of a labelling tool."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..errors import DataError, UsageError
from ..errors.messages import first_line
from . import exports
from .paths import check_file, is_folder
from .sources import Source
from .sources.csv_file import CsvFile
from .sources.frame import Frame
from .sources.json_lines import JsonLines
from .sources.parquet import ParquetFile

FORMATS = ".csv, .tsv, .txt, .parquet, .jsonl or .json (text formats also with .gz)"
_KINDS: dict[str, type[CsvFile] | type[ParquetFile] | type[JsonLines]] = {
    **dict.fromkeys([".csv", ".tsv", ".tab", ".txt"], CsvFile),
    **dict.fromkeys([".parquet", ".pq"], ParquetFile),
    **dict.fromkeys([".jsonl", ".ndjson", ".json"], JsonLines),
}


def open_source(
    source: str | Path | pd.DataFrame,
    *,
    format: str | None = None,
    label: str | None = None,
    annotators: Sequence[str] | None = None,
    items: bool = False,
) -> Source:
    """Open a table: a file, a pandas frame, or an export of a labelling tool.

    Parameters
    ----------
    source : path or pandas.DataFrame
        CSV, TSV, Parquet, JSON Lines or JSON; a folder with a dataset of Hugging Face.
    format : str, optional
        One of `exports.FORMATS`; by default it is recognised by what is in the file.
    label : str, optional
        In an export, the control or question whose answers are the labels.
    annotators : sequence of str, optional
        Of a wide table, the columns that hold the answers of one annotator each, or patterns of them (`rater_*`).
    items : bool
        Open the items of an export, a row for each, for inputs; of other tables, the rows they have.
    """
    exports.check_format(format)
    opened = Frame(source) if isinstance(source, pd.DataFrame) else _open(source, format, label, items)
    opened = opened if items or opened.guess is not None else exports.recognised_table(opened, format, label)
    if not annotators:
        return opened
    if label is not None:
        raise UsageError("annotators= (--annotators) names the columns with the labels; leave label= (--label) out.")
    return exports.melt(opened, annotators)


def _open(source: str | Path, form: str | None, label: str | None, items: bool) -> Source:
    path = Path(source)
    if is_folder(path):
        found = exports.open_folder(path, form, label)
        if found is None:
            raise UsageError(f"{source} is a folder; give a file: {FORMATS}.")
        return found
    check_file(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    kind = _KINDS.get(ending)
    if kind is None and ending not in (".zip", ".arrow", ".eval"):
        raise UsageError(
            f"{source} has the ending {path.suffix!r}, which pidual does not read; convert it to {FORMATS}."
        )
    flat = form in (None, "table", "label-studio-min")
    flat = flat or (form == "argilla" and ending in (".parquet", ".pq", ".arrow"))
    if not flat and kind is not JsonLines and ending not in (".zip", ".eval"):
        raise UsageError(f"{source} cannot be of the format {form}, which is JSON; leave --format out.")
    try:
        if ending == ".zip":
            return exports.open_zip(path, form, label)
        if ending == ".eval":
            return exports.open_log(source, "inspect", label)
        if kind is None:
            return exports.hugging_face.read_arrow_file(path, label)
        return (exports.open_json(source, form, label, items) if kind is JsonLines else None) or kind(source)
    except (OSError, EOFError, zlib.error) as error:  # pa.ArrowException for a broken file is handled inside
        reason = first_line(error)
        raise DataError(f"{source} cannot be read ({reason}); check its permissions, or write it again.") from None
