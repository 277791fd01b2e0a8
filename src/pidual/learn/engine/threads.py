"""How many threads of the processor a fit uses; docs/settings.md has the rule and what it rests on."""

import contextlib
import os
from collections.abc import Iterator
from numbers import Integral

import torch
from torch import nn

from ...errors import UsageError
from ..methods.base import Method

SMALL = 1e8  # multiply-adds of a step
CHOSEN_OUTSIDE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "LOCAL_WORLD_SIZE")  # by the user; by torchrun


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
