"""Which column of an annotation table is what: item, label, annotator, clean label, split, privileged information."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ..errors import UsageError
from .columns import values
from .people import holds_people, listed, names_annotator
from .sources import Source

RESERVED = ("item", "label", "annotator", "y", "split")
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
    return Roles(found["item"], found["label"], found["annotator"], found["y"], found["split"], pi_columns)


def find_item(source: Source, item: str | None) -> str | None:
    """The column of items: the one asked for, else `item` or crowd-kit's `task`, else None."""
    return source.require(item, "the items") if item else source.find("item", "task")


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
