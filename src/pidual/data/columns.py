"""From Arrow columns to what the library works with.

keys(source, name, column)      categories, cleaned
values(source, name, column)    numbers or moments where all are, else categories
"""

import contextlib
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError
from ..errors.messages import quoted
from ..files import FORMULA_MARK
from .sources.base import DECIMAL_COMMA, MISSING, POINTED_COMMA, Source, arrow_message, is_float, without_thousands
from .sources.in_arrow import is_numeric

_INTEGER = r"^(0|-?[1-9]\d{0,17})(\.0+)?$"  # '007' is a name, not a number
_LEADING_ZERO = r"^[+-]?0[\dxX]"
_FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_INVISIBLE = "[\u00ad\u200b\u2060\ufeff]"  # soft hyphen, spaces of no width
_LOCAL_DATE = (
    r"^(?P<first>\d{1,2})(?P<sign>[./-])(?P<second>\d{1,2})[./-](?:\d{4}|\d{2})"
    r"(?: \d{1,2}:\d{2}(?::\d{2})?(?: [AaPp][Mm])?)?$"
)
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class Keys(NamedTuple):
    """A column as categories: `names[codes[i]]` is row i, and code -1 means missing."""

    codes: NDArray[np.int32]
    names: Any  # pa.Array of int64 or string, in order of first appearance

    def categorical(self) -> pd.Categorical:
        """Return the same as pandas has it, without the table of Python objects by which it saw that all differ."""
        found = pd.Categorical.from_codes(self.codes, pd.Index(self.names.to_pandas()))
        found.categories._reset_cache("_engine")  # type: ignore[attr-defined]
        return found


def keys(source: Source, name: str, column: Any) -> Keys:
    """Encode names: text is stripped, and whole numbers become integers if every value is one.

    Values that differ only in spaces are one value; `MISSING` texts and NaN have code -1. Booleans become
    'False' and 'True', as a CSV would hold them.
    """
    if len(column) == 0:
        return Keys(np.empty(0, np.int32), pa.array([], pa.string()))
    with _conversion_errors(source, name, column):
        encoded = _plain(source, name, column).dictionary_encode().combine_chunks()
        cleaned = _clean(source, encoded.dictionary)
    if cleaned.null_count == 0 and cleaned.equals(encoded.dictionary):
        return Keys(_codes(encoded.indices), cleaned)
    again = cleaned.dictionary_encode()
    merged = np.append(_codes(again.indices), np.int32(-1))  # a missing code is -1, the last place
    return Keys(merged[_codes(encoded.indices)], again.dictionary)


def spelling(name: Any) -> str:
    """Return a name without what differs between its spellings: letter case, spaces, invisible signs, Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", re.sub(_INVISIBLE, "", str(name))).casefold().split())


def spelled_like(
    values: Iterable[Any], names: Iterable[Any], same: Mapping[str, str] | None = None, *, fold: bool = True
) -> dict[Any, Any]:
    """Return how `names` spell each value: itself if it is one of them, else the one of the same number or `spelling`.

    Values that no name stands for, or several do, are spelled as they are. `same` says what else is one, as for
    `read_table`. Without `fold`, spellings count as different.
    """
    names, form = list(names), spelling if fold else str
    meant: dict[Any, list[Any]] = {}
    for name in names:
        meant.setdefault(_meaning(name, form), []).append(name)
    exact, spelled = set(names), {}
    for value in values:
        wanted = value
        for old, new in (same or {}).items():
            wanted = new if spelling(wanted) == spelling(old) and wanted not in exact else wanted
        alike = meant.get(_meaning(wanted, form), [wanted])
        spelled[value] = alike[0] if wanted not in exact and len(alike) == 1 else wanted
    return spelled


def find_values(
    source: Source, name: str, column: Any, wanted: Iterable[str], *, fold: bool = True
) -> tuple[NDArray[np.bool_], list[str], list[str]]:
    """Return which rows hold a value that is one of `wanted`, those of `wanted` that no row holds, and all values.

    They are compared as by `spelled_like`, as text; texts that may mean a missing value, such as 'None', are values.
    """
    with _conversion_errors(source, name, column):
        encoded = _plain(source, name, column).dictionary_encode().combine_chunks()
        texts = [text.strip() for text in _without_marks(source, as_text(encoded.dictionary)).to_pylist()]
    form = spelling if fold else str
    meant, held = {_meaning(one, form): one for one in wanted}, [_meaning(text, form) for text in texts]
    found = np.array([*(one in meant for one in held), False])  # a missing code is -1, the last place
    return found[_codes(encoded.indices)], [one for key, one in meant.items() if key not in held], texts


def _meaning(name: Any, form: Callable[[str], str]) -> Any:
    """Return what a name stands for: a number, true or false, or its form; '007' is a name."""
    text = str(name).strip()
    if text.casefold() in ("true", "false"):
        return text.casefold()
    return float(text) if is_float(text) and not re.match(_LEADING_ZERO, text) else form(text)


def values(source: Source, name: str, column: Any) -> NDArray[Any] | pd.Categorical:
    """Return numbers (int64, or float64 with NaN where missing) or moments if every value is one, else categories.

    A column of categories, as pandas and Arrow have them, stays one, whatever the categories are. Whole numbers from
    2**63 on are uint64.
    """
    if pa.types.is_dictionary(column.type):
        return keys(source, name, column).categorical()
    with _conversion_errors(source, name, column):
        array = _plain(source, name, column)
        is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        if is_text and source.decimal == ",":
            array = _with_points(array)
        numbers = _text_numbers(array) if is_text else array
        if numbers is not None and pa.types.is_duration(numbers.type):
            numbers = pc.divide(as_floats(numbers.cast(pa.int64())), _PER_SECOND[numbers.type.unit])
        if numbers is None or not is_numeric(numbers.type) or pa.types.is_boolean(numbers.type):
            moments = _moments(array)
            return moments if moments is not None else keys(source, name, array).categorical()
        if pa.types.is_integer(numbers.type) and numbers.null_count == 0:
            with contextlib.suppress(pa.ArrowInvalid):
                return _own(numbers.cast(pa.int64()))
            return _own(numbers)  # from 2**63 on, where floats would make many values one
        return _own(as_floats(numbers))


def as_text(values: Any) -> Any:
    """Return Arrow values as text."""
    return values.cast(pa.string())


def as_floats(numbers: Any) -> Any:
    """Return Arrow numbers as float64, whole numbers beyond 2**53 rounded."""
    return numbers.cast(pa.float64(), safe=False)


def _own(numbers: Any) -> NDArray[Any]:
    """Return an array that is not a frame's own memory, which Arrow may share."""
    result: NDArray[Any] = numbers.to_numpy()
    return result if result.flags.writeable else result.copy()


