"""Tabular files and frames, all read one way.

    open_source(path or frame) -> Source      what columns there are
    source.read(names)         -> Arrow columns

A Source also knows where a row stands (`source.place(7)` is "labels.csv, line 9"), so that an error can name the place.
Only when something is wrong is a text file read a second time, slowly, to find the line.
"""

import zlib
from pathlib import Path

import pandas as pd

from ...errors import DataError, UsageError
from ...messages import first_line
from .base import Source, check_file, is_folder
from .csv_file import CsvFile
from .frame import Frame
from .json_lines import JsonLines
from .parquet import ParquetFile

FORMATS = ".csv, .tsv, .txt, .parquet or .jsonl (text formats also with .gz)"
_KINDS: dict[str, type[CsvFile] | type[ParquetFile] | type[JsonLines]] = {
    **dict.fromkeys([".csv", ".tsv", ".tab", ".txt"], CsvFile),
    **dict.fromkeys([".parquet", ".pq"], ParquetFile),
    **dict.fromkeys([".jsonl", ".ndjson", ".json"], JsonLines),
}
__all__ = ["Source", "check_file", "is_folder", "open_source"]


def open_source(source: str | Path | pd.DataFrame) -> Source:
    """Open a CSV, TSV, Parquet or JSON Lines file, or a pandas frame."""
    if isinstance(source, pd.DataFrame):
        return Frame(source)
    path = Path(source)
    if is_folder(path):
        raise UsageError(f"{source} is a folder; give a file: {FORMATS}.")
    check_file(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]
    kind = _KINDS.get(ending)
    if kind is None:
        raise UsageError(
            f"{source} has the ending {path.suffix!r}, which pidual does not read; convert it to {FORMATS}."
        )
    try:
        return kind(source)
    except (OSError, EOFError, zlib.error) as error:  # pa.ArrowException for a broken file is handled inside
        raise DataError(
            f"{source} cannot be read ({first_line(error)}); check its permissions, or write it again."
        ) from None
