"""Any source as a plain long table, to be written to a file: `pidual data import`."""

from collections.abc import Callable

import pandas as pd
import pyarrow as pa

from ..errors import DataError
from .build import complete, read_answered, rows_read, without_people
from .columns import keys, values
from .people import holds_people, is_address, names_people, refuse_people, refuse_people_as_columns
from .roles import find_roles
from .sources import Source

_WHOLE = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}  # so that whole numbers stay so beside missing ones


def long_frame(
    source: Source,
    key: Callable[[], bytes] | None,
    *,
    item: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
    y: str | None = None,
    split: str | None = None,
) -> pd.DataFrame:
    """Return a row for every answer, with the columns item, label, annotator, y and split first, where they are known.

    `source`: what `open_source` has opened.
    `key`: gives the secret key of the pseudonyms; None keeps ids.
    `item`, `label`, `annotator`, `y`, `split`: as for `read_table`.
    """
    roles = find_roles(source, item, label, annotator, None, y, split)
    own = {column: name for name, column in zip(roles._fields, roles[:5], strict=False) if column is not None}
    others = [column for column in dict.fromkeys(source.columns) if column not in own]
    if key is not None:
        refuse_people_as_columns(source.name, source.columns)
    source, data, _, skipped = read_answered(source, roles.label, [*own, *others])
    if not len(data[roles.label]):
        raise DataError(f"{source.name} has no rows; there is nothing to import.")
    for column, name in own.items():
        if name in ("item", "label", "annotator"):
            checked = complete(source, column, data[column], name)
            if key is not None and name != "annotator":
                refuse_people(source, column, checked, name)
    found = {name: data[column] for column, name in own.items()}
    if roles.item is None:
        found = {"item": pa.chunked_array([pa.array(rows_read(len(found["label"]), skipped))])} | found
    found |= {f"data_{column}" if column in found else column: data[column] for column in others}
    known = {*own.values(), source.guess.text if source.guess else None}
    people = [name for name in found if name == "annotator" or (name not in known and _people(source, name, found))]
    plain = {name: column.to_pandas(types_mapper=_WHOLE.get) for name, column in found.items()}
    frame = pd.DataFrame(plain, copy=False)
    for name in people:
        frame[name] = without_people(source.name, keys(source, name, found[name]), key, "all")
    return frame


def _people(source: Source, name: str, columns: dict[str, pa.ChunkedArray]) -> bool:
    """Return whether a column that is not about answers holds people; texts in which addresses occur are not people."""
    column = columns[name]
    if names_people(name):
        return holds_people(name, pd.Series(values(source, name, column)))
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return False
    some = column[:1000].drop_null().to_pylist()
    return 2 * sum(map(is_address, some)) > len(some)
