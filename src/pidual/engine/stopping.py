"""How training is stopped: on one process, or on several that train apart."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import SingleDeviceStrategy

from ..errors import PidualError

T = TypeVar("T")


class Interrupted(PidualError):  # noqa: N818 - a request that was met, not a fault
    """Training was asked to stop; its state is saved where there is a place to save it."""

    exit_code = 130


class Together:
    """Processes that train apart, each for itself, and stop together.

    They meet once per step to say whether one of them was asked to stop. A process with nothing left to train keeps
    meeting the others until all are done, so that nobody waits for long, or for a process that has gone.

    Parameters
    ----------
    fabric : Fabric
        Of all processes.
    stop : callable
        Whether this process was asked to stop.
    """

    def __init__(self, fabric: Fabric, stop: Callable[[], bool]):
        self.fabric, self.stop = fabric, stop
        self.rank, self.world_size = fabric.global_rank, fabric.world_size

    @cached_property
    def own_fabric(self) -> Fabric:
        """A Fabric of this process alone, on its own device."""
        if self.world_size == 1:
            return self.fabric
        device, precision = self.fabric.device, self.fabric.strategy.precision.precision
        strategy = SingleDeviceStrategy(device=device)
        fabric = Fabric(accelerator=device.type, devices=1, strategy=strategy, precision=precision)
        fabric.launch()
        return fabric

    def asked_to_stop(self) -> bool:
        """Whether any process was asked to stop; to be called at every step."""
        return self.meet(busy=True)[0]

    def wait(self) -> None:
        """Return when all processes are done with their own work."""
        busy = self.world_size > 1
        while busy:
            stopping, busy = self.meet(busy=False)
            if stopping:
                raise Interrupted("stopped while another process was training")

    def meet(self, *, busy: bool) -> tuple[bool, bool]:
        """Whether any process was asked to stop, and whether any is busy."""
        if self.world_size == 1:
            return self.stop(), busy
        flags = torch.tensor([float(self.stop()), float(busy)])
        stopping, working = self.fabric.all_reduce(flags, reduce_op="max").tolist()
        return bool(stopping), bool(working)

    def exchange(self, own: Mapping[int, T], n: int) -> list[T]:
        """Values 0 ... n - 1 for all processes, of which process r has r, r + W, ... for W processes."""
        if self.world_size == 1:
            return [own[at] for at in range(n)]
        found: list[T] = [self.fabric.broadcast(own.get(at), src=at % self.world_size) for at in range(n)]
        return found
