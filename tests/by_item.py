"""A small method that judges items; on_two_processes.py fits it on several processes at once."""

import itertools

import numpy as np
import torch
from contract import everything, spec_of
from safetensors.torch import save_file
from torch.nn import functional as F

from pidual.data.pi import EncodedPI
from pidual.learn.batch import Rows
from pidual.learn.engine import Interrupted, Session, Training, fit, make_fabric
from pidual.learn.engine.checkpoint import StateStore
from pidual.learn.methods.base import Method
from pidual.learn.methods.parts.memory import SampleMemory
from pidual.learn.methods.parts.processes import gather, n_processes
from pidual.learn.nets import MLP, PILinear, Standardize

TRAINING = Training(epochs=3, batch_size=14, lr=0.05, clip=1.0, seed=3, guard="off")


class ByItem(Method):
    """Mean over items of the sum of their answers' cross-entropies, which it remembers; answers depend on PI too."""

    by_item = True

    def __init__(self, f, spec):
        super().__init__(f, spec)
        self.random_pi = 2
        self.answers = PILinear(spec.cardinalities, spec.n_numbers + self.random_pi, spec.n_classes)
        self.remembered = SampleMemory(spec.n_train, 1)

    def forward(self, batch):
        logits = self.f(batch.x)[batch.item] + self.answers(batch.a.codes, batch.a.numbers)
        losses = F.cross_entropy(logits, batch.y_noisy, reduction="none")
        self.remembered.update(batch.index, losses[:, None])
        return {"loss": (losses * batch.weight).sum() / len(batch.fold)}


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

    def make():
        f = MLP(5, 3, width=16, depth=1, dropout=dropout, standardize=Standardize(np.zeros(5), np.ones(5)))
        return ByItem(f, spec_of(rows, 3, (6,)))

    return make


def fit_in_double(folder=None):
    """Weights and memory, in double precision; with a folder for the state, stopped once and continued."""
    rows, fabric = crowd(), make_fabric("cpu", "64-true")
    store, steps = StateStore(folder) if folder else None, itertools.count(1)
    make = build(rows, dropout=0.0)
    if store:
        try:
            fit(make, rows, rows, TRAINING, Session(fabric, store=store, stop=lambda: next(steps) == 11))
        except Interrupted:
            pass
        else:
            raise AssertionError("was not stopped")
    return everything(fit(make, rows, rows, TRAINING, Session(fabric, store=store)))


def check_gather(rank):
    """Rows of processes that have different numbers of them, none among these."""
    for counts in ((2, 5), (5, 2), (0, 3), (4, 4)):
        own = torch.arange(counts[rank]) + 10 * rank
        expected = torch.cat([torch.arange(count) + 10 * other for other, count in enumerate(counts)])
        assert torch.equal(gather(own), expected)
        assert torch.equal(gather(torch.stack([own, -own], 1)), torch.stack([expected, -expected], 1))
        assert torch.equal(gather(own > 1), expected > 1)


def fit_on_two(out):
    """On either of two processes: OUT/by_item.safetensors, the memory among the weights."""
    tensors = fit_in_double(out / "by_item")
    rank = make_fabric("cpu").global_rank
    assert n_processes() == 2
    check_gather(rank)
    if rank == 0:
        save_file(tensors, out / "by_item.safetensors")
