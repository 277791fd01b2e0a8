"""Vectors that a model has made, kept so that each item is embedded once, whatever stops the work.

A folder per model has `embeddings.npy`: a record for each item, its digest and its vector. A batch is appended, and the
number of records in the header is written last, so that a batch counts once it is whole. `numpy.load` reads the file.
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
from ..files.whole import lock

DIGEST = np.dtype("S32")  # hexadecimal digits
Digests = NDArray[np.bytes_]
Floats = NDArray[np.float32]


def cache_folder() -> Path:
    """Return the folder of all embeddings: in `PIDUAL_CACHE`, or in `pidual` of the user's folder for caches."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pidual"
    return Path(os.environ.get("PIDUAL_CACHE") or usual) / "embeddings"


class EmbeddingCache:
    """What is kept of the model whose vectors `key` tells from those of others."""

    def __init__(self, key: str):
        self.key, self.folder = key, cache_folder() / fingerprint([key.encode()])
        self.path = self.folder / "embeddings.npy"

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

    def read(self) -> NDArray[Any]:
        """Return the records `item`, `vector` of all whole batches, as a memory map."""
        try:
            return np.asarray(np.load(self.path, mmap_mode="r"))
        except (OSError, ValueError, EOFError):  # nothing is kept yet
            return np.empty(0, [("item", DIGEST), ("vector", np.float32, (0,))])

    def find(self, digests: Digests) -> NDArray[np.int64]:
        """Return the number of each item's record, -1 where it is not kept."""
        kept = np.array(self.read()["item"])
        if not len(kept):
            return np.full(len(digests), -1, np.int64)
        order = np.argsort(kept)
        place = order[np.searchsorted(kept, digests, sorter=order).clip(max=len(kept) - 1)]
        return np.where(kept[place] == digests, place, -1)

    def add(self, digests: Digests, vectors: Floats) -> None:
        """Append a batch, while this process is writing."""
        kept = self.read()
        rows = np.empty(len(digests), [("item", DIGEST), ("vector", np.float32, vectors.shape[1:])])
        rows["item"], rows["vector"] = digests, vectors
        if len(kept) and kept.dtype != rows.dtype:
            sizes = f"{kept['vector'].shape[1]} and of {vectors.shape[1]} numbers"
            raise DataError(f"The model {self.key} gives vectors of {sizes}; all must have as many.")
        writing = explaining_failed_writes(f"embeddings to {self.folder}", "free some space; earlier ones are kept.")
        with writing, self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.seek(_write_header(file, rows.dtype, len(kept)) + kept.nbytes)
            file.truncate()  # what a killed process has left
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
            _write_header(file, rows.dtype, len(kept) + len(rows))


def _write_header(file: IO[bytes], dtype: np.dtype[Any], n: int) -> int:
    """Write the header of n records, which has room for any number, and return where they begin."""
    file.seek(0)
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, described)
    return file.tell()
