"""What a benchmark will take, measured by a few real steps of each method before anything is started.

Operations and memory grow in line with the rows of a step: steps of two and of four rows say by how much per row. What
is kept for the backward pass is measured; weights count three times (their gradients and momentum too), numbers of a
method's rows once. Steps are those of all epochs and stages; phases of a later epoch count as the first one.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from ..data.datasets.base import NoisyDataset
from ..fit.prepare import Job
from .published import points
from .runs import Fit
from .score import prepare_data, try_out
from .search import recipe_search

FEW, MORE = 2, 4  # rows of a step
STEPS = 2  # that are timed
TIMED_OPERATIONS = 2e10  # of a step that is timed, about; with fewer rows at the most


@dataclass(frozen=True)
class Cost:
    """What the fits of a method take, or of several together."""

    # fits, searched: fits in all, and how many of them search options
    fits: int = 0
    searched: int = 0
    steps: int = 0  # of all of them
    operations: float = 0.0  # Floating-point operations of all of them, forward and backward
    memory: float = 0.0  # bytes that one of them needs at the most, beside the data
    seconds: float = 0.0  # of all of them on this machine, as long as steps of a few rows take
    # parameters, loss: of the networks of one fit
    parameters: int = 0
    loss: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        sums = {name: getattr(self, name) + getattr(other, name) for name in ("fits", "searched", "steps")}
        sums |= {name: getattr(self, name) + getattr(other, name) for name in ("operations", "seconds")}
        return Cost(**sums, memory=max(self.memory, other.memory))

    def to_json(self, teraflops: float) -> dict[str, Any]:
        """Return all numbers, with hours on a GPU of this speed."""
        return {**vars(self), "gpu_hours": self.operations / teraflops / 3.6e15}

    def describe(self, teraflops: float) -> str:
        """Return the numbers of a method in words."""
        return f"{self.parameters:,} parameters; {self.describe_sum(teraflops)}"

    def describe_sum(self, teraflops: float) -> str:
        """Return the numbers of several methods in words."""
        fits = f"{self.fits} fits" + (f" ({self.searched} of them search options)" if self.searched else "")
        hours = f"{self.operations / teraflops / 3.6e15:,.2g} hours at {teraflops:g} TFLOP/s"
        here = f"about {self.seconds / 3600:,.2g} hours here"
        work = f"{self.steps:,} steps, {self.operations:.2g} operations"
        return f"{fits}, {work}, {self.memory / 1e9:.2g} GB; {hours}, {here}"


def measure_cost(fit: Fit, data: NoisyDataset, seeds: int, *, tune: bool, threads: int | None) -> Cost:
    """Take a few steps of a fit; return what this many seeds of it take, and the search for its options."""
    job = prepare_data(data, replace(fit.options(data.noise_rate), threads=threads))
    searched = 0
    if tune:
        own = {name: values for name, values in fit.recipe.search.items() if name not in fit.changes}
        _, search = recipe_search(fit.recipe, data, fit.method, changes=fit.changes, own=own or None)
        searched = len(points(search)) if search else 0
    few, few_bytes = _count(job, FEW)
    more, more_bytes = _count(job, MORE)
    batch, fits = job.training.batch_size, seeds + searched
    timed = int(np.clip(TIMED_OPERATIONS * MORE / max(more, 1), MORE, batch))
    plain = try_out(job, steps=STEPS, batch_size=timed)
    stages = plain["steps"] // STEPS
    steps = fits * stages * job.training.epochs * -(-int(job.train.sum()) // batch)
    further = (batch - FEW) / (MORE - FEW)  # rows of a step beside the few, counted in what was added to them
    return Cost(
        fits,
        searched,
        steps,
        operations=steps * (few + (more - few) * further),
        memory=4 * (3 * plain["parameters"] + plain["row_values"]) + (more_bytes - few_bytes) * (further + 1),
        seconds=steps * plain["seconds"] / timed * batch,
        parameters=plain["parameters"],
        loss=plain["loss"],
    )


def _count(job: Job, rows: int) -> tuple[float, int]:
    """Return the operations of a step of this many rows, and the bytes kept for its backward pass."""
    operations, kept = FlopCounterMode(display=False), dict[int, int]()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with operations, saved_tensors_hooks(keep, lambda tensor: tensor):
        steps = try_out(job, steps=1, batch_size=rows)["steps"]
    return operations.get_total_flops() / steps, sum(kept.values())
