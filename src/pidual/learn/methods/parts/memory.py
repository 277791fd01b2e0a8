"""SampleMemory: a value per training row."""

import math
import mmap
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from ....errors import UsageError
from ....files import replacing
from ....options.launcher import place_among_processes
from .processes import gather, n_processes

DISK_ABOVE = 2**30  # bytes beyond which a memory is kept in a file
BLOCK = 2**24  # numbers handled at a time
RELEASE_AFTER = 2**9  # rows read or written; each may bring up to 2 MB around it into memory
ITEM = torch.float32.itemsize


class SampleMemory:
    """A vector of numbers per training row, read and written by row; neither a parameter nor part of the weights.

    Each of several processes holds, or shares with its neighbours on the machine, all rows; `update` gathers what the
    others have computed, so that all read the same values. The engine says where a large memory is kept and saves it
    with the state of the run.

    `n_rows`, `width`: training rows, and numbers per row.
    `std`: standard deviation of the normal initial values; 0 begins with zeros.
    `where` ("auto", "memory" or "disk"): "auto" keeps more than a gigabyte in a memory-mapped file.
    """

    def __init__(self, n_rows: int, width: int, *, std: float = 0.0, where: str = "auto"):
        if where not in ("auto", "memory", "disk"):
            raise UsageError(f"memory must be auto, memory or disk, not '{where}'.")
        self.n_rows, self.width, self.std = n_rows, width, std
        self.seed = int(torch.randint(2**62, ()))  # the same on every process, which all build the same method
        self.on_disk = where == "disk" or (where == "auto" and n_rows * width * ITEM > DISK_ABOVE)
        self.path: Path | None = None
        self._values: Tensor | None = None
        self._map: mmap.mmap | None = None
        self._touched = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is remembered of training rows: a copy elsewhere starts over."""
        return {**vars(self), "_values": None, "_map": None, "path": None}

    @property
    def values(self) -> Tensor:
        """Return all rows (n_rows, width)."""
        if self._values is None:
            self.open()
        assert self._values is not None
        return self._values

    def open(self, path: Path | None = None) -> None:
        """Make the memory with its initial values, in the file `path` where it belongs on disk.

        Without a path the file is a temporary one. Processes on one machine share the file; the first one makes it.
        """
        shape = (self.n_rows, self.width)
        generator = torch.Generator().manual_seed(self.seed)
        if not self.on_disk:
            self._values = torch.zeros(shape)
            for block in self._values.split(self._block):
                self._draw(block, generator)
            return
        if path is None:
            folder = tempfile.mkdtemp(prefix="pidual-memory-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder) / "memory"
        self.path = path
        if place_among_processes().local_rank == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            weakref.finalize(self, path.unlink, missing_ok=True)  # a resume point is a copy of it
            with path.open("wb") as file:
                file.truncate(math.prod(shape) * ITEM)  # zeros that take no room yet
                for rows in range(0, self.n_rows if self.std else 0, self._block):
                    block = torch.empty(min(self._block, self.n_rows - rows), self.width)
                    file.write(self._draw(block, generator).view(torch.uint8).numpy().data)
        if n_processes() > 1:
            distributed.barrier()
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._values = torch.frombuffer(self._map, dtype=torch.float32).view(shape)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Return the rows at these positions, on the device of `index`; NaN where the position is -1."""
        rows = self.values[index.cpu().clamp(min=0)].to(index.device)
        self._release(len(index))
        return rows.masked_fill((index < 0)[:, None], math.nan)

    def update(self, index: Tensor, values: Tensor) -> None:
        """Write rows, this process's and those that the others write at the same step."""
        index, values = index.detach(), values.detach().float()
        if n_processes() > 1:
            index, values = gather(index), gather(values)
        self.values[index.cpu()] = values.cpu()
        self._release(len(index))

    def save(self, path: Path) -> None:
        """Write all rows to a file, there in full or not at all."""
        with replacing(path) as temporary:
            if self.path is not None:
                shutil.copyfile(self.path, temporary)  # through the file, so that the whole map is not read into memory
                return
            with temporary.open("wb") as file:
                for block in self.values.split(self._block):
                    file.write(block.view(torch.uint8).numpy().data)

    def load(self, path: Path) -> None:
        """Read all rows from a file that `save` wrote."""
        expected = self.values.numel() * ITEM
        if path.stat().st_size != expected:
            raise OSError(f"{path} has {path.stat().st_size} bytes, not the {expected} of {self.n_rows} rows")
        with path.open("rb") as file:
            for block in self.values.split(self._block):
                data = bytearray(block.numel() * ITEM)
                file.readinto(data)
                block.copy_(torch.frombuffer(data, dtype=torch.float32).view_as(block))

    @property
    def _block(self) -> int:
        return max(1, BLOCK // max(1, self.width))

    def _draw(self, block: Tensor, generator: torch.Generator) -> Tensor:
        return block.copy_(torch.randn(block.shape, generator=generator) * self.std) if self.std else block

    def _release(self, n_rows: int) -> None:
        """Let go of the pages of a file now and then: it stays in the system's cache, not in this process's memory."""
        self._touched += n_rows
        if self._map is not None and self._touched > RELEASE_AFTER and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0
