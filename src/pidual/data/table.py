"""The annotation table: one row per annotation, whatever file it came from.

    read_table("labels.csv", label="answer", pi=["annotator", "seconds"])
    AnnotationTable.from_frame(frame)

Ids of people are personal data: for annotators, and for people in any other column (`people` says which columns hold
them), a table holds pseudonyms, made with a secret key that stays in a file beside the table. The raw id is nowhere in
the object unless `keep_ids` is set.
"""

import contextlib
import fnmatch
import functools
import hashlib
import os
import re
import secrets
import shlex
import stat
import tempfile
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, KeyNotice, UsageError
from ..messages import quoted
from .people import HIDDEN, has_address, holds_people, is_address, listed, names_annotator, shown
from .readers import Keys, Source, as_text, keys, open_source, spelled_like, values

RESERVED = ("item", "label", "annotator", "y", "split")
ANNOTATOR_NAMES = (  # of the column of annotators, in any letter case; one of them is taken before any other
    *("annotator", "worker", "annotator_id", "worker_id", "annotatorid", "workerid"),
    *("rater", "rater_id", "labeler", "labeler_id", "labeller", "labeller_id"),
)
SPLITS = ("train", "valid", "test")
KEY_NAME = ".pidual.key"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SPLIT_NAMES = {"train": 0, "training": 0, "valid": 1, "val": 1, "validation": 1, "dev": 1, "test": 2}


@dataclass(frozen=True, eq=False)
class AnnotationTable:
    """Annotations with cleaned columns; made by `read_table` or `AnnotationTable.from_frame`.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per annotation in file order. Categories `item`, `label` and, where known, `annotator` (pseudonyms), `y`
        (its categories are the classes, then any class that occurs in y only) and `split` (train, valid, test);
        the other PI columns under their own names: numbers as numbers, moments as moments, all else as categories.
    source : str
        What messages call the table: the path as given, or "table" for a frame in memory.
    pi_columns : list of str
        The privileged information; "annotator" stands for the annotator column.
    people : tuple of str
        The columns of `frame` that hold people: pseudonyms, unless ids are kept.
    keeps_ids : bool
        Whether people are known by their own ids instead of pseudonyms.
    """

    frame: pd.DataFrame
    source: str
    pi_columns: list[str]
    people: tuple[str, ...] = ()
    keeps_ids: bool = False

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def classes(self) -> list[str] | list[int]:
        """The labels there are, sorted; integers if every label is one."""
        classes: list[str] | list[int] = self.frame["label"].cat.categories.tolist()
        return classes

    @property
    def item_codes(self) -> NDArray[np.integer[Any]]:
        """Number of the item of every row, by `frame.item.cat.categories`."""
        return _codes(self.frame["item"])

    @property
    def label_codes(self) -> NDArray[np.integer[Any]]:
        """Number of the given label of every row, by `classes`."""
        return _codes(self.frame["label"])

    @property
    def annotator_codes(self) -> NDArray[np.integer[Any]] | None:
        """Number of the annotator of every row; None if annotators are not known."""
        return _codes(self.frame["annotator"]) if "annotator" in self.frame else None

    @property
    def y_codes(self) -> NDArray[np.integer[Any]] | None:
        """Number of the clean label of every row, -1 where it is missing; None if the table has no `y`."""
        return _codes(self.frame["y"]) if "y" in self.frame else None

    def fingerprint(self) -> str:
        """Hex digest of items, labels, clean labels and PI in order; the pseudonym key has no part in it."""
        digest = hashlib.blake2b(digest_size=16)
        for name in self.frame.columns:
            column = self.frame[name]
            digest.update(f"{name}\0".encode())
            if isinstance(column.dtype, pd.CategoricalDtype):
                names = [] if name == "annotator" or name in self.people else column.cat.categories.tolist()
                digest.update("\0".join(map(str, names)).encode())
                digest.update(_codes(column).astype("<i4").tobytes())
            else:
                digest.update(column.to_numpy().astype("<f8").tobytes())
        return digest.hexdigest()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        item: str | None = None,
        label: str | None = None,
        annotator: str | None = None,
        pi: Sequence[str] | None = None,
        y: str | None = None,
        split: str | None = None,
        keep_ids: bool = False,
        key: bytes | None = None,
    ) -> "AnnotationTable":
        """Make a table from a pandas frame.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per annotation; it is not changed, and the table keeps no reference to it.
        item, label, annotator, pi, y, split, keep_ids
            As for `read_table`.
        key : bytes, optional
            Secret for the pseudonyms, at most 64 bytes; drawn anew if not given, so that pseudonyms of two tables
            then have nothing to do with each other.
        """
        source = open_source(frame)
        roles = _find_roles(source, item, label, annotator, pi, y, split)
        secret = key or secrets.token_bytes(32)
        return _build(source, roles, None if keep_ids else lambda: secret)


