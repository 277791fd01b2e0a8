"""What a fit runs on and with: processes, a place for its state, whoever watches it, and how it is stopped."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral

import torch
from lightning_fabric import Fabric
from torch import nn

from ...errors import PidualError, UsageError
from ...options.launcher import place_among_processes
from ..methods.base import Method
from .callbacks import Callback, Progress
from .checkpoint import StateStore

SMALL = 1e8  # multiply-adds of a step
CHOSEN_OUTSIDE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "LOCAL_WORLD_SIZE")  # by the user; by torchrun


class Interrupted(PidualError):  # noqa: N818 - a request that was met, not a fault
    """Training was asked to stop; its state is saved where there is a place to save it.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, Interrupted, fit_table, make_crowd
    >>> crowd = make_crowd(60, 6)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> try:
    ...     fit_table(table, Inputs.from_array(crowd.x), "runs/crowd", stop=lambda: True)
    ... except Interrupted:
    ...     print("continue it with resume=True")
    continue it with resume=True
    """

    exit_code = 130


@dataclass(frozen=True)
class Session:
    """What a fit runs on and with."""

    fabric: Fabric | None = None  # device, precision and processes; by default made for the precision of the training
    store: StateStore | None = None  # where the state is saved; a state found there is continued
    callbacks: Sequence[Callback] = ()  # called with the trainer, in this order
    stop: Callable[[], bool] = lambda: False  # asked at every step; True saves the state and raises Interrupted

    @property
    def is_first(self) -> bool:
        """Return whether this is the first process, which alone writes files."""
        return self.fabric is None or self.fabric.global_rank == 0

    @property
    def progress(self) -> Progress:
        """Return the callback that shows progress."""
        return next((each for each in self.callbacks if isinstance(each, Progress)), Progress())

    def part(self, name: str) -> "Session":
        """Return a session whose state is a part of this one's."""
        return replace(self, store=self.store.part(name) if self.store else None)


def make_fabric(accelerator: str = "auto", precision: str = "32-true") -> Fabric:
    """Make a Fabric for this process: one device, or as many processes and nodes as torchrun started."""
    place = place_among_processes()
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=place.local_world,
            num_nodes=place.world // place.local_world,
            strategy="ddp" if place.world > 1 else "auto",
            precision=precision,
        )
    except (ValueError, RuntimeError) as error:
        here = _devices()
        if accelerator in ("cuda", "gpu", "mps") and accelerator not in here and (accelerator, len(here)) != ("gpu", 2):
            raise UsageError(
                f"accelerator='{accelerator}': torch finds no such GPU here, only {' and '.join(here)}; leave it out, "
                "or install torch's build for your GPU (pidual doctor)."
            ) from error
        reason = str(error).rstrip(".")
        raise UsageError(f"Cannot use accelerator '{accelerator}' with precision '{precision}': {reason}.") from error
    fabric.launch()
    if fabric.device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True  # as convolutions are by default
    return fabric


def _devices() -> list[str]:
    """Return the accelerators that torch finds, by the names of Fabric."""
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return ["cpu", *(name for name, there in found.items() if there)]


def usual_precision(accelerator: str) -> str:
    """Return the number format that training has by default: autocast to bfloat16 on CUDA devices that can."""
    cuda = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return "bf16-mixed" if cuda else "32-true"


def predicting_fabric(accelerator: str = "auto") -> Fabric:
    """Return a Fabric to predict with, kept for the next time: making one looks through all installed packages."""
    return _kept_fabric(accelerator, os.getpid(), *place_among_processes())


@lru_cache(maxsize=4)
def _kept_fabric(accelerator: str, *process: int) -> Fabric:
    return make_fabric(accelerator)


def choose_threads(method: Method, batch_size: int, asked: int | None = None) -> int:
    """Return the threads asked for; else one where a step of training is small, and as many as torch has where not.

    `batch_size` rows are a step. Where nobody asks, environment variables and torchrun come first.
    """
    cores = os.cpu_count() or 1
    if asked is not None:
        if isinstance(asked, bool) or not isinstance(asked, Integral) or not 1 <= asked <= cores:
            raise UsageError(f"threads must be a whole number from 1 to {cores}, the number of cores, not {asked!r}.")
        return int(asked)
    chosen = any(os.environ.get(name) for name in CHOSEN_OUTSIDE)
    return 1 if not chosen and _is_small(method, batch_size) else torch.get_num_threads()


def _is_small(method: Method, batch_size: int) -> bool:
    """Return whether a step takes at most SMALL multiply-adds forward; networks with convolutions are not small."""
    if any(parameter.ndim > 2 for parameter in method.parameters()):
        return False
    weights = sum(layer.weight.numel() for layer in method.modules() if isinstance(layer, nn.Linear))
    return weights * batch_size * method.n_views <= SMALL


def threads_on_resume(recorded: int, chosen: int) -> int:
    """Return the threads of a resumed fit: those recorded when it was started, if possible, so that it ends in the same
    bits; else those chosen for one that would start now.
    """
    possible = 1 <= recorded <= (os.cpu_count() or 1) and "LOCAL_WORLD_SIZE" not in os.environ
    return recorded if possible else chosen


@contextlib.contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Compute with this many threads, and afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
