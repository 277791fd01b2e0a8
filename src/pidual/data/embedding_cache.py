"""Vectors that a model has made, kept so that each item is embedded once, whatever stops the work.

A folder per model has `vectors.npy` (n, d) and `items.npy` (n,), the digests of the items. A batch is appended to both,
and the number of rows in their headers is written last, so that a batch counts once it is whole. Anybody can read the
files with `numpy.load`; they hold no item itself.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..errors.handling import explaining_failed_writes
from ..files import fingerprint, write_json
from ..files.locks import lock

DIGEST = np.dtype("S32")  # hexadecimal digits
VECTORS, ITEMS = "vectors.npy", "items.npy"

Digests = NDArray[np.bytes_]
Floats = NDArray[np.float32]


def cache_folder() -> Path:
    """Return the folder of all embeddings: in `PIDUAL_CACHE`, or in `pidual` of the user's folder for caches."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pidual"
    return Path(os.environ.get("PIDUAL_CACHE") or usual) / "embeddings"


class EmbeddingCache:
    """What is kept of one model.

    Parameters
    ----------
    key : str
        What the vectors depend on beside the items: the model and its version.
    """

    def __init__(self, key: str):
        self.key, self.folder = key, cache_folder() / fingerprint([key.encode()])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the cache against other processes, which wait: what one embeds the others find."""
        way_out = "free some space, or set PIDUAL_CACHE to a folder that can be written."
        with explaining_failed_writes(f"embeddings to {self.folder}", way_out):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self.folder / "model.json", {"key": self.key})
            file = (self.folder / "lock").open("w")
        with file:
            while True:
                try:
                    lock(file)
                    break
                except BlockingIOError:
                    time.sleep(0.2)
            yield

    def read(self) -> tuple[Digests, Floats]:
        """Return the digests and the vectors (a memory map) of all whole batches."""
        try:
            vectors, items = (np.load(self.folder / name, mmap_mode="r") for name in (VECTORS, ITEMS))
        except (OSError, ValueError, EOFError):  # nothing is kept yet
            return np.empty(0, DIGEST), np.empty((0, 0), np.float32)
        n = min(len(items), len(vectors))
        return np.array(items[:n]), vectors[:n]

    def find(self, digests: Digests) -> NDArray[np.int64]:
        """Return the row of each of these items, -1 where it is not kept."""
        kept = self.read()[0]
        if not len(kept):
            return np.full(len(digests), -1, np.int64)
        order = np.argsort(kept)
        place = order[np.searchsorted(kept, digests, sorter=order).clip(max=len(kept) - 1)]
        return np.where(kept[place] == digests, place, -1)

    def add(self, digests: Digests, vectors: Floats) -> None:
        """Append a batch, while this process is writing."""
        before = self.read()[1]
        n = len(before)
        if n and before.shape[1:] != vectors.shape[1:]:
            sizes = f"{vectors.shape[1]} and {before.shape[1]}"
            raise DataError(f"The model {self.key} gives vectors of different sizes, {sizes} numbers; give others.")
        way_out = "free some space; what was embedded before is kept."
        with explaining_failed_writes(f"embeddings to {self.folder}", way_out):
            for name, rows in ((VECTORS, vectors), (ITEMS, digests)):
                path = self.folder / name
                with path.open("r+b" if path.exists() else "w+b") as file:
                    _append(file, np.ascontiguousarray(rows), n)

    def clear(self) -> None:
        """Forget everything."""
        for name in (ITEMS, VECTORS):
            (self.folder / name).unlink(missing_ok=True)


def _append(file: IO[bytes], rows: NDArray[Any], n: int) -> None:
    """Write rows behind the first n of an array's file, whose header has room for any number of them."""
    begin = _write_header(file, rows, n)
    file.seek(begin + n * rows[:1].nbytes)
    file.truncate()
    file.write(rows.tobytes())
    file.flush()
    os.fsync(file.fileno())
    _write_header(file, rows, n + len(rows))


def _write_header(file: IO[bytes], rows: NDArray[Any], n: int) -> int:
    file.seek(0)
    described = {"descr": rows.dtype.str, "fortran_order": False, "shape": (n, *rows.shape[1:])}
    np.lib.format.write_array_header_1_0(file, described)
    return file.tell()