def read_table(
    path: str | Path,
    *,
    item: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
    pi: Sequence[str] | None = None,
    y: str | None = None,
    split: str | None = None,
    x_columns: Sequence[str] | None = None,
    keep_ids: bool = False,
    key_file: str | Path | None = None,
) -> AnnotationTable:
    """Read an annotation table from a CSV, TSV, Parquet or JSON Lines file.

    Parameters
    ----------
    path : str or Path
        The file; its ending tells the format. Text files must be UTF-8 and may be gzipped.
    item, label, annotator, y, split : str, optional
        Names of the columns. By default `item` (or `task`), `label`, `annotator` (or another of `ANNOTATOR_NAMES`, such
        as `worker` or `worker_id`; else the only column whose name says who gave the label, such as `completed_by` or
        `Coder`), `y` and `split` where there are such columns. Without an item column, every row is an item of its own,
        numbered from 0.
    pi : sequence of str, optional
        Columns of privileged information; by default the annotator if known, else none. A further column of people,
        such as `reviewer` or one of e-mail addresses, holds pseudonyms too.
    x_columns : sequence of str, optional
        Columns that hold inputs, and are not taken for anything else by default: a coordinate called `y` is no label.
    keep_ids : bool
        Keep ids of people as they are instead of replacing them by pseudonyms.
    key_file : str or Path, optional
        Where the secret key of the pseudonyms is, or is to be made; by default `.pidual.key` beside the table. Only
        its owner may be able to read it. A new key is announced by a `KeyNotice` and listed in `.gitignore` beside it.

    Returns
    -------
    AnnotationTable
        With a row for every row of the file, in order.

    Raises
    ------
    UsageError
        A file, column or option that is not there or is used twice.
    DataError
        Contents that cannot be used; the message names file, line, column and, unless it may be an id, value. Items
        and labels that are e-mail addresses are among them unless ids are kept: items and labels are never replaced.
    """
    source = open_source(path)
    roles = _find_roles(source, item, label, annotator, pi, y, split, x_columns)
    key = Path(key_file) if key_file else Path(path).parent / KEY_NAME
    return _build(source, roles, None if keep_ids else functools.cache(lambda: _load_key(key)))


def find_item(source: Source, item: str | None) -> str | None:
    """The column of items: the one asked for, else `item` or crowd-kit's `task`, else None."""
    return source.require(item, "the items") if item else source.find("item", "task")


# --- which column is what ---


class _Roles(NamedTuple):
    item: str | None
    label: str
    annotator: str | None
    y: str | None
    split: str | None
    pi: list[str]  # names in the file, "annotator" for the annotator column


def _find_roles(
    source: Source,
    item: str | None,
    label: str | None,
    annotator: str | None,
    pi: Sequence[str] | None,
    y: str | None,
    split: str | None,
    x_columns: Sequence[str] | None = None,
) -> _Roles:
    """Decide which column plays which part; one asked for by name is never taken for another by default."""
    if isinstance(pi, str):
        pi = [pi]
    wanted = {"item": item, "label": label, "annotator": annotator, "y": y, "split": split}
    named = {column for column in wanted.values() if column}
    defaults = {"item": ("item", "task"), "label": ("label",), "annotator": ANNOTATOR_NAMES, "y": ("y",)}
    found: dict[str, str | None] = {}
    for role, column in wanted.items():
        if column:
            found[role] = source.require(column, f"asked for as {role}")
            continue
        columns = [source.find(name) for name in defaults.get(role, (role,))]
        taken = {*named, *(pi or ())}
        if role == "annotator":  # may be PI: the one that is, if there are several
            taken = named
            columns.sort(key=lambda column: column not in (pi or ()))
        elif role != "item":  # the text of an item may be its name
            taken |= {*(x_columns or ())}
        default = next((column for column in columns if column and column not in taken), None)
        if role == "annotator" and default is None:
            default = _only_annotator(source, pi or (), {*taken, *(x_columns or ()), *found.values()})
        found[role] = source.require(default, role) if default else None
    if found["label"] is None:
        taken_by = next((role for role, column in found.items() if column and column == source.find("label")), "pi")
        why = f"uses its column 'label' as {taken_by}" if source.find("label") else "has no column 'label'"
        raise UsageError(
            f"{source.name} {why}; name the column that holds the labels with label= (--label). "
            f"Its columns: {listed(source.columns)}."
        )
    pi_columns = _find_pi(source, pi, found)
    _check_used_once(source, found, pi_columns)
    return _Roles(found["item"], found["label"], found["annotator"], found["y"], found["split"], pi_columns)


