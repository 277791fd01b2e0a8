"""A table in a file without a name: read in no time, in little memory, and gone when nobody needs it.

What becomes of the file it was copied from changes nothing.
"""

import contextlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BATCH = 1 << 8  # rows that are read to show one of them


class OnDisk:
    """A table of which one row is read at a time.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        What the table is made of; one is in memory at a time.
    """

    def __init__(self, batches: Iterable[Any]):
        with (
            tempfile.TemporaryDirectory(prefix="pidual-review-", ignore_cleanup_errors=True) as folder,
            contextlib.ExitStack() as stack,
        ):
            path, sizes, writer = str(Path(folder) / "table.arrow"), [0], None
            for batch in batches:
                arrays = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in batch.columns]
                plain = pa.record_batch(arrays, names=batch.schema.names)
                writer = writer or stack.enter_context(pa.ipc.new_file(path, plain.schema))
                for start in range(0, len(plain), BATCH):
                    part = plain.slice(start, BATCH)
                    writer.write_batch(part)
                    sizes.append(len(part))
            stack.close()
            self._file, self._starts = pa.ipc.open_file(pa.OSFile(path)), np.cumsum(sizes[:-1])

    @classmethod
    def column(cls, arrays: Iterable[Any]) -> "OnDisk":
        """Copy a column, called "value"."""
        return cls(pa.record_batch([array], names=["value"]) for array in arrays)

    def __getitem__(self, row: int) -> dict[str, Any]:
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        (record,) = self._file.get_batch(number).slice(row - int(self._starts[number]), 1).to_pylist()
        return dict(record)
