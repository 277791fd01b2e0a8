"""Open a table, whatever it is in: files, memory, or an export of a labelling tool."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError
from ..errors.messages import first_line
from ..files import without_passwords
from . import exports
from .paths import File, find_files, is_folder
from .sources import Source
from .sources.csv_file import CsvFile
from .sources.frame import Frame, as_stream, from_stream
from .sources.json_lines import JsonLines
from .sources.parquet import ParquetFile
from .sources.parts import Parts

FORMATS = ".csv, .tsv, .txt, .parquet, .jsonl or .json (text formats also with .gz)"
_KINDS: dict[str, type[CsvFile] | type[ParquetFile] | type[JsonLines]] = {
    **dict.fromkeys([".csv", ".tsv", ".tab", ".txt"], CsvFile),
    **dict.fromkeys([".parquet", ".pq"], ParquetFile),
    **dict.fromkeys([".jsonl", ".ndjson", ".json"], JsonLines),
}


def open_source(
    source: Any,
    *,
    format: str | None = None,
    label: str | None = None,
    annotators: Sequence[str] | None = None,
    items: bool = False,
) -> Source:
    """Open a table: a file or several, a table in memory, or an export of a labelling tool.

    `source`: CSV, TSV, Parquet, JSON Lines or JSON: a file, a folder or a pattern of parts (`parts/*.parquet`), or
        their address (s3, gs, abfs, hf, https); a folder with a dataset of Hugging Face. In memory a pandas frame, or
        an object with `__arrow_c_stream__`, as polars, DuckDB and Arrow have them.
    `format`: one of `exports.FORMATS`; by default it is recognised by what is in the file.
    `label`: in an export, the control or question whose answers are the labels.
    `annotators`: of a wide table, the columns that hold the answers of one annotator each, or patterns of them
        (`rater_*`).
    `items`: open the items of an export, a row for each, for inputs; of other tables, the rows they have.
    """
    exports.check_format(format)
    if isinstance(source, str | Path):
        opened = _open(source, format, label, items)
    elif isinstance(source, pd.DataFrame):
        opened = Frame(source)
    elif (stream := as_stream(source)) is not None:
        opened = from_stream(stream)
    else:
        raise UsageError(f"a table is a path, a DataFrame or a stream of Arrow, not {type(source).__name__}.")
    opened = opened if items or opened.guess is not None else exports.recognised_table(opened, format, label)
    if not annotators:
        return opened
    if label is not None:
        raise UsageError("annotators= (--annotators) names the columns with the labels; leave label= (--label) out.")
    return exports.melt(opened, annotators)


def _open(source: str | Path, form: str | None, label: str | None, items: bool) -> Source:
    if is_folder(source) and (found := exports.open_folder(Path(source), form, label)) is not None:
        return found
    files = find_files(source)
    if is_folder(source):
        files = [file for file in files if file.kind in _KINDS]
        if not files:
            raise UsageError(f"{source} is a folder; give a file: {FORMATS}.")
    name = without_passwords(str(source))
    try:
        if len(files) == 1:
            return _open_file(files[0], form, label, items)
        kinds = {file.kind: file for file in files}
        if len({_KINDS.get(kind) for kind in kinds}) > 1:
            what = f"{name} has files of several kinds ({', '.join(file.name for file in kinds.values())})"
            raise UsageError(f"{what}; give a pattern, such as '*{min(kinds)}'.")
        return Parts(name, [_kind_of(file)(file) for file in files])
    except (OSError, EOFError, zlib.error) as error:  # pa.ArrowException for a broken file is handled inside
        reason = without_passwords(first_line(error))
        raise DataError(f"{name} cannot be read ({reason}); check its permissions, or write it again.") from None


def _kind_of(file: File) -> type[CsvFile] | type[ParquetFile] | type[JsonLines]:
    kind = _KINDS.get(file.kind)
    if kind is None:
        ending = (file.endings or [""])[-1]
        raise UsageError(f"{file.name} has the ending {ending!r}, which pidual does not read; convert it to {FORMATS}.")
    return kind


def _open_file(file: File, form: str | None, label: str | None, items: bool) -> Source:
    kind = None if file.is_here and file.kind in (".zip", ".arrow", ".eval") else _kind_of(file)
    flat = form in (None, "table", "label-studio-min")
    flat = flat or (form == "argilla" and file.kind in (".parquet", ".pq", ".arrow"))
    if not flat and kind is not JsonLines and file.kind not in (".zip", ".eval"):
        raise UsageError(f"{file.name} cannot be of the format {form}, which is JSON; leave --format out.")
    if file.kind == ".zip":
        return exports.open_zip(Path(file.path), form, label)
    if file.kind == ".eval":
        return exports.open_log(file.path, "inspect", label)
    if kind is None:
        return exports.hugging_face.read_arrow_file(Path(file.path), label)
    return (exports.open_json(file, form, label, items) if kind is JsonLines else None) or kind(file)