def _only_annotator(source: Source, pi: Collection[str], taken: Collection[str | None]) -> str | None:
    """The only column whose name says who gave the label, by any other name than the usual ones; pi may choose it."""
    called = [column for column in dict.fromkeys(source.columns) if names_annotator(column) and column not in taken]
    called = [column for column in called if column in pi] or called
    if len(called) != 1:
        return None
    (column,) = called
    source.require(column, "annotator")
    return column if _holds_people(source, column, source.read(called)[column]) else None


def _holds_people(source: Source, name: str, column: Any) -> bool:
    return holds_people(name, pd.Series(values(source, name, column)))


def _find_pi(source: Source, pi: Sequence[str] | None, found: dict[str, str | None]) -> list[str]:
    annotator = found["annotator"]
    if pi is None:
        return ["annotator"] if annotator else []
    names = []
    for column in pi:
        if annotator and column in ("annotator", annotator):
            names.append("annotator")
        else:
            names.append(source.require(column, "asked for as privileged information"))
    return names


def _check_used_once(source: Source, found: dict[str, str | None], pi: list[str]) -> None:
    uses = [(column, role) for role, column in found.items() if column]
    uses += [(column, "pi") for column in pi if column != "annotator" or found["annotator"] is None]
    seen: dict[str, str] = {}
    for column, role in uses:
        if column in seen:
            raise UsageError(
                f"column {column!r} of {source.name} is used twice, as {seen[column]} and as {role}; "
                "name a different column for one of them."
            )
        seen[column] = role
    if pi.count("annotator") > 1:
        raise UsageError(f"the annotator column of {source.name} is listed twice in pi; list it once.")
    for column in pi:
        if column in RESERVED and not (column == "annotator" and found["annotator"]):
            raise UsageError(
                f"the PI column {column!r} of {source.name} has a name with a meaning of its own "
                f"({', '.join(RESERVED)}); rename the column."
            )


# --- from columns to the table ---


def _build(source: Source, roles: _Roles, key: Callable[[], bytes] | None) -> AnnotationTable:
    """Read the columns, check them and put the frame together; `key` None keeps ids.

    The key is asked for last: where a column cannot be used, none is made.
    """
    used = [*roles[:5], *(column for column in roles.pi if column != "annotator")]
    columns = source.read([column for column in used if column is not None])
    n = len(columns[roles.label])
    if n == 0:
        raise DataError(f"{source.name} has no rows; an annotation table needs at least two per class.")
    frame: dict[str, Any] = {"item": None}  # filled in last, when the memory of the other columns is free again
    people: dict[str, Keys] = {}
    if key is not None:
        refuse_people_as_columns(source.name, roles.pi)
    label = _complete(source, roles.label, columns.pop(roles.label), "label")
    y = keys(source, roles.y, columns.pop(roles.y)) if roles.y is not None else None
    if key is not None:
        _refuse_people(source, roles.label, label, "label")
        _refuse_people(source, roles.y, y, "y")
    frame["label"], clean = _labels(label, y)
    if roles.y is not None and clean is not None:
        _warn_if_no_class(source, roles.y, clean, len(frame["label"].categories))
    _check_classes(source, roles.label, frame["label"])
    if roles.annotator is not None:
        people["annotator"] = _complete(source, roles.annotator, columns.pop(roles.annotator), "annotator")
        frame["annotator"] = None  # like all people
    for name in roles.pi:
        if name != "annotator":
            column = columns.pop(name)
            frame[name] = values(source, name, column)
            if holds_people(name, pd.Series(frame[name])) or _has_addresses(frame[name]):
                people[name] = keys(source, name, column)
    if clean is not None:
        frame["y"] = clean
    if roles.split is not None:
        frame["split"] = _splits(source, roles.split, keys(source, roles.split, columns.pop(roles.split)))
    frame["item"] = pd.Categorical.from_codes(np.arange(n, dtype=np.int32), pd.RangeIndex(n))
    if roles.item is not None:
        pa.default_memory_pool().release_unused()
        items = _complete(source, roles.item, columns.pop(roles.item), "item")
        if key is not None:
            _refuse_people(source, roles.item, items, "item")
        pa.default_memory_pool().release_unused()  # pandas needs much to see that millions of items are all different
        frame["item"] = items.categorical()
    for name, ids in people.items():
        whole = name == "annotator" or holds_people(name, pd.Series(frame[name]))
        frame[name] = Keys(ids.codes, _pseudonyms(source, as_text(ids.names), key, whole)).categorical()
    return AnnotationTable(
        pd.DataFrame(frame, copy=False), source.name, list(roles.pi), tuple(people), bool(people) and key is None
    )


