"""Types of Arrow and NumPy that many programs write, in the few that are read here."""

import json
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, DataWarning
from ...errors.messages import quoted
from .base import Source

_HUGGING_FACE = b"huggingface"  # of the metadata
_ID_LENGTH = 8  # bytes, from which on hexadecimal digits hardly ever are decimal ones alone
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def plain_type(source: Source, name: str, column: Any) -> Any:
    """Return the column with text in a plain text type, checked to be UTF-8; bytes that are not text in hexadecimal."""
    if isinstance(column.type, pa.BaseExtensionType):
        is_uuid = column.type.extension_name == "arrow.uuid"
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        if is_uuid:
            return _texts(column, lambda value: str(uuid.UUID(bytes=value)))
    is_dictionary = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if is_dictionary else column.type
    is_bytes = any(test(kind) for test in _BYTES)
    if not is_bytes and not any(test(kind) for test in _TEXTS):
        return column
    if is_bytes or pa.types.is_string_view(kind):
        column, is_dictionary = column.cast(kind), False
    try:
        if is_bytes or pa.types.is_string_view(kind):
            return column.cast(pa.large_string())
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        if not is_bytes:
            values = column.cast(kind).cast(pa.large_binary()).to_pylist()
            row = next(row for row, value in enumerate(values) if value is not None and not _is_utf8(value))
            where = f"{source.place(row)}, column {quoted(name)}"
            raise DataError(f"{where}: the text is not UTF-8; write the file again with UTF-8.") from None
    lengths = pc.unique(pc.binary_length(column).drop_null()).to_pylist()
    if len(lengths) > 1:  # bytes of one length are ids or digests
        text = "holds bytes that are not UTF-8 text and is read as hexadecimal digits; write text if it should be text"
        warnings.warn(f"{source.name}, column {quoted(name)} {text}.", DataWarning, stacklevel=5)
    mark = "" if min(lengths) >= _ID_LENGTH else "0x"  # short ones would look like numbers
    return _texts(column, lambda value: mark + value.hex())


def _texts(column: Any, convert: Callable[[bytes], str]) -> Any:
    """Return a column of bytes as text, each value converted once."""
    encoded = column.cast(pa.large_binary()).dictionary_encode().combine_chunks()
    names = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.large_string())
    return pa.chunked_array([names.take(encoded.indices)])


def _is_utf8(value: bytes) -> bool:
    return value == value.decode("utf-8", "ignore").encode()


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type as this machine and Arrow have it: in its own order of bytes, and float64 for longer floats."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    return dtype if dtype.isnative or dtype.kind == "V" else dtype.newbyteorder("=")


def is_numeric(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers, booleans among them."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)


# --- names of classes in files of Hugging Face datasets, which hold them as numbers ---


def is_list(kind: Any) -> bool:
    """Return whether a type is one of lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return the names of the classes of every column that has some, from the metadata of an Arrow schema."""
    try:
        features = json.loads((metadata or {})[_HUGGING_FACE])["info"]["features"]
        named = {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):  # another program's metadata
        return {}
    return {name: list(map(str, names)) for name, names in named.items() if isinstance(names, list)}


def with_names(column: Any, names: list[str]) -> Any:
    """Return a column of numbers of classes as their names; -1, which means that there is none, is missing."""
    if not pa.types.is_integer(column.type):
        return column
    known = pc.and_(pc.greater_equal(column, 0), pc.less(column, len(names)))
    if not pc.all(pc.or_(known, pc.equal(column, -1))).as_py():
        return column  # numbers without a name: better no names than some
    numbers = pc.if_else(known, column, pa.scalar(None, column.type)).cast(pa.int64())
    return pc.take(pa.array(names, pa.string()), numbers)
