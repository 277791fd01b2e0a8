"""Values of all processes that train together."""

import torch
from torch import Tensor, distributed

from ...batch import Batch


def n_processes() -> int:
    """Return how many processes train together."""
    ready = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if ready else 1


def gather(values: Tensor) -> Tensor:
    """Gather the rows of all processes, one process after the other; each may have another number of them."""
    own = torch.tensor([len(values)], device=values.device)
    counts = [torch.empty_like(own) for _ in range(n_processes())]
    distributed.all_gather(counts, own)
    lengths = [int(count) for count in counts]
    padded = torch.cat([values, values.new_zeros((max(lengths) - len(values), *values.shape[1:]))])
    parts = [torch.empty_like(padded) for _ in lengths]
    distributed.all_gather(parts, padded)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum of every process's value, without gradient."""
    value = value.detach().clone()
    if n_processes() > 1:
        distributed.all_reduce(value)
    return value


def of_first_process(values: Tensor) -> Tensor:
    """Return what the first process has found: batch normalisation makes scans differ, but rows must not."""
    return gather(values)[: len(values)] if n_processes() > 1 else values


def kept_mean(batch: Batch, losses: Tensor, keep: Tensor) -> Tensor:
    """Return the mean of the losses of kept rows over all processes' rows; 0 where no row is kept."""
    kept = sum_over_processes((keep * batch.weight).sum())
    total: Tensor = (losses * keep * batch.weight).sum()
    return total * n_processes() / kept.clamp(min=1e-12)
