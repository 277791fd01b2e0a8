"""Labels as classes: spellings merged, given and clean ones in one order, and what looks wrong about them."""

import re
import shlex
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import listed
from .columns import Keys, as_text, find_values, spelled_like, spelling
from .people import hides, shown
from .sources import Source

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_WHOLE = r"0|-?[1-9]\d{0,17}"
_SIGNS = r"(?<!\d)[.,]|[.,](?!\d)|[;:!?'’\"()_/\s]|(?<=\w)-(?=\w)"  # that do not make another class; 1.5 is not 15
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o"})
_MOST_LISTED = 10  # classes whose spellings are listed


def merge_spellings(source: Source, name: str, label: Keys, same: Mapping[str, str], exact: bool) -> Keys:
    """Merge labels of one `spelling`, or that `same` calls one, into the most frequent of them, with a warning.

    `exact` merges only what `same` says.
    """
    form: Callable[[str], str] = str if exact else spelling
    names = [str(one) for one in label.names.to_pylist()]
    renamed = names
    for old, new in same.items():
        if form(old) not in map(form, renamed):
            raise UsageError(
                f"{source.name}, column {name!r} has no label {shown(name, old)} (same, --same); its labels: "
                f"{listed([shown(name, one) for one in names[:_MOST_LISTED]])}."
            )
        renamed = [new if form(one) == form(old) else one for one in renamed]
    counts = np.bincount(label.codes[label.codes >= 0], minlength=len(names))
    totals: Counter[str] = Counter()
    for one, n in zip(renamed, counts.tolist(), strict=True):
        totals[one] += n
    best: dict[str, str] = {}
    for one, _ in totals.most_common():  # of as many rows the one that comes first
        best.setdefault(form(one), one)
    merged = [best[form(one)] for one in renamed]
    if merged == names:
        return label
    _warn_of_merged(source, name, names, merged, counts, exact)
    places = {one: place for place, one in enumerate(dict.fromkeys(merged))}
    whole = all(re.fullmatch(_WHOLE, one) for one in places)
    codes = np.array([*(places[one] for one in merged), -1], np.int32)[label.codes]
    return Keys(codes, pa.array([int(one) for one in places]) if whole else pa.array(list(places), pa.string()))


def _warn_of_merged(source: Source, name: str, names: list[str], merged: list[str], counts: Any, exact: bool) -> None:
    """Warn of spellings that are read as another class."""
    others: dict[str, list[str]] = {}
    for old, new, n in zip(names, merged, counts.tolist(), strict=True):
        if old != new:
            form = ", other Unicode form" if unicodedata.normalize("NFKC", old) == new else ""
            others.setdefault(new, []).append(f"{shown(name, old)} ({n:,}{form})")
    merges = [
        f"{listed(others[one])} {'is' if len(others[one]) == 1 else 'are'} read as {shown(name, one)}"
        for one in dict.fromkeys(merged)
        if one in others
    ]
    more = f", and so on for {len(merges) - _MOST_LISTED} more classes" if len(merges) > _MOST_LISTED else ""
    apart = "" if exact else "; exact_labels=True (--exact-labels) keeps spellings apart"
    warnings.warn(
        f"{source.name}, column {name!r}: {'; '.join(merges[:_MOST_LISTED])}{more}{apart}.", DataWarning, stacklevel=4
    )


def find_no_answers(
    source: Source, name: str, column: Any, no_answer: Sequence[str], exact: bool, *, warn: bool = True
) -> NDArray[np.int64]:
    """Return the rows whose label says that there is no answer, in any spelling unless `exact`, with a warning."""
    found, lost, texts = find_values(source, name, column, no_answer, fold=not exact)
    if lost:
        near = get_close_matches(lost[0], texts, 3) or texts[:_MOST_LISTED]
        raise UsageError(
            f"{source.name}, column {name!r} has no label {shown(name, lost[0])} (no_answer, --no-answer); its labels "
            f"are such as {listed([shown(name, one) for one in near])}; correct it, or leave it out."
        )
    if found.all():
        raise DataError(f"{source.name}, column {name!r}: every label means no answer; leave fewer out (--no-answer).")
    if warn:
        n, which = int(found.sum()), listed([shown(name, one) for one in no_answer])
        text = f"{source.name}: {n:,} rows ({n / len(found):.1%}) with no answer ({which}) are left out of the votes."
        warnings.warn(text, DataWarning, stacklevel=5)
    return np.flatnonzero(found)


