"""Data as it comes: annotation tables and inputs, from files, frames and arrays."""

from .inputs import Inputs, LazyImages, load_inputs, load_probabilities, no_inputs, rows_by_name, table_inputs, x_rows
from .readers import as_text, keys, open_source, spelled_like
from .table import KEY_NAME, SPLITS, AnnotationTable, pseudonym, read_table

__all__ = [
    "KEY_NAME",
    "SPLITS",
    "AnnotationTable",
    "Inputs",
    "LazyImages",
    "as_text",
    "keys",
    "load_inputs",
    "load_probabilities",
    "no_inputs",
    "open_source",
    "pseudonym",
    "read_table",
    "rows_by_name",
    "spelled_like",
    "table_inputs",
    "x_rows",
]
