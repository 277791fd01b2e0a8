"""Which column of a table is what: item, label, annotator, clean label, split, known class, privileged information."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import pandas as pd

from ..errors import UsageError
from .columns import values
from .exports.wide import hint
from .people import holds_people, listed, names_annotator, shown
from .sources import Source

INDEX_COLUMNS = ("", "Unnamed: 0", "__index_level_0__")  # what pandas writes for a frame's index
RESERVED = ("item", "label", "annotator", "y", "split", "truth")
ANNOTATOR_NAMES = (  # of the column of annotators, in any letter case; one of them is taken before any other
    *("annotator", "worker", "annotator_id", "worker_id", "annotatorid", "workerid"),
    *("rater", "rater_id", "labeler", "labeler_id", "labeller", "labeller_id"),
)


class Roles(NamedTuple):
    """The column of each part, None where there is none."""

    item: str | None
    label: str
    annotator: str | None
    y: str | None
    split: str | None
    pi: list[str]  # names in the file, "annotator" for the annotator column
    unused: tuple[str, ...] = ()
    truth: str | None = None


def find_roles(
    source: Source,
    item: str | None,
    label: str | None,
    annotator: str | None,
    pi: Sequence[str] | None,
    y: str | None,
    split: str | None,
    x_columns: Sequence[str] | None = None,
) -> Roles:
    """Decide which column plays which part; one asked for by name is never used for another by default.

    The source gets the columns that the table will read.
    """
    item, label, annotator, y, split = map(source.called, (item, label, annotator, y, split))
    pi_asked = [pi] if isinstance(pi, str) else pi
    if pi_asked is None and source.guess is not None and source.guess.pi is not None:
        pi_asked = [name for name in source.guess.pi if name not in {item, label, y, split, *(x_columns or ())}]
    pi_asked = pi_asked if pi_asked is None else [source.aliases.get(name, name) for name in pi_asked]
    pi = list(pi_asked or ())
    wanted = {"item": item, "label": label, "y": y, "split": split, "truth": None}
    named = {column for column in (*wanted.values(), annotator) if column}
    found: dict[str, str | None] = {}
    for role, column in wanted.items():
        if column:
            found[role] = source.require(column, f"asked for as {role}")
            continue
        columns = [source.find(name) for name in (("item", "task") if role == "item" else (role,))]
        taken = {*named, *pi, *(x_columns or () if role != "item" else ())}  # the text of an item may be its name
        default = next((column for column in columns if column and column not in taken), None)
        found[role] = source.require(default, role) if default else None
    source.expect([column for column in (*found.values(), *pi) if column])
    used = {*named, *(x_columns or ()), found["item"], found["label"]}
    found["annotator"] = _find_annotator(source, annotator, pi, named, used)
    found = {role: found[role] for role in RESERVED}
    if found["label"] is None:
        taken_by = next((role for role, column in found.items() if column and column == source.find("label")), "pi")
        why = f"uses its column 'label' as {taken_by}" if source.find("label") else "has no column 'label'"
        raise UsageError(
            f"{source.name} {why}; rename the column of labels to 'label', or name it with label= of read_table "
            "(--label)"
            f"{hint(source, None) or f'. Its columns: {listed(source.columns)}.'}"
        )
    pi_columns = _find_pi(source, pi_asked, found)
    _check_used_once(source, found, pi_columns)
    used = {*found.values(), *pi_columns, *(x_columns or ()), *source.made}
    unused = tuple(name for name in dict.fromkeys(source.columns) if name not in used and name not in INDEX_COLUMNS)
    return Roles(
        found["item"],
        found["label"],
        found["annotator"],
        found["y"],
        found["split"],
        pi_columns,
        unused,
        found["truth"],
    )


def find_item(source: Source, item: str | None) -> str | None:
    """Return the column of items: the one asked for, else `item` or crowd-kit's `task`, else None."""
    item = source.called(item)
    return source.require(item, "the items") if item else source.find("item", "task")


def _find_annotator(
    source: Source, asked: str | None, pi: Sequence[str], named: Collection[str], taken: Collection[str | None]
) -> str | None:
    """Return the column of annotators: the one asked for, else of a usual name, else the only one that says who.

    Of several, one that is in `pi` is chosen.
    """
    usual = [name for known in ANNOTATOR_NAMES if (name := source.find(known)) and name not in named]
    usual.sort(key=lambda name: name not in pi)
    called = [name for name in dict.fromkeys(source.columns) if names_annotator(name) and name not in taken]
    called = [name for name in called if name in pi] or called
    column = asked or next(iter(usual), None) or (called[0] if len(called) == 1 else None)
    if column is None:
        return None
    source.require(column, "asked for as annotator" if asked else "annotator")
    if column not in pi:
        source.expect([column])
    if asked or usual:
        return column
    source.expect([column])  # as it is read once more later on, with the rest of the table
    return column if has_people(source, column) else None


def has_people(source: Source, name: str) -> bool:
    """Return whether a column holds people; it is read for this."""
    return holds_people(name, pd.Series(values(source, name, source.read([name])[name])))


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
            what = f"column {shown('', column)} of {source.name} is used twice, as {seen[column]} and as {role}"
            raise UsageError(f"{what}; name another one.")
        seen[column] = role
    if pi.count("annotator") > 1:
        raise UsageError(f"the annotator column of {source.name} is listed twice in pi; list it once.")
    for column in pi:
        if column in RESERVED and not (column == "annotator" and found["annotator"]):
            raise UsageError(
                f"the PI column {column!r} of {source.name} has a name with a meaning of its own; rename the column."
            )
