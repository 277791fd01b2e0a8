"""Data as it comes, read and checked: annotation tables and inputs, from files, frames and arrays.

sources/        files and frames, by column
exports/        what labelling tools write, and wide tables, as long tables
columns         a column as categories, numbers or moments
people          who is in a table: detect, hide, refuse, replace
roles, build, classes, in_memory  ->  table        AnnotationTable, read_table
features, images, text, probabilities, row_names  ->  inputs, load        Inputs, load_inputs
join            which input belongs to which annotation
truth           classes of items that are known

Names are loaded when they are first used: the list of datasets needs no pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import SPLITS
    from .columns import as_text, keys, spelled_like
    from .images import LazyImages
    from .importing import long_frame
    from .inputs import Inputs, no_inputs
    from .join import rows_by_name, x_rows
    from .known_classes import read_truth
    from .load import load_inputs, load_probabilities, table_inputs
    from .people import KEY_NAME, load_key, pseudonym
    from .sources import open_source
    from .table import AnnotationTable, read_table

_HOMES = {
    "AnnotationTable": "table",
    "Inputs": "inputs",
    "KEY_NAME": "people",
    "LazyImages": "images",
    "SPLITS": "build",
    "as_text": "columns",
    "keys": "columns",
    "load_inputs": "load",
    "load_key": "people",
    "load_probabilities": "load",
    "long_frame": "importing",
    "no_inputs": "inputs",
    "open_source": "sources",
    "pseudonym": "people",
    "read_table": "table",
    "read_truth": "known_classes",
    "rows_by_name": "join",
    "spelled_like": "columns",
    "table_inputs": "load",
    "x_rows": "join",
}

__all__ = [
    "KEY_NAME",
    "SPLITS",
    "AnnotationTable",
    "Inputs",
    "LazyImages",
    "as_text",
    "keys",
    "load_inputs",
    "load_key",
    "load_probabilities",
    "long_frame",
    "no_inputs",
    "open_source",
    "pseudonym",
    "read_table",
    "read_truth",
    "rows_by_name",
    "spelled_like",
    "table_inputs",
    "x_rows",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pidual.data' has no attribute '{name}'")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
