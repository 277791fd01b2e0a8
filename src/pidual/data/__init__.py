"""Data as it comes, read and checked: annotation tables and inputs, from files, frames and arrays.

sources/        files and frames, by column
exports/        what labelling tools write, and wide tables, as long tables
opening         which of them reads a file         open_source
columns         a column as categories, numbers or moments
people          who is in a table: detect, hide, refuse, replace
roles, build, classes, in_memory  ->  table        AnnotationTable, read_table
features, images, probabilities, row_names  ->  inputs, load        Inputs, load_inputs
join            which input belongs to which annotation
known_classes   classes of items that are known
given           labels and probabilities without a table
pi/             privileged information as numbers, and what may be wrong with it

Names are loaded when they are first used: the list of datasets needs no pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import SPLITS as SPLITS
    from .build import long_frame as long_frame
    from .columns import as_text as as_text
    from .columns import keys as keys
    from .columns import spelled_like as spelled_like
    from .images import LazyImages as LazyImages
    from .inputs import Inputs as Inputs
    from .inputs import no_inputs as no_inputs
    from .join import rows_by_name as rows_by_name
    from .join import x_rows as x_rows
    from .known_classes import add_known as add_known
    from .known_classes import known_codes as known_codes
    from .known_classes import read_truth as read_truth
    from .load import load_inputs as load_inputs
    from .load import load_probabilities as load_probabilities
    from .load import table_inputs as table_inputs
    from .opening import open_source as open_source
    from .people import KEY_NAME as KEY_NAME
    from .people import key_path as key_path
    from .people import load_key as load_key
    from .people import pseudonym as pseudonym
    from .table import AnnotationTable as AnnotationTable
    from .table import read_table as read_table

_HOMES = {
    "build": ["SPLITS", "long_frame"],
    "columns": ["as_text", "keys", "spelled_like"],
    "images": ["LazyImages"],
    "inputs": ["Inputs", "no_inputs"],
    "join": ["rows_by_name", "x_rows"],
    "known_classes": ["add_known", "known_codes", "read_truth"],
    "load": ["load_inputs", "load_probabilities", "table_inputs"],
    "people": ["KEY_NAME", "key_path", "load_key", "pseudonym"],
    "opening": ["open_source"],
    "table": ["AnnotationTable", "read_table"],
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module 'pidual.data' has no attribute '{name}'")
