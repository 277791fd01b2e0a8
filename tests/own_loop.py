"""A plain loop with PiDualLoss, on one process or on two (`on_two_processes.py`)."""

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pidual import PiDualLoss

ROWS, K = 40, 4


def tensors():
    """Inputs, labels and PI."""
    random = torch.Generator().manual_seed(5)
    codes = torch.stack([torch.randint(size, (ROWS,), generator=random) for size in (7, 2)], 1)
    codes[1, 0] = -1
    pi = {"codes": codes, "numbers": torch.randn(ROWS, 3, generator=random), "index": torch.arange(ROWS)}
    return torch.randn(ROWS, 6, generator=random), torch.randint(K, (ROWS,), generator=random), pi


def make(**options):
    """A network and its loss, the same each time."""
    torch.manual_seed(0)
    f = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, K))
    return f, PiDualLoss(K, **{"codes": [7, 2], "numbers": 3, "n_rows": ROWS, "width": 16, "seed": 3} | options)


def step(f, loss, optimizer, rows):
    """Learn from some rows."""
    x, y, pi = tensors()
    optimizer.zero_grad()
    loss(f(x[rows]), y[rows], **{name: values[rows] for name, values in pi.items()}).backward()
    optimizer.step()


def run(out):
    """Five steps on two processes, each with every other row."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    f, loss = (DistributedDataParallel(module) for module in make())
    optimizer = torch.optim.SGD([*f.parameters(), *loss.parameters()], lr=0.1)
    for _ in range(5):
        step(f, loss, optimizer, slice(dist.get_rank(), None, 2))
    if dist.get_rank() == 0:
        save_file({**f.module.state_dict(), **loss.module.state_dict()}, out / "own_loop.safetensors")