def _has_addresses(column: Any) -> bool:
    """Whether any category is an e-mail address."""
    return isinstance(column, pd.Categorical) and any(map(has_address, column.categories))


def refuse_people_as_columns(source: str, columns: Sequence[str]) -> None:
    """Raise for PI columns that are called by e-mail addresses: names of columns are kept as they are."""
    for column in columns:
        if has_address(column):
            raise UsageError(
                f"a PI column of {source} is called by an e-mail address, and would be written so to every file of a "
                "run; rename it, or keep ids with keep_ids=True (--keep-ids)."
            )


def _refuse_people(source: Source, name: str | None, found: Keys | None, what: str) -> None:
    """Raise for items or labels that are people: they are kept as they are, in all that is made of the table."""
    if name is None or found is None:
        return
    said = "clean label" if what == "y" else what
    way_out = f"name the column of the {said} with {what}= (--{what}), or keep ids with keep_ids=True (--keep-ids)."
    if what == "item" and names_annotator(name):
        raise UsageError(f"column {name!r} of {source.name} says who gave the label and is no {what}; {way_out}")
    if not len(found.names) or not pa.types.is_string(found.names.type):
        return
    likely = found.names.filter(pc.match_substring(found.names, "@"))  # few, mostly; Python looks at these
    if 2 * len(likely) > len(found.names) and 2 * sum(map(is_address, likely.to_pylist())) > len(found.names):
        number = " (number the items instead)" if what == "item" else ""
        raise DataError(
            f"{source.name}, column {name!r}: the {said} is an e-mail address in most rows, and would be written as it "
            f"is to every file of a run{number}; {way_out}"
        )


def _complete(source: Source, name: str, column: Any, what: str) -> Keys:
    """Keys of a column in which nothing may be missing."""
    if what == "label" and pa.types.is_duration(column.type):
        raise DataError(f"{source.name}, column {name!r} holds {column.type}; write labels as text or whole numbers.")
    found = keys(source, name, column)
    missing = np.flatnonzero(found.codes < 0)
    if len(missing):
        row = int(missing[0])
        value = column[row].as_py()
        how = "empty" if value is None or value != value else quoted(value)
        if str(value).strip() and how != "empty":
            how += f", which means that; {'an' if what[0] in 'ai' else 'a'} {what} of this name needs another"
        more = f" (and in {len(missing) - 1} more rows)" if len(missing) > 1 else ""
        other = ", or rename the column if it does not say who gave the label" if what == "annotator" else ""
        raise DataError(
            f"{source.place(row)}, column {name!r}: the {what} is missing ({how}){more}; fill it in "
            f"or delete the row{other}."
        )
    return found


def _labels(label: Keys, y: Keys | None) -> tuple[pd.Categorical, pd.Categorical | None]:
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


def _warn_if_no_class(source: Source, name: str, clean: pd.Categorical, n_classes: int) -> None:
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


def _recode(found: Keys, categories: list[Any]) -> pd.Categorical:
    order = {value: code for code, value in enumerate(categories)}
    moved = np.array([*(order[value] for value in found.names.to_pylist()), -1], np.int32)
    return pd.Categorical.from_codes(moved[found.codes], pd.Index(categories))


def _check_classes(source: Source, name: str, label: pd.Categorical) -> None:
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


def _warn_of_alike(source: Source, name: str, classes: list[str], sense: Callable[[str], Any], how: str) -> None:
    """Say so when two classes have the same sense."""
    first: dict[Any, str] = {}
    pairs = [(first.setdefault(sense(one), one), one) for one in classes]
    alike = [(one, other) for one, other in pairs if one != other]
    if alike:
        one, other = (shown(name, text) for text in alike[0])
        more = f" (and {len(alike) - 1} more like them)" if len(alike) > 1 else ""
        warnings.warn(
            f"{source.name}, column {name!r}: {one} and {other} are two classes that {how}{more}; write them alike if "
            "they mean the same.",
            DataWarning,
            stacklevel=5,
        )


def _spelling(text: str) -> str:
    return " ".join(text.casefold().split())


def _number(text: str) -> float | str:
    """The number that a class such as '1', '1.0', '01' or '1e0' is written as; any other class is itself."""
    return float(text) if re.fullmatch(_NUMBER, text.strip()) else text


