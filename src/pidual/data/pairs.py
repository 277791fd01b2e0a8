"""Comparisons of two items, as answers about pairs: which of the two is better, the first or the second, or a tie.

What one person says about a pair is an item of the table: two people may see it differently, as scores say how often. A
pair has its items in an order of its own (`_turned`), whichever was shown on the left. So a pull to one side is not a
class that is frequent, but the effect of a PI column, `SHOWN`: whether the first item of the pair was on the left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from .build import complete, read_answered
from .columns import spelling, values
from .opening import open_source
from .people import key_path, listed, load_key, refuse_people, shown
from .roles import find_roles
from .sources import Source
from .table import AnnotationTable

ORDER = ("first", "second", "tie")
TIE = 2
SHOWN = "shown_first"
LEFT_NAMES = ("left", "model_a", "item_a", "response_a", "option_a", "text1", "image1", "a")
RIGHT_NAMES = ("right", "model_b", "item_b", "response_b", "option_b", "text2", "image2", "b")
ANSWERS = ("winner", "label", "preferred", "preference")  # usual names of columns
LEFT, RIGHT = (*LEFT_NAMES, "1"), (*RIGHT_NAMES, "2")  # what an answer may say
TIES = ("tie", "tied", "draw", "equal", "both", "same", "neither", "tie (bothbad)", "both bad")

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairTable:
    """Comparisons.

    Parameters
    ----------
    table : AnnotationTable
        An answer per row: its label is "first", "second" or "tie", its item the number of what one person says about
        one pair; where annotators are not known, of the row.
    items : pandas.Index
        Names of what was compared.
    left, right : int array (R,)
        Number of the item on either side of each answer.
    first, second : int array (M,)
        Number of the items that each item of the table is about.
    """

    table: AnnotationTable
    items: "pd.Index[Any]"
    left: Ints
    right: Ints
    first: Ints
    second: Ints


def read_pairs(
    path: str | Path | pd.DataFrame,
    *,
    left: str | None = None,
    right: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
    pi: Sequence[str] | None = None,
    keep_ids: bool = False,
    key_file: str | Path | None = None,
) -> PairTable:
    """Read a table with one comparison per row.

    Parameters
    ----------
    path : path or DataFrame
        As for `read_table`.
    left, right : str, optional
        Columns of the two items, in the order they were shown; by default left and right, model_a and model_b, ...
    label : str, optional
        Column of the answer: which side is better (left, a, 1, model_a; right, b, 2, model_b), the name of the better
        item, or tie. By default winner, label or preference. Rows without an answer are left out.
    annotator, pi, keep_ids, key_file
        As for `read_table`.
    """
    source, keep_ids = open_source(path, label=label), keep_ids or isinstance(path, pd.DataFrame)
    one, other, answer = (
        _column(source, source.called(asked), usual, option)
        for asked, usual, option in (
            (left, LEFT_NAMES, "left"),
            (right, RIGHT_NAMES, "right"),
            (label, ANSWERS, "label"),
        )
    )
    if len({one, other, answer}) < 3:
        raise UsageError("left=, right= and label= (--left, --right, --label) must name three different columns.")
    roles = find_roles(source, one, answer, annotator, pi, None, None, [other])
    known = {"annotator": roles.annotator, **{name: name for name in roles.pi if name != "annotator"}}
    wanted = [one, other, answer, *(name for name in known.values() if name is not None)]
    source, columns, _, _ = read_answered(source, answer, wanted)
    sides = [complete(source, name, columns[name], "item") for name in (one, other)]
    for name, found in zip((one, other), sides, strict=True):
        if not keep_ids:
            refuse_people(source, name, found, "item")
    names = [pd.Index(found.names.to_pandas()).astype(str) for found in sides]
    items = names[0].append(names[1]).unique()
    on_left, on_right = (items.get_indexer(each)[found.codes] for each, found in zip(names, sides, strict=True))
    if (on_left == on_right).any():
        row = int(np.argmax(on_left == on_right))
        what = shown(one, items[on_left[row]])
        raise DataError(f"{source.place(row)}: {what} is compared with itself; delete the row or correct it.")
    said = complete(source, answer, columns[answer], "label")
    side = _sides(source, answer, said.names.to_pylist(), said.codes, items, on_left, on_right)
    turned = _turned(items, on_left, on_right)
    first, second = np.where(turned, on_right, on_left), np.where(turned, on_left, on_right)
    better = np.where(side == TIE, TIE, side ^ turned)
    frame: dict[str, Any] = {"item": np.arange(len(side)), "label": np.asarray(ORDER, object)[better]}
    frame[SHOWN] = 1.0 - 2.0 * turned
    frame |= {name: values(source, column, columns[column]) for name, column in known.items() if column is not None}
    if roles.annotator is not None:
        who = pd.factorize(pd.Series(frame["annotator"]))[0]
        frame["item"] = pd.factorize((first * len(items) + second) * (who.max() + 1) + who)[0]
    key = None if keep_ids or roles.annotator is None else load_key(Path(key_file or key_path(source.name)))
    used = [name for name in frame if name not in ("item", "label")]
    table = AnnotationTable.from_frame(pd.DataFrame(frame), pi=used, keep_ids=keep_ids, key=key)
    once = np.unique(table.item_codes, return_index=True)[1]
    return PairTable(table, items, on_left, on_right, first[once], second[once])


def _column(source: Source, asked: str | None, usual: Sequence[str], option: str) -> str:
    """Return a column by its name, or a usual one."""
    found = source.require(asked, f"asked for as {option}") if asked else source.find(*usual)
    if found is None:
        raise UsageError(
            f"{source.name} has no column {listed(list(usual), 3)}; name it with {option}= (--{option}). Its columns: "
            f"{listed(source.columns)}."
        )
    return found


def _sides(
    source: Source,
    name: str,
    texts: Sequence[Any],
    codes: NDArray[np.int32],
    items: "pd.Index[Any]",
    on_left: Ints,
    on_right: Ints,
) -> Ints:
    """Return which side each answer says is better: 0 left, 1 right, TIE; the name of an item counts before words."""
    words = {**dict.fromkeys(LEFT, 0), **dict.fromkeys(RIGHT, 1), **dict.fromkeys(TIES, TIE)}
    said = items.get_indexer(pd.Index([str(text) for text in texts]))[codes]
    by_word = np.array([words.get(spelling(text), -1) for text in texts])[codes]
    side = np.where(said == on_left, 0, np.where(said == on_right, 1, by_word))
    if (side < 0).any():
        row = int(np.argmax(side < 0))
        what = shown(name, str(texts[codes[row]]))
        raise DataError(
            f"{source.place(row)}, column {name!r}: {what} is neither side, nor one of the two items, nor a tie; write "
            "left, right or tie, or the name of the better item."
        )
    return np.asarray(side)


def _turned(items: "pd.Index[Any]", on_left: Ints, on_right: Ints) -> NDArray[np.bool_]:
    """Return whether the item on the right is the first of the pair: by a hash of the names, the same for both orders.

    About half of all pairs are turned, so that neither "first" nor "second" is the more frequent class.
    """
    hashed = np.array([crc32(str(name).encode()) for name in items], np.int64)
    a, b = hashed[on_left], hashed[on_right]
    swap = np.where(a == b, on_left > on_right, a > b)
    return np.asarray(swap ^ ((a ^ b) & 1).astype(bool))
