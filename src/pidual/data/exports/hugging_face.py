"""Datasets of Hugging Face: folders that `save_to_disk` wrote (extra `hf`), and single Arrow files of them."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import DataError, DataWarning, UsageError
from ...errors.messages import first_line, listed
from ..sources.base import Guess, Source
from ..sources.in_arrow import InArrow, class_names, plain_type, with_names
from .argilla import is_flat, read_responses
from .long_table import guess_inputs
from .records import vector_columns

_MARKS = ("state.json", "dataset_dict.json")


def is_saved_dataset(path: Path) -> bool:
    """Return whether a folder is one that `save_to_disk` wrote."""
    return any((path / name).is_file() for name in _MARKS)


def read_saved_dataset(path: Path, label: str | None = None) -> Source:
    """Read the rows of a saved dataset; the parts of a `DatasetDict` are in a column `split`.

    `label` is the question whose answers are the labels, where Argilla wrote the dataset.
    """
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError:
        what = f"{path} is a dataset of Hugging Face, which needs the package datasets"
        raise UsageError(f"{what}: install pidual[hf], or give one of its .arrow files.") from None
    try:
        loaded = load_from_disk(str(path))
        parts = loaded if isinstance(loaded, DatasetDict) else {"": loaded}
        tables = {name: part.with_format("arrow")[:] for name, part in parts.items()}
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        what = f"{path} cannot be read as a dataset of Hugging Face ({first_line(error)})"
        raise DataError(f"{what}; save it again.") from None
    if len(tables) > 1:
        tables = {name: table.append_column("split", pa.array([name] * len(table))) for name, table in tables.items()}
    table = pa.concat_tables(tables.values(), promote_options="permissive")
    return as_source(str(path), table, class_names(next(iter(tables.values())).schema.metadata), label)


def read_arrow_file(path: Path, label: str | None = None) -> Source:
    """Read the rows of one Arrow file, in the streaming format or the other; `label` is as for `read_saved_dataset`."""
    try:
        with pa.memory_map(str(path)) as file:
            try:
                table = pa.ipc.open_stream(file).read_all()
            except pa.ArrowInvalid:
                file.seek(0)
                table = pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Arrow ({first_line(error)}); write it again.") from None
    return as_source(str(path), table, class_names(table.schema.metadata), label)


def as_source(name: str, table: Any, classes: Mapping[str, list[str]], label: str | None) -> Source:
    """Return the answers in a table of Argilla, or all columns of numbers and text.

    Numbers of classes become their names, and vectors a column for each number.
    """
    if is_flat(table.column_names):
        rows = (row for batch in table.to_batches(max_chunksize=10_000) for row in batch.to_pylist())
        return read_responses(rows, name).source(label)
    scratch = InArrow(name, {})
    data, left = {}, []
    vectors: list[list[str]] = []
    for column, values in zip(table.column_names, table.columns, strict=True):
        if column in classes:
            data[column] = with_names(values, classes[column])
        elif not pa.types.is_nested(values.type):
            data[column] = plain_type(scratch, column, values)
        elif (numbers := vector_columns(column, values)) is not None:
            data |= numbers
            vectors.append(list(numbers))
        else:
            left.append(column)
    lists = {label or "label", "y"} & {*left} if (label or "label") in left else set[str]()
    data |= {column: table.column(column) for column in lists}
    if left := [column for column in left if column not in lists]:
        text = f"{name}: the columns {listed(left, 5)} hold lists or objects and are not used."
        warnings.warn(text, DataWarning, stacklevel=4)
    source = InArrow(name, data)
    source.vectors, source.lists = vectors, lists
    source.guess = Guess(None, *guess_inputs(source))
    return source
