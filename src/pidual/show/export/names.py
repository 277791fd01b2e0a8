"""Whose pseudonym is whose, for owners of the table and its key."""

from pathlib import Path

from ...data import KEY_NAME, as_text, keys, load_key, pseudonym
from ...data.roles import Roles
from ...data.sources import Source
from ...errors import UsageError


def names_of_annotators(source: Source, roles: Roles, key_file: str | Path | None = None) -> dict[str, str]:
    """The ids of annotators in a table, by what a run calls them.

    Parameters
    ----------
    source, roles : Source, Roles
        The table of the run.
    key_file : str or Path, optional
        The key of the pseudonyms; by default the one beside the table. None is made here.
    """
    if roles.annotator is None:
        raise UsageError(f"{source.name} does not say who gave the labels.")
    path = Path(key_file) if key_file else Path(source.name).parent / KEY_NAME
    key = load_key(path, make=False)
    names = as_text(keys(source, roles.annotator, source.read([roles.annotator])[roles.annotator]).names).to_pylist()
    return {name: name for name in names} | {pseudonym(name, key): name for name in names}