def _splits(source: Source, name: str, found: Keys) -> pd.Categorical:
    known = [_SPLIT_NAMES.get(str(value).lower(), -1) for value in found.names.to_pylist()]
    codes = np.array([*known, -1], np.int8)[found.codes]
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        value = found.names[found.codes[row]].as_py() if found.codes[row] >= 0 else ""
        people = holds_people(name, pd.Series(found.categorical()))
        raise DataError(
            f"{source.place(row)}, column {name!r}: {HIDDEN if people else shown(name, value)} is not a split; write "
            "train, valid or test."
        )
    categories: pd.Index[Any] = pd.Index(SPLITS)
    return pd.Categorical.from_codes(codes, categories)


def _codes(column: "pd.Series[Any]") -> NDArray[np.integer[Any]]:
    codes: NDArray[np.integer[Any]] = column.cat.codes.to_numpy()
    return codes


# --- pseudonyms ---


def _pseudonyms(source: Source, ids: Any, key: Callable[[], bytes] | None, whole: bool) -> Any:
    """Keyed hashes of the ids, which cannot be undone or made again without the key; not `whole`: of addresses only."""
    if key is None:
        return ids
    names = ids.to_pylist()
    made = [pseudonym(name, key()) if whole or has_address(name) else name for name in names]
    if len(set(made)) < len(made):  # at 200,000 annotators this happens to one key in 14,000
        raise DataError(
            f"{source.name}: two annotators get the same pseudonym with this key; remove the key file so that another "
            "key is drawn, or keep the ids with keep_ids=True (--keep-ids)."
        )
    return pa.array(made, pa.string())


def pseudonym(name: str, key: bytes) -> str:
    """What a table calls the person `name`: the same in every table and column with the same key."""
    return "a-" + hashlib.blake2b(name.encode(), key=key, digest_size=6).hexdigest()


def _load_key(path: Path) -> bytes:
    """The key in `path`, made first if there is none."""
    try:
        if not path.exists() and _make_key(path):
            _announce(path, _keep_from_git(path))
        text = path.read_text(encoding="utf-8").strip()
        others = _others_can_read(path)
    except UnicodeDecodeError:
        text, others = "", False
    except OSError as error:
        raise UsageError(
            f"the key for annotator pseudonyms cannot be read or written at {path} ({error.strerror}); name another "
            "place with key_file= (--key-file), or keep the ids as they are with keep_ids=True (--keep-ids)."
        ) from None
    if others:
        raise UsageError(
            f"{path} can be read by others, who could tell with it whose pseudonym is whose; take that right away with "
            f"chmod 600 {shlex.quote(str(path))}, or name another key with key_file= (--key-file)."
        )
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise UsageError(
            f"{path} is not a key file of pidual (64 hex digits); name another with key_file= (--key-file), or "
            "remove it and a new key is made."
        )
    return key


def _make_key(path: Path) -> bool:
    """Write a new key that only its owner can read; the first of several processes wins, and True tells it so."""
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            os.link(temporary, path)  # fails if there is one already, unlike a rename
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True


def _announce(path: Path, kept_from_git: bool) -> None:
    """Say that there is a new key, what it is for and what to do with it."""
    git = " (it is listed in .gitignore)" if kept_from_git else ", also from version control"
    warnings.warn(
        f"A new secret key was made at {path}: ids of people are replaced by pseudonyms with it, and only with it can "
        f"it be told whose pseudonym is whose. Keep it, with the table, and keep it secret{git}.",
        KeyNotice,
        stacklevel=7,
    )


def _keep_from_git(path: Path) -> bool:
    """List the key in the .gitignore beside it; False where that cannot be written."""
    ignored = path.parent / ".gitignore"
    try:
        text = ignored.read_text(encoding="utf-8", errors="surrogateescape") if ignored.exists() else ""
        if not any(_speaks_of(line.strip(), path.name) for line in text.splitlines()):
            with ignored.open("a", encoding="utf-8") as file:
                file.write(("\n" if text and not text.endswith("\n") else "") + f"{path.name}\n")
    except OSError:
        return False
    return True


def _speaks_of(line: str, name: str) -> bool:
    """Whether a line of .gitignore already decides about the file, one way or the other."""
    pattern = line.removeprefix("!").removeprefix("/").removeprefix("**/")
    return not line.startswith("#") and fnmatch.fnmatchcase(name, pattern)


def _others_can_read(path: Path) -> bool:
    """Whether the mode of the key lets others read it, where the file system has modes."""
    if os.name == "nt" or not stat.S_IMODE(path.stat().st_mode) & 0o077:
        return False
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(prefix=f"{path.name}.", dir=path.parent) as private:
        return not stat.S_IMODE(os.stat(private.name).st_mode) & 0o077  # made with 0600
    return True