def as_classes(
    label: Keys, y: Keys | None, same: Mapping[str, str] | None = None
) -> tuple[pd.Categorical, pd.Categorical | None]:
    """Return given and clean labels as categories in one order: the classes sorted, then those of y alone."""
    if y is not None and len(y.names) and y.names.type != label.names.type:
        label, y = Keys(label.codes, as_text(label.names)), Keys(y.codes, as_text(y.names))
    classes = sorted(label.names.to_pylist())
    given = _recode(label, classes)
    if y is None:
        return given, None
    spelled = spelled_like(y.names.to_pylist(), classes, same)
    renamed = [spelled[value] for value in y.names.to_pylist()]
    return given, _recode(
        y._replace(names=pa.array(renamed, y.names.type)), classes + sorted(set(renamed) - set(classes))
    )


def _recode(found: Keys, categories: list[Any]) -> pd.Categorical:
    order = {value: code for code, value in enumerate(categories)}
    moved = np.array([*(order[value] for value in found.names.to_pylist()), -1], np.int32)
    return pd.Categorical.from_codes(moved[found.codes], pd.Index(categories))


def check_classes(source: Source, name: str, label: pd.Categorical, *, can_merge: bool = False) -> None:
    """Raise for labels of one class, or a class of one row; warn about classes that look the same.

    `can_merge` says that the user can name those to merge (--same).
    """
    classes = label.categories.tolist()
    if len(classes) == 1:
        what = f"{source.name}, column {name!r}: every label is {shown(name, classes[0])}"
        raise DataError(f"{what}, but at least two classes are needed; check that this is the column of labels.")
    counts = np.bincount(label.codes, minlength=len(classes))
    alike = _alike([str(one) for one in classes], counts)
    option = _as_option(name, alike) if can_merge else ""
    single = np.flatnonzero(counts == 1)
    if len(single):
        row = int(np.flatnonzero(label.codes == single[0])[0])
        more = f" ({len(single) - 1} more classes have one row too)" if len(single) > 1 else ""
        if sum(bool(re.fullmatch(r"[+-]?\d*[.]\d+", str(one))) for one in classes) > len(classes) / 2:
            what = f"{source.name}, column {name!r} holds numbers such as {shown(name, classes[0])}, not classes"
            raise DataError(
                f"{what}; make levels of them, such as low and high (docs/multi_label.md names other tools)."
            )
        what = f"the class {shown(name, classes[single[0]])} has this one row only{more}"
        way_out = f"add rows of the class, merge it into another{f' ({option})' if option else ''} or delete the row"
        raise DataError(f"{source.place(row)}, column {name!r}: {what}; {way_out}.")
    if alike:
        pairs = "; ".join(f"{shown(name, old)} and {shown(name, new)}" for old, new in alike[:_MOST_LISTED])
        way_out = f"merge them with {option} (same= in Python)" if option else "write them the same way"
        warnings.warn(
            f"{source.name}, column {name!r}: classes that look the same: {pairs}; {way_out} if they mean the same.",
            DataWarning,
            stacklevel=4,
        )


def _alike(classes: list[str], counts: Any) -> list[tuple[str, str]]:
    """Return pairs of classes with the same sense, the rarer one first."""
    first: dict[Any, str] = {}
    order = sorted(range(len(classes)), key=lambda place: -counts[place])
    pairs = [(classes[place], first.setdefault(sense(classes[place]), classes[place])) for place in order]
    return [(old, new) for old, new in pairs if old != new]


def _as_option(name: str, alike: list[tuple[str, str]]) -> str:
    """Return what to add to the command line to merge pairs of classes, none of which it must hide."""
    pairs = [f"{old}={new}" for old, new in alike[:_MOST_LISTED] if "=" not in old and not hides(name, old + new)]
    return " ".join(f"--same {shlex.quote(pair)}" for pair in pairs)


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


def sense(text: str) -> float | str:
    """Return what a class is but for the way it is written: two classes with the same sense look the same.

    That is its number ('1', '1.0', '01' and '1e0' are one), or its letters without accents and signs between them.
    """
    if re.fullmatch(_NUMBER, text.strip()):
        return float(text)
    letters = unicodedata.normalize("NFKD", spelling(text).translate(_LETTERS))
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(_SIGNS, "", re.sub("(?<=[aou])e", "", letters)) or text  # Rückfrage, Rueckfrage and Ruckfrage
