"""Exports of labelling tools, recognised by what is in them and read into long tables.

open_json(path, format, label)      JSON and JSON Lines: the tools of `NESTED`, or a plain list of objects
open_folder(path, format, label)    datasets of Hugging Face, and a file for each annotator of doccano or Potato
open_log(path, format, label)       judgements by language models: Inspect, promptfoo, DeepEval, lm-evaluation-harness
label_studio_table, wide            flat tables that mean more than they say
answers, records, judgements        what the readers share

A reader yields a table with the columns item, label, annotator, what else is known about the answer, and the fields of
the item; from there on it is read as any table.
"""

import io
import itertools
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from ...errors import DataError, DataWarning, UsageError
from ...errors.messages import listed, quoted
from ..paths import File
from ..sources.base import Source
from ..sources.file import ParquetFile
from ..sources.in_arrow import InArrow
from . import argilla, doccano, hugging_face, judgements, label_studio
from .answers import Answers
from .judgements import (
    is_deepeval,
    is_inspect,
    is_lm_eval,
    is_promptfoo,
    read_deepeval,
    read_inspect,
    read_lm_eval,
    read_promptfoo,
)
from .label_studio import is_annotation_table, read_annotation_table
from .potato import files_of, is_record, read_records, records_of
from .prodigy import is_task, read_tasks
from .records import Json, JsonRecords, as_columns
from .wide import melt

NESTED = {
    "label-studio": (label_studio.is_task, label_studio.read_tasks),
    "argilla": (argilla.is_record, argilla.read_responses),
    "doccano": (doccano.is_example, doccano.read_examples),
    "prodigy": (is_task, read_tasks),
    "potato": (is_record, read_records),
}
LOGS = {
    "inspect": (is_inspect, read_inspect),
    "promptfoo": (is_promptfoo, read_promptfoo),
    "deepeval": (is_deepeval, read_deepeval),
    "lm-eval": (is_lm_eval, read_lm_eval),
}
FORMATS = (*NESTED, *LOGS, "label-studio-min", "hf", "table")
__all__ = ["FORMATS", "check_format", "melt", "open_folder", "open_json", "open_log", "open_zip", "recognised_table"]


def check_format(form: str | None) -> None:
    """Refuse a format that does not exist."""
    if form is not None and form not in FORMATS:
        raise UsageError(f"There is no format {quoted(form)}; use one of {', '.join(FORMATS)}.")


def open_json(file: File, form: str | None, label: str | None, items: bool = False) -> Source | None:
    """Return the table in a JSON file; None for plain JSON Lines, which has a reader of its own.

    `form`: one of `FORMATS`; by default what the first record looks like.
    `label`: the control or question whose answers are the labels.
    `items`: read items, a row for each, whether they have answers or not.
    """
    begin = judgements.first_object(file.path) if form is None and file.is_here else {}
    log = next((name for name, (is_log, _) in LOGS.items() if name == form or is_log(begin)), None)
    if log is not None:
        return open_log(file.path, log, label)
    whole = JsonRecords(file)
    is_list = whole.is_list()
    records: Iterable[Json] = list(whole) if is_list else whole
    if form in NESTED:
        return _table(NESTED[form][1](records, file.name), label, items)
    if form is None:
        try:
            first = next(iter(records), {})
        except DataError:  # which the reader of JSON Lines explains
            return None
        if items and isinstance(first.get("data"), dict):  # what Label Studio imports
            return label_studio.read_tasks(records, file.name).items()
        for recognise, read in NESTED.values():
            if recognise(first):
                return _table(read(records, file.name), label, items)
    if not is_list and (form == "table" or (form is None and not is_annotation_table(first))):
        return None
    return _flat(list(records), file.name, "table" if items else form, label)


def open_log(path: str | Path, form: str, label: str | None) -> Source:
    """Return the table of the judgements in a log, one of `LOGS`."""
    return judgements.as_table(str(path), LOGS[form][1](str(path)), form, label)


def _table(answers: Answers, label: str | None, items: bool) -> Source:
    return answers.items() if items else answers.source(label)


def open_folder(path: Path, form: str | None, label: str | None) -> Source | None:
    """Return the table in a folder: a saved dataset, or a file for each annotator; None if it is neither."""
    if form in (None, "hf") and hugging_face.is_saved_dataset(path):
        return hugging_face.read_saved_dataset(path, label)
    if form in (None, "potato") and (states := files_of(path)):
        return read_records(itertools.chain.from_iterable(map(records_of, states)), str(path)).source(label)
    files = sorted([*path.glob("*.jsonl"), *path.glob("*.json")])
    named = [(file.stem, JsonRecords(file)) for file in files]
    if files and (form == "doccano" or (form is None and doccano.is_example(next(iter(named[0][1]), {})))):
        return doccano.read_examples(_of_annotators(named), str(path)).source(label)
    return None


def open_zip(path: Path, form: str | None, label: str | None) -> Source:
    """Return the table in a .zip file of doccano, which has a file for each annotator."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith((".jsonl", ".json")))
            if form not in (None, "doccano") or not names:
                raise UsageError(f"{path} is a .zip file without JSON in it; unpack it, and give a file of it.")
            named = [(Path(name).stem, _Member(archive, name)) for name in names]
            return doccano.read_examples(_of_annotators(named), str(path)).source(label)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # damaged, or with a password
        raise DataError(f"{path} cannot be read as .zip ({error}); unpack it, and give a file of it.") from None


def recognised_table(source: Source, form: str | None, label: str | None) -> Source:
    """Return a table of columns, made long if it is a flat export of Label Studio or Argilla."""
    if form == "label-studio-min" or (form is None and is_annotation_table(source.columns)):
        return read_annotation_table(source, label)
    if isinstance(source, ParquetFile) and argilla.is_flat(source.columns) and form in (None, "argilla"):
        return hugging_face.as_source(source.name, source.whole(), {}, label)
    return source


class _Member(JsonRecords):
    """A JSON file within a .zip file."""

    def __init__(self, archive: zipfile.ZipFile, member: str):
        super().__init__(f"{archive.filename}/{member}")
        self._archive, self._member = archive, member

    def _open(self, errors: str = "strict") -> IO[str]:
        return io.TextIOWrapper(self._archive.open(self._member), "utf-8-sig", errors)

    def _check_utf8(self) -> None:
        raise DataError(f"{self.name} is not UTF-8 text; write it again as UTF-8.")


def _of_annotators(named: Sequence[tuple[str, JsonRecords]]) -> Iterator[Json]:
    """Yield the records of several files, whose names say who gave the labels; that of a single file does not."""
    for stem, records in named:
        for record in records:
            yield record if len(named) == 1 or "annotator" in record else {**record, "annotator": stem}


def _flat(records: list[Json], name: str, form: str | None, label: str | None) -> Source:
    """Return the table in a list of flat objects; columns of lists and objects are left out."""

    def place(row: int) -> str:
        return f"{name}, record {row + 1}"

    found = as_columns(name, records)
    if not found.data:
        raise DataError(f"{name} is empty; it needs a list of objects with the columns of a table.")
    whole = InArrow(name, found.data, place)
    whole.vectors = found.vectors
    source = recognised_table(whole, form, label)
    if source is not whole:
        return source
    lists = {label or "label", "y"} & found.nested if (label or "label") in found.nested else set[str]()
    if nested := found.nested - lists:
        text = f"{name}: the columns {listed(sorted(nested), 5)} hold lists or objects and are not used."
        warnings.warn(text, DataWarning, stacklevel=4)
    flat = InArrow(name, found.flat() | {column: found.data[column] for column in lists}, place)
    flat.lists = lists
    return flat
