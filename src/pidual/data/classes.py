"""Labels as classes: given and clean ones in one order, and what looks wrong about them."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, DataWarning
from .columns import Keys, as_text, spelled_like
from .people import shown
from .sources import Source

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


def as_classes(label: Keys, y: Keys | None) -> tuple[pd.Categorical, pd.Categorical | None]:
    """Given and clean labels as categories in one order: the classes sorted, then those of y alone."""
    if y is not None and len(y.names) and y.names.type != label.names.type:
        label, y = Keys(label.codes, as_text(label.names)), Keys(y.codes, as_text(y.names))
    classes = sorted(label.names.to_pylist())
    given = _recode(label, classes)
    if y is None:
        return given, None
    spelled = spelled_like(y.names.to_pylist(), classes)
    renamed = [spelled[value] for value in y.names.to_pylist()]
    return given, _recode(
        y._replace(names=pa.array(renamed, y.names.type)), classes + sorted(set(renamed) - set(classes))
    )


def _recode(found: Keys, categories: list[Any]) -> pd.Categorical:
    order = {value: code for code, value in enumerate(categories)}
    moved = np.array([*(order[value] for value in found.names.to_pylist()), -1], np.int32)
    return pd.Categorical.from_codes(moved[found.codes], pd.Index(categories))


def check_classes(source: Source, name: str, label: pd.Categorical) -> None:
    """Raise for labels of one class, or a class of one row; warn about classes that look the same."""
    classes = label.categories.tolist()
    if len(classes) == 1:
        raise DataError(
            f"{source.name}, column {name!r}: every label is {shown(name, classes[0])}, and a classifier needs "
            "at least two classes; check that this is the column of labels."
        )
    counts = np.bincount(label.codes, minlength=len(classes))
    single = np.flatnonzero(counts == 1)
    if len(single):
        row = int(np.flatnonzero(label.codes == single[0])[0])
        more = f" ({len(single) - 1} more classes have one row too)" if len(single) > 1 else ""
        raise DataError(
            f"{source.place(row)}, column {name!r}: the class {shown(name, classes[single[0]])} has this one row "
            f"only{more}; add rows of the class, merge it into another or delete the row."
        )
    texts = [str(one) for one in classes]
    _warn_of_alike(source, name, texts, _spelling, "differ in letter case or spaces alone")
    _warn_of_alike(source, name, texts, _number, "are the same number")


def warn_if_no_class(source: Source, name: str, clean: pd.Categorical, n_classes: int) -> None:
    """Say so when not one clean label is a class: the column is something else, or writes its classes another way."""
    known = clean.codes[clean.codes >= 0]
    if len(known) and known.min() >= n_classes:
        warnings.warn(
            f"{source.name}, column {name!r}: no value is a label (values are such as "
            f"{shown(name, str(clean.categories[known[0]]))}, labels such as {shown('', str(clean.categories[0]))}), "
            "so every label counts as wrong; name the column of clean labels with y= (--y), or rename this one.",
            DataWarning,
            stacklevel=4,
        )


def _warn_of_alike(source: Source, name: str, classes: list[str], sense: Callable[[str], Any], how: str) -> None:
    """Say so when two classes have the same sense."""
    first: dict[Any, str] = {}
    pairs = [(first.setdefault(sense(one), one), one) for one in classes]
    alike = [(one, other) for one, other in pairs if one != other]
    if alike:
        one, other = (shown(name, text) for text in alike[0])
        more = f" (and {len(alike) - 1} more like them)" if len(alike) > 1 else ""
        warnings.warn(
            f"{source.name}, column {name!r}: {one} and {other} are two classes that {how}{more}; write "
            "them the same way if they mean the same.",
            DataWarning,
            stacklevel=5,
        )


def sense(text: str) -> float | str:
    """What a class is but for the way it is written: two classes with the same sense look the same."""
    number = _number(text)
    return number if isinstance(number, float) else _spelling(text)


def _spelling(text: str) -> str:
    return " ".join(text.casefold().split())


def _number(text: str) -> float | str:
    """The number that a class such as '1', '1.0', '01' or '1e0' is written as; any other class is itself."""
    return float(text) if re.fullmatch(_NUMBER, text.strip()) else text
