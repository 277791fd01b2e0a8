"""The resume point of a run: one safetensors file, replaced in one step, so that it is always readable.

Memories with a value per training row may be larger than the machine's: each is written to a file of its own, which
the state names. The files a state names stay until the next one is in place.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import RunError
from ..files import replacing
from ..methods.parts import SampleMemory


class StateStore:
    """Keeps the newest training state in a folder.

    Parameters
    ----------
    folder : Path
        Made when the first state is saved.
    save_every : float
        Seconds between two states within an epoch.
    """

    def __init__(self, folder: Path, save_every: float = 15.0):
        self.folder = folder
        self.path = folder / "state.safetensors"
        self.save_every = save_every

    def part(self, name: str) -> "StateStore":
        """A store of its own for a part of the run."""
        return StateStore(self.folder / name, self.save_every)

    def values(self) -> dict[str, Any] | None:
        """The stored values without the tensors, or None where there is no state."""
        return load_values(self.path) if self.path.exists() else None

    def save(
        self,
        tensors: Mapping[str, Tensor],
        values: Mapping[str, Any],
        memories: Mapping[str, SampleMemory] | None = None,
    ) -> None:
        """Replace the stored state."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            before = (self.values() or {}).get("memories", {}) if memories else {}
            files = {}
            for name, memory in (memories or {}).items():
                first, second = memory_files(name)
                files[name] = second if before.get(name) == first else first
                memory.save(self.folder / files[name])
            save_tensors(self.path, tensors, {**values, "memories": files})
            for name, file in files.items():
                for other in {*memory_files(name)} - {file}:
                    (self.folder / other).unlink(missing_ok=True)
        except OSError as error:
            kept = "the state saved before is kept" if self.path.exists() else "no state was saved before"
            raise RunError(
                f"cannot write {self.path} ({error}); {kept}. Make room, then continue with --resume."
            ) from error

    def load_memories(self, memories: Mapping[str, SampleMemory], files: Mapping[str, str]) -> None:
        """Read back the memories of the stored state."""
        for name, memory in memories.items():
            if files.get(name) not in memory_files(name):  # a name in a file is data: it must not lead elsewhere
                raise RunError(f"{self.path} names no file of the memory '{name}'; the state is damaged, fit again.")
            path = self.folder / files[name]
            with readable(path):
                memory.load(path)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The stored tensors and values, or None where there is no state."""
        for left_behind in self.folder.glob(".*.tmp"):  # by a kill while saving
            left_behind.unlink(missing_ok=True)
        return load_tensors(self.path) if self.path.exists() else None


def memory_files(name: str) -> tuple[str, str]:
    """The two files that a memory is written to in turn."""
    return f"{name}-a.rows", f"{name}-b.rows"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors, and JSON values beside them, to one file, atomically."""
    with replacing(path) as temporary, disk_errors():
        plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        save_file(plain, temporary, metadata={"values": json.dumps(values)})


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """safetensors reports a full disk in an error of its own; make it the usual one."""
    try:
        yield
    except SafetensorError as error:
        raise OSError(str(error)) from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save_tensors` wrote."""
    with readable(path):
        return load_file(path), load_values(path)


def load_values(path: Path) -> dict[str, Any]:
    """The JSON values alone of what `save_tensors` wrote."""
    with readable(path), safe_open(path, framework="pt") as file:
        values: dict[str, Any] = json.loads((file.metadata() or {}).get("values", "{}"))
        return values


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever can go wrong in reading a file into one error."""
    try:
        yield
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"cannot read {path} ({error}); the file is damaged or not one of ours.") from error


def pack_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The per-parameter state of optimizers as named tensors and JSON values."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for which, optimizer in enumerate(optimizers):
        for number, entries in optimizer.state_dict()["state"].items():
            for name, value in entries.items():
                if value is not None:
                    (tensors if isinstance(value, Tensor) else values)[f"{which}.{number}.{name}"] = value
    return tensors, values


def unpack_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> None:
    """Put back what `pack_optimizers` took out."""
    states: list[dict[int, dict[str, Any]]] = [{} for _ in optimizers]
    for key, value in (dict(tensors) | dict(values)).items():
        which, number, name = key.split(".", 2)
        states[int(which)].setdefault(int(number), {})[name] = value
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
