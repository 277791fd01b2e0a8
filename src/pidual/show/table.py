"""Open the table of a run again, and say whose pseudonym is whose to its owner."""

from pathlib import Path

from ..data import as_text, key_path, keys, load_key, pseudonym
from ..data.paths import is_address, is_there
from ..data.reopen import reopen_sets, reopen_table
from ..data.roles import Roles
from ..data.sources import Source
from ..errors import RunError, UsageError
from ..run.files import RunFiles


def open_table(run: RunFiles, table: str | Path | None = None) -> tuple[Source, Roles]:
    """Open the table of a run as the run read it, and say which column is what; an error if it is not the same."""
    path = table or run.config.source.table  # an address is opened only where the user gives it
    if path is None or not (is_there(path) or (table and is_address(str(table)))):
        raise UsageError(f"the table of {run.path} is not at {path}; say where it is with table= (--table).")
    found = reopen(run, path)
    if found is None:
        raise RunError(
            f"{path} does not hold the labels that {run.path} was made of, or has changed since; give the table as it "
            "was with table= (--table)."
        )
    return found


def reopen(run: RunFiles, path: str | Path) -> tuple[Source, Roles] | None:
    """Return the table that is there and which column of it is what; None where its labels are not those of the run."""
    read, labels = run.config.source.read, run.read_predictions(["row", "given_label", "table_row"]).frame
    if run.summary.label_sets is not None:
        return reopen_sets(
            path, {} if read is None else read.to_json(), labels["table_row"].to_numpy(), labels["given_label"]
        )
    given = labels.set_index("row")["given_label"].sort_index()
    return reopen_table(path, {} if read is None else read.to_json(), given, run.config.data.n_rows)


def names_of_annotators(source: Source, roles: Roles, key_file: str | Path | None = None) -> dict[str, str]:
    """Return the ids of annotators in a table, by what a run calls them.

    `source`, `roles`: the table of the run.
    `key_file`: the key of the pseudonyms; by default the one beside the table. None is made here.
    """
    if roles.annotator is None:
        raise UsageError(f"{source.name} does not say who gave the labels.")
    path = Path(key_file) if key_file else key_path(source.name)
    key = load_key(path, make=False)
    names = as_text(keys(source, roles.annotator, source.read([roles.annotator])[roles.annotator]).names).to_pylist()
    return {name: name for name in names} | {pseudonym(name, key): name for name in names}
