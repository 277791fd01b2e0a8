"""Privileged information as numbers: integer codes for categories, standardised floats for quantities.

A categorical column is never expanded to a one-hot matrix; `nets.PILinear` picks weight rows by code instead. Four
kinds of column:

    category    one code per value; values seen in too few rows share the code "other", so that
    their labels are not memorised; missing has a code of its own
    number      (value - mean) / std; a few values far outside (999999 among percentages) are moved to ten times the
    spread of the middle half beyond it first, and to +-5 afterwards; missing is 0 with a flag column
    duration    as number, after log(1 + value) and clipping to the middle 99% (idle time corrupts the tail); negative
    is missing
    raw         (value - mean) / std of all values as they are; raw:MEAN:STD has these two given

What is moved is rare, or one value: the rows that stand out may be what the column has to tell. Where three labels of
four are wrong, the confidence of the right ones lies far outside the middle half. Values within [0, 1] stay.

The fitted schema is plain JSON and holds all that is needed to encode later rows in the same way.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, DataWarning, UsageError
from .. import AnnotationTable
from ..people import shown

Floats = npt.NDArray[np.float64]

ORDER = {"trial", "order", "sequence", "seq", "nth", "timestamp", "created", "submitted", "started", "completed"} | {
    *("finished", "annotated", "date", "datetime", "session")
}
MILLISECONDS = {"ms", "millis", "milliseconds", "msec"}
MINUTES = {"min", "mins", "minutes"}
MAX_NAME = 40  # characters of a name in a sentence


def words(name: str) -> list[str]:
    """Return the words of a column's name, in small letters."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name))
    return [word for word in re.split(r"[^a-z0-9]+", parted.lower()) if word]


