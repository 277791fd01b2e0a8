"""Names of classes in files of Hugging Face datasets, which hold them as numbers."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_KEY = b"huggingface"


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """The names of the classes of every column that has some, from the metadata of an Arrow schema."""
    try:
        features = json.loads((metadata or {})[_KEY])["info"]["features"]
        named = {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):  # another program's metadata
        return {}
    return {name: list(map(str, names)) for name, names in named.items() if isinstance(names, list)}


def with_names(column: Any, names: list[str]) -> Any:
    """A column of numbers of classes as their names; -1, which means that there is none, is missing."""
    if not pa.types.is_integer(column.type):
        return column
    known = pc.and_(pc.greater_equal(column, 0), pc.less(column, len(names)))
    if not pc.all(pc.or_(known, pc.equal(column, -1))).as_py():
        return column  # numbers without a name: better no names than some
    numbers = pc.if_else(known, column, pa.scalar(None, column.type)).cast(pa.int64())
    return pc.take(pa.array(names, pa.string()), numbers)
