"""A small method that judges items; run under torchrun, it is fitted on several processes at once.

torchrun --nproc-per-node 2 tests/by_item.py OUT      # OUT.safetensors
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from pidual.batch import Rows
from pidual.encode import EncodedPI
from pidual.engine import Training, fit, make_fabric
from pidual.methods import CE
from pidual.nets import MLP

TRAINING = Training(epochs=3, batch_size=14, lr=0.05, clip=1.0, seed=3, guard="off")


class ByItem(CE):
    """Mean over items of the sum of their answers' cross-entropies."""

    by_item = True

    def forward(self, batch):
        losses = F.cross_entropy(self.f(batch.x)[batch.item], batch.y_noisy, reduction="none")
        return {"loss": batch.sum_by_item(losses * batch.weight).mean()}


def crowd(n_items=120):
    """Annotations of 120 items, 1 to 9 of each but 300 of one, in no order, with weights, PI and folds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_items)
    x = (rng.normal(size=(n_items, 5)) + 2 * np.eye(3, 5)[y]).astype(np.float32)
    counts = rng.integers(1, 10, n_items)
    counts[11] = 300
    x_row = rng.permutation(np.repeat(np.arange(n_items), counts))
    n = len(x_row)
    label = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), y[x_row])
    pi = EncodedPI(rng.integers(0, 6, (n, 1)).astype(np.int32), rng.normal(size=(n, 2)).astype(np.float32))
    weight = rng.random(n).astype(np.float32) + 0.5
    codes = rng.permutation(10 * n_items)[:n_items] - 50  # neither dense nor in the order of x
    return Rows.build(x, x_row, label, pi, weight / weight.mean(), 1, item=codes[x_row], fold=(x_row * 7) % 5)


def build(rows, dropout=0.2):
    """The method, small."""
    return lambda: ByItem(MLP(5, 3, width=16, depth=1, dropout=dropout), rows.spec(3))


if __name__ == "__main__":
    rows = crowd()
    fabric = make_fabric("cpu", "64-true")
    fitted = fit(build(rows, dropout=0.0), rows, rows, TRAINING, fabric=fabric)
    if fabric.global_rank == 0:
        save_file(fitted.last, Path(sys.argv[1]))
    if torch.distributed.is_initialized():  # a process that ends while another still talks to it may abort
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