def _plain(source: Source, name: str, column: Any) -> Any:
    """Return the column without dictionaries."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        shown = str(kind) if len(str(kind)) <= 60 else f"{str(kind)[:57]}..."
        raise DataError(f"{source.name}, column {quoted(name)} holds {shown}; it must hold one number or text per row.")
    return column if column.type == kind else column.cast(kind)


@contextlib.contextmanager
def _conversion_errors(source: Source, name: str, column: Any) -> Iterator[None]:
    """Name the column whose values Arrow cannot convert."""
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(
            f"{source.name}, column {quoted(name)} holds {column.type} that cannot be used ({arrow_message(error)}); "
            "convert it to text or numbers."
        ) from None


def _clean(source: Source, values: Any) -> Any:
    """Turn unique values into int64 if all are whole numbers, else as stripped text; null where missing."""
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "True", "False")
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        return values.cast(pa.int64())
    text = _without_marks(source, _present(as_text(values)))
    if text.null_count == len(text) or not pc.all(pc.match_substring_regex(text, _INTEGER)).as_py():
        return text
    return pc.replace_substring_regex(text, r"\.0+$", "").cast(pa.int64())


def _without_marks(source: Source, text: Any) -> Any:
    """Return text without the marks that keep a spreadsheet from reading it as a formula."""
    return pc.replace_substring_regex(text, FORMULA_MARK, r"\1") if source.marks_formulas else text


def _present(text: Any) -> Any:
    """Return stripped text, null where it says that the value is missing."""
    text = pc.utf8_trim_whitespace(text)
    missing = pc.is_in(text, value_set=pa.array(MISSING, text.type))
    return pc.if_else(missing, pa.scalar(None, text.type), text)


def _with_points(array: Any) -> Any:
    """Return text with points for decimal commas if most of it is numbers then; a list such as 1,2,3 is none."""
    text = pc.utf8_trim_whitespace(array)
    if pc.any(pc.match_substring_regex(text, POINTED_COMMA)).as_py():
        text = without_thousands(text)
    pointed = pc.replace_substring_regex(text, DECIMAL_COMMA, r"\1.\2")
    share = pc.mean(pc.match_substring_regex(_present(pointed), _FLOAT).cast(pa.float64())).as_py()
    return pointed if share is not None and share > 0.5 else array


def _text_numbers(array: Any) -> Any:
    """Return the numbers that text stands for, or None if any is not a number or has a leading zero."""
    text = _present(array)
    if text.null_count == len(text) or pc.any(pc.match_substring_regex(text, _LEADING_ZERO)).as_py():
        return None
    for kind in pa.int64(), pa.uint64(), pa.float64():
        with contextlib.suppress(pa.ArrowInvalid):
            return text.cast(kind)
    return None


def _moments(array: Any) -> NDArray[Any] | None:
    """Return the moments an array holds or its text stands for, in UTC where a zone is named; None if any is none.

    Text is ISO 8601, or dates as one country writes them (`_local_moments`).
    """
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if not (is_text or pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        return None
    values = _present(array) if is_text else array
    if values.null_count == len(values):
        return None
    for unit, zone in itertools.product(("us", "ns"), (None, "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            found = values.cast(pa.timestamp(unit, zone), safe=is_text)
            moments: NDArray[Any] = found.cast(pa.timestamp("us", zone), safe=False).to_numpy()
            return moments
    return _local_moments(values) if is_text else None


def _local_moments(text: Any) -> NDArray[Any] | None:
    """Return moments such as 29.05.2026 03:23 and 5/29/2026 2:00 PM; None where any is none, or may mean two days.

    A number above 12 says which one is the day; where there is none, dots say that the day comes first.
    """
    if not pc.all(pc.match_substring_regex(text, _LOCAL_DATE)).as_py():
        return None
    parts = pc.extract_regex(text, _LOCAL_DATE)
    first, second = (pc.max(pc.struct_field(parts, name).cast(pa.int8())).as_py() for name in ("first", "second"))
    signs = pc.unique(pc.struct_field(parts, "sign").drop_null()).to_pylist()
    if len(signs) > 1 or (first <= 12 and second <= 12 and signs != ["."]):
        return None
    order = ("%d", "%m") if second <= 12 else ("%m", "%d")
    series = text.to_pandas()
    for year, time in itertools.product(("%Y", "%y"), ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")):
        found = pd.to_datetime(series, format=signs[0].join([*order, year]) + time, errors="coerce")
        if found.notna().sum() == len(text) - text.null_count:
            return np.asarray(found, "datetime64[us]")
    return None


def _codes(indices: Any) -> NDArray[np.int32]:
    codes: NDArray[np.int32] = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False)
    return codes