def is_moment(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds dates or times of day."""
    return bool(pd.api.types.is_datetime64_any_dtype(column))


def is_number(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds numbers."""
    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def numbers(column: "pd.Series[Any]") -> Floats:
    """Return a column of numbers or moments as floats, NaN where there is none."""
    return quantity(column, "number")


def value_text(value: Any) -> str:
    """Write a value of a PI column for people."""
    if isinstance(value, pd.Timestamp):
        return value.isoformat(sep=" ", timespec="seconds")[: 10 if value == value.normalize() else None]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return " ".join(str(value).split())
    number = float(value)
    return f"{number:,.0f}" if number.is_integer() and abs(number) >= 1000 else f"{number:.3g}"


def short_name(name: Any) -> str:
    """Write a name of a class, a column or a value in a sentence: one line, cut where it is long."""
    text = " ".join(str(name).split())
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"


KINDS = ("category", "number", "duration", "raw")
_CLIP = 5.0
_FAR = 10.0  # times the distance of the quartiles: beyond this, a number is a sentinel or a slip
_RARE, _FEW = 0.01, 3  # share of the rows, and number of them, that may be moved
_LARGEST = 1e100  # of which the square is still a number
_MANY = 20  # categories from which text that looks like quantities is asked about
_DURATION = re.compile(
    r"(^|_|\b)(rt|reaction_?time|response_?time|duration|seconds?|secs?|millis(econds)?|ms|elapsed|time_?taken|work_?time|time)(_|\b|$)",
    re.IGNORECASE,
)
_UNITS = "%|[mµu]?s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|[kM]|€|\\$|£"
_DATE = r"(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2})\b.*"  # 29.06.2026 16:00, 6/29/2026
_QUANTITY = rf"[+-]?\d[\d.,:' ]*({_UNITS})?( ?[\d:.]+)?"  # 85%, 7.3s, 1,234, 0:45, 0 days 00:01:10


class EncodedPI(NamedTuple):
    """PI of N annotations: codes of the C categorical columns (-1: unknown) and the M numbers."""

    codes: NDArray[np.int32]
    numbers: NDArray[np.float32]


@dataclass
class PIColumn:
    """How one PI column is encoded."""

    name: str
    kind: str
    categories: list[str] = field(default_factory=list)
    other: bool = False
    missing: bool = False
    mean: float = 0.0
    std: float = 1.0
    low: float = -np.inf
    high: float = np.inf
    clip: float | None = _CLIP  # of standardised values; None leaves it to low and high

    @property
    def n_codes(self) -> int:
        """Width of the one-hot this column stands for."""
        return len(self.categories) + self.other + self.missing

    def codes(self, values: pd.Series) -> NDArray[np.int32]:
        """Return a code per value: the categories, then "other", then "missing"; -1 where there is no place for it."""
        other = len(self.categories) if self.other else -1
        missing = len(self.categories) + self.other if self.missing else -1
        known = {name: code for code, name in enumerate(self.categories)}
        values = values.astype("category")
        lookup = np.array([known.get(str(name), other) for name in values.cat.categories] + [missing], dtype=np.int32)
        return np.asarray(lookup[values.cat.codes.to_numpy()])  # pandas codes a missing value as -1: the last entry

    def numbers(self, values: pd.Series) -> NDArray[np.float32]:
        """Return standardised values, shape (N, 1), or (N, 2) with the missing flag."""
        raw = quantity(values, self.kind)
        missing = np.isnan(raw)
        scaled = (np.clip(raw, self.low, self.high) - self.mean) / self.std
        if self.clip is not None:
            scaled = np.clip(scaled, -self.clip, self.clip)
        columns = [np.where(missing, 0.0, scaled)] + ([missing] if self.missing else [])
        return np.stack(columns, axis=1).astype(np.float32)


class PIEncoder:
    """Learns the encoding of a table's PI columns and applies it.

    `kinds`: "category", "number", "duration", "raw" or "raw:MEAN:STD" for columns whose kind should not be guessed.
        Guess: annotator, text and booleans are categories; numbers whose name suggests a time are durations; other
        numbers, and moments, numbers.
    `min_count`: a category seen fewer times is encoded as "other". By default 2 for annotators, and for other columns a
        fiftieth of the rows, but at least 2 and at most 10.
    `raw`: whether columns that are guessed to be numbers or durations are "raw" ones, as in the paper.

    Attributes
    ----------
    columns_ : list of PIColumn
        Columns in use. A column that is constant, entirely missing or different in every row is left out with
        a warning.
    """

    def __init__(self, kinds: Mapping[str, str] | None = None, min_count: int | None = None, *, raw: bool = False):
        self.kinds = dict(kinds or {})
        self.min_count, self.raw = min_count, raw
        for name, kind in self.kinds.items():
            _parse_kind(name, kind)

    @classmethod
    def of(cls, columns: Iterable[Mapping[str, Any]]) -> "PIEncoder":
        """Return the encoder of a schema that `to_json` gave."""
        made = cls()
        made.columns_ = [PIColumn(**column) for column in columns]
        return made

    def fit(self, table: AnnotationTable, rows: NDArray[np.int64] | None = None) -> "PIEncoder":
        """Learn categories, means and spreads from the given rows (all by default)."""
        unknown = [name for name in self.kinds if name not in table.pi_columns]
        if unknown:
            raise UsageError(
                f"'{unknown[0]}' is given a kind but is not a PI column; PI: {', '.join(table.pi_columns)}."
            )
        frame = table.frame if rows is None else table.frame.iloc[rows]
        self.columns_: list[PIColumn] = []
        for name in table.pi_columns:
            column = self._fit_column(name, frame[name], table.source)
            if column is not None:
                self.columns_.append(column)
        return self

    def transform(self, table: AnnotationTable) -> EncodedPI:
        """Return codes and numbers of every row of the table."""
        frame = table.frame
        absent = [column.name for column in self.columns_ if column.name not in frame]
        if absent:
            raise DataError(f"{table.source} has no PI column '{absent[0]}', which this encoder was fitted with.")
        codes = [column.codes(frame[column.name])[:, None] for column in self._categorical]
        numbers = [column.numbers(frame[column.name]) for column in self._numeric]
        n = len(frame)
        return EncodedPI(
            np.concatenate([np.zeros((n, 0), np.int32), *codes], axis=1),
            np.concatenate([np.zeros((n, 0), np.float32), *numbers], axis=1),
        )

    @property
    def _categorical(self) -> list[PIColumn]:
        return [column for column in self.columns_ if column.kind == "category"]

    @property
    def _numeric(self) -> list[PIColumn]:
        return [column for column in self.columns_ if column.kind != "category"]

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of codes of each categorical column."""
        return tuple(column.n_codes for column in self._categorical)

    @property
    def n_numbers(self) -> int:
        """Width of the numeric part."""
        return len(self.number_names)

    @property
    def code_names(self) -> tuple[str, ...]:
        """PI column of each code."""
        return tuple(column.name for column in self._categorical)

    @property
    def number_names(self) -> tuple[str, ...]:
        """PI column of each number."""
        return tuple(column.name for column in self._numeric for _ in range(1 + column.missing))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the fitted schema as JSON values."""
        return [
            {key: value for key, value in asdict(column).items() if not (isinstance(value, float) and np.isinf(value))}
            for column in self.columns_
        ]

    def _fit_column(self, name: str, values: pd.Series, source: str) -> PIColumn | None:
        """Fit a column; None, with a warning, for one that says nothing."""
        kind = self.kinds.get(name) or guess_kind(name, values)
        if self.raw and kind != "category" and name not in self.kinds:
            kind = "raw"
        column = why = None
        if values.isna().all():
            why = "is empty in every row and is left out"
        elif values.isna().sum() == 0 and (values == values.iloc[0]).all():
            why = "has the same value in every row and is left out"
        elif kind != "category":
            number = quantity(values, "number")
            if number.min() == number.max() and values.notna().all():  # not so before they became floats
                why = (
                    "has numbers so large that their differences are lost and is left out; if they are ids, pass "
                    f"{name}:category (pi_kinds in Python), else subtract the smallest"
                )
            else:
                column = _fit_number(name, kind, values, source)
        else:
            if name not in self.kinds and name != "annotator":
                _warn_of_numbers(name, values, source)
            min_count = self.min_count or (2 if name == "annotator" else min(max(2, len(values) // 50), 10))
            column = _fit_category(name, values, min_count)
            if column.n_codes < 2:
                why = f"has no value that {min_count} rows share and is left out"
        if why is None:
            return column
        warnings.warn(f"PI column '{name}' of {source} {why}.", DataWarning, stacklevel=3)
        return None


def _parse_kind(name: str, kind: str) -> tuple[str, tuple[float, float] | None]:
    """Return the kind of a column, and the mean and standard deviation that raw:MEAN:STD gives."""
    word, *constants = kind.split(":")
    if word not in KINDS or (constants and word != "raw"):
        raise UsageError(f"PI column '{name}' has kind '{kind}'; use one of {', '.join(KINDS)} and raw:MEAN:STD.")
    if not constants:
        return word, None
    try:
        mean, std = (float(constant) for constant in constants)
    except ValueError:
        mean, std = np.nan, np.nan
    if not (np.isfinite(mean) and np.isfinite(std) and std > 0):
        raise UsageError(f"PI column '{name}' has kind '{kind}'; write raw:MEAN:STD with two numbers, STD above 0.")
    return word, (mean, std)


def guess_kind(name: str, values: pd.Series) -> str:
    """Return the kind of a PI column, from its name and type."""
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    moment = pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values)
    if name == "annotator" or not (numeric or moment):
        return "category"
    return "duration" if numeric and _DURATION.search(name) else "number"


def _warn_of_numbers(name: str, values: pd.Series, source: str) -> None:
    """Warn when a column treated as categories looks like numbers: one stray text makes it that, or a unit."""
    values = values.dropna().astype("category")
    names = values.cat.categories.astype(str)
    is_stray = np.isnan(pd.to_numeric(names.to_numpy(), errors="coerce"))
    stray = is_stray[values.cat.codes]
    if not stray.any():
        return
    first = names[values.cat.codes[stray].iloc[0]]
    if stray.mean() <= 0.5:
        kind = "duration" if _DURATION.search(name) else "number"
        text = (
            f"is treated as categorical because {stray.sum()} of {len(values)} values are not numbers (first: "
            f"{shown(name, first)}); to treat those as missing, pass {name}:{kind} (pi_kinds in Python)."
        )
    elif len(names) > _MANY and names.str.fullmatch(f"{_DATE}|{_QUANTITY}")[values.cat.codes].mean() > 0.5:
        way_out = "if these are quantities, write plain numbers"
        if names.str.fullmatch(_DATE)[values.cat.codes].mean() > 0.5:
            way_out = "write dates as 2026-12-31 16:00, because 03/04/2026 may be a day of March or of April"
        text = f"is treated as {len(names)} categories, such as {shown(name, first)}; {way_out}."
    else:
        return
    warnings.warn(f"PI column '{name}' of {source} {text}", DataWarning, stacklevel=4)


def quantity(values: pd.Series, kind: str) -> NDArray[np.float64]:
    """Return a column as floats, NaN where there is no usable value; durations on a log scale."""
    if pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values):
        raw = np.where(values.isna(), np.nan, values.dt.as_unit("us").astype("int64").to_numpy() / 1e6)
    else:
        raw = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    raw = np.where(np.abs(raw) < _LARGEST, raw, np.nan)
    if kind == "duration":
        raw = np.log1p(np.where(raw < 0, np.nan, raw))
    return np.asarray(raw)


def _fit_category(name: str, values: pd.Series, min_count: int) -> PIColumn:
    """Fit codes of the values that at least `min_count` rows have."""
    values = values.astype("category")
    codes = values.cat.codes.to_numpy()
    counts = np.bincount(codes[codes >= 0], minlength=len(values.cat.categories))
    # The order is the table's, not that of the names: pseudonyms of another key give the same codes.
    frequent = [str(category) for category in values.cat.categories[counts >= min_count]]
    rare = bool(((counts > 0) & (counts < min_count)).any())
    return PIColumn(name, "category", categories=frequent, other=rare, missing=bool((codes < 0).any()))


def _fit_number(name: str, kind: str, values: pd.Series, source: str) -> PIColumn:
    """Fit the mean, spread and limits of a numeric PI column."""
    kind, constants = _parse_kind(name, kind)
    number = quantity(values, "number")
    raw = quantity(values, kind) if kind == "duration" else number
    present = raw[~np.isnan(raw)]
    if len(present) == 0:
        first = shown(name, values.dropna().iloc[0])
        raise DataError(f"PI column '{name}' of {source} holds no {kind} (first value: {first}); use {name}:category.")
    stray = values.notna().to_numpy() & np.isnan(number)
    if stray.any():
        which = f"{stray.sum()} of the {len(values)} values of PI column '{name}' of {source}"
        text = f"{which} are not numbers (first: {shown(name, str(values[stray].iloc[0]))}) and are treated as missing."
        warnings.warn(text, DataWarning, stacklevel=4)
    column = PIColumn(name, kind, missing=len(present) < len(raw), clip=None)
    if constants is not None:
        column.mean, column.std = constants
        return column
    bounded = kind == "number" and present.min() >= 0 and present.max() <= 1
    if bounded:
        column.low, column.high = 0.0, 1.0
    elif kind != "raw":
        column.low, column.high = limits(present, kind)
    present = np.clip(present, column.low, column.high)
    column.mean, column.std = float(present.mean()), float(present.std()) or 1.0
    if kind != "raw" and not bounded:
        low, high = _rare_limits(present, column.mean - _CLIP * column.std, column.mean + _CLIP * column.std)
        column.low, column.high = max(column.low, low), min(column.high, high)
    return column


def limits(values: NDArray[np.float64], kind: str) -> tuple[float, float]:
    """Return what values are clipped to before they are standardised."""
    if kind == "duration":
        low, high = np.quantile(values, [0.005, 0.995])
        return float(low), float(high)
    low, high = np.quantile(values, [0.25, 0.75])
    far = _FAR * (high - low) or np.inf  # most values are equal: the others may be what matters
    return _rare_limits(values, low - far, high + far)


def _rare_limits(values: NDArray[np.float64], low: float, high: float) -> tuple[float, float]:
    """Move each limit outwards until what lies beyond it is rare, or a single value."""
    n = max(_FEW, int(_RARE * len(values)))  # this many values may be clipped
    below, above = values[values < low], values[values > high]
    if len(below) > n and below.min() < below.max():
        low = np.partition(below, n)[n]
    if len(above) > n and above.min() < above.max():
        high = np.partition(above, len(above) - 1 - n)[len(above) - 1 - n]
    return float(low), float(high)
