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

from ...errors import RunError
from ...files import fingerprint, replacing
from ...run.records.config import Position, State
from ...run.records.reading import FORMAT, file_digest, parse_record
from ..methods.parts.memory import SampleMemory

START_ANEW = (
    "the state is damaged or of another run, so replace the run with --force (force=True in Python) or copy the state "
    "again"
)


class StateStore:
    """Keeps the newest training state in a folder.

    `folder`: made when the first state is saved.
    `save_every`: seconds between two states within an epoch.
    `run`: id of the run the states are of, where there is one; a state of another run is refused.
    """

    def __init__(self, folder: Path, save_every: float = 15.0, run: str = ""):
        self.folder = folder
        self.path = folder / "state.safetensors"
        self.save_every, self.run = save_every, run

    def part(self, name: str) -> "StateStore":
        """Return a store of its own for a part of the run."""
        return StateStore(self.folder / name, self.save_every, self.run)

    def values(self) -> State | None:
        """Read the stored values without the tensors, or None where there is no state."""
        return self._values(_read_notes(self.path)) if self.path.exists() else None

    def history(self) -> list[dict[str, Any]]:
        """Read the records of all epochs that are stored: of this state, or else of the parts that came first."""
        state = self.values() or self.part("before").values()
        return [] if state is None else list(state.position.history)

    def save(
        self,
        tensors: Mapping[str, Tensor],
        position: Position,
        optimizer: Mapping[str, Any],
        memories: Mapping[str, SampleMemory] | None = None,
    ) -> None:
        """Replace the stored state."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            stored = self.values() if memories else None
            before = {} if stored is None else stored.memories
            files = {}
            for name, memory in (memories or {}).items():
                first, second = _memory_files(name)
                files[name] = second if before.get(name) == first else first
                memory.save(self.folder / files[name])
            digests = {name: file_digest(self.folder / file) for name, file in files.items()}
            text = json.dumps(State(FORMAT, position, dict(optimizer), files, digests, self.run).to_json())
            save_tensors(self.path, tensors, {"state": text, "digest": state_digest(tensors, text)})
            for name, file in files.items():
                for other in {*_memory_files(name)} - {file}:
                    (self.folder / other).unlink(missing_ok=True)
        except OSError as error:
            kept = "the state saved before is kept" if self.path.exists() else "no state was saved before"
            raise RunError(
                f"cannot write {self.path} ({error}); {kept}. Free some space, then continue with --resume "
                "(resume=True in Python)."
            ) from error

    def load_memories(self, memories: Mapping[str, SampleMemory], values: State) -> None:
        """Read back the memories of the stored state, whose values these are."""
        files, digests = values.memories, values.memory_digests
        for name, memory in memories.items():
            if files.get(name) not in _memory_files(name):  # a name in a file is data: it must not lead elsewhere
                raise RunError(f"{self.path} names no file of the memory '{name}'; the state is damaged, fit again.")
            path = self.folder / files[name]
            with readable(path):
                if digests.get(name) != file_digest(path):
                    raise RunError(f"{path} is not the file that {self.path} was saved with; {START_ANEW}.")
                memory.load(path)

    def load(self) -> tuple[dict[str, Tensor], State] | None:
        """Read the stored tensors and values, or None where there is no state."""
        for left_behind in self.folder.glob(".*.tmp"):  # by a kill while saving
            left_behind.unlink(missing_ok=True)
        if not self.path.exists():
            return None
        notes, tensors = _read_notes(self.path), load_tensors(self.path)
        values = self._values(notes)
        if state_digest(tensors, notes["state"]) != notes.get("digest"):
            raise RunError(f"cannot read {self.path} (its contents have changed since it was written); {START_ANEW}.")
        return tensors, values

    def _values(self, notes: Mapping[str, str]) -> State:
        """Read the values of a state from its notes, if it is of this run."""
        way_out = "the file is damaged or not one of ours"
        values = parse_record(self.path, notes.get("state", "{}"), State, place="state", way_out=way_out, finite=False)
        if self.run and values.run_id not in ("", self.run):
            raise RunError(f"{self.path} is the state of another run; {START_ANEW}.")
        return values


def _memory_files(name: str) -> tuple[str, str]:
    """Return the two files that a memory is written to in turn."""
    return f"{name}-a.rows", f"{name}-b.rows"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write tensors, and notes beside them, to one file, atomically."""
    with replacing(path) as temporary:
        plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        try:
            save_file(plain, temporary, metadata=dict(notes or {}))
        except SafetensorError as error:  # such as a full disk
            raise OSError(str(error)) from error


def state_digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return a digest of names, types, shapes and numbers of tensors, and of the values beside them."""

    def parts() -> Iterator[bytes | memoryview]:
        yield text.encode()
        for name in sorted(tensors):
            tensor = tensors[name].detach().cpu()
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
            yield tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data

    return fingerprint(parts())


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote."""
    with readable(path):
        tensors: dict[str, Tensor] = load_file(path)
        return tensors


def _read_notes(path: Path) -> dict[str, str]:
    with readable(path), safe_open(path, framework="pt") as file:
        notes: dict[str, str] = file.metadata() or {}
        return notes


def load_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of the tensors in what `save_tensors` wrote, from its first bytes."""
    with readable(path), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping


def shape_mismatch(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """Return how shapes by name differ from what is expected, or None; shapes of tensors where these are given."""
    shapes = [
        {name: tuple(value.shape) if isinstance(value, Tensor) else value for name, value in given.items()}
        for given in (expected, found)
    ]
    for name in {**shapes[0], **shapes[1]}:
        want, have = (given.get(name) for given in shapes)
        if want is None or have is None:
            return f"{name[:200]} is {'unknown' if want is None else 'missing'}"
        if want != have:
            return f"{name[:200]} has the shape {list(have)}, not {list(want)}"
    return None


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever can go wrong in reading a file into one error."""
    try:
        yield
    except (OSError, SafetensorError, ValueError, OverflowError) as error:
        raise RunError(f"cannot read {path} ({error}); the file is damaged or not one of ours.") from error


def pack_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the per-parameter state of optimizers as named tensors and JSON values."""
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
        which, number, name = key.split(".")
        states[int(which)].setdefault(int(number), {})[name] = value
    for optimizer, state in zip(optimizers, states, strict=True):
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
