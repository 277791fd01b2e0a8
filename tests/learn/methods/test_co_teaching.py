"""Co-teaching against plain loops: which rows are chosen, by whom and for whom, and how many in which epoch."""

import itertools
import math

import pytest
import torch
from contract import TRAINING
from torch import nn
from toy import batch_of, log_softmax

from pidual.learn.batch import Spec
from pidual.learn.methods.co_teaching import CoTeaching
from pidual.learn.nets import MLP

N, K, B = 20, 3, 8


class Half(nn.Module):
    """One half of the input as logits: f and g see logits of their own."""

    def __init__(self, second):
        super().__init__()
        self.second = second

    def forward(self, x):
        return x[:, K:] if self.second else x[:, :K]


def make(epochs=200, epoch=0, **options):
    method = CoTeaching(Half(False), Spec(N, K, epochs=epochs), **options)
    method.g = Half(True)
    begin(method, epoch)
    return method


def begin(method, epoch):
    def scan(function, *, with_x=True, augmented=False):
        raise AssertionError("nothing is scanned")

    assert not method.begin_epoch(epoch, scan)


def make_batch(scale=1.0, weight=None):
    x = (scale * torch.randn(B, 2 * K)).requires_grad_()
    return batch_of(torch.arange(B), x, torch.randint(0, K, (B,)), weight)


def cross_entropy(f, y):
    return -log_softmax(f)[y]


def chosen_by_loops(losses, kept):
    """The rows with the floor(kept * B) smallest losses, at least one."""
    order = sorted(range(len(losses)), key=lambda row: losses[row])
    return set(order[: max(1, math.floor(kept * len(losses) + 1e-6))])


def loss_by_loops(x, y, weight, kept):
    losses = [[cross_entropy(row[part], label) for row, label in zip(x, y, strict=True)] for part in HALVES]
    total = 0.0
    for mine, other in (losses, losses[::-1]):
        rows = chosen_by_loops(other, kept)
        total += sum(weight[i] * mine[i] for i in rows) / sum(weight[i] for i in rows)
    return total


HALVES = slice(0, K), slice(K, None)


@pytest.mark.parametrize(("epoch", "kept"), [(0, 1.0), (3, 1 - 0.5 * 3 / 9), (9, 0.5), (120, 0.5)])
def test_loss_and_gradients_equal_plain_loops(epoch, kept):
    method, batch = make(epoch=epoch, noise_rate=0.5), make_batch(weight=0.5 + torch.rand(B))
    logs = method(batch)
    logs["loss"].backward()
    x, y, weight = batch.x.tolist(), batch.y_noisy.tolist(), batch.weight.tolist()
    assert logs["loss"].item() == pytest.approx(loss_by_loops(x, y, weight, kept), abs=1e-5)
    for i, k in itertools.product(range(B), range(2 * K)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [list(row) for row in x]
            moved[i][k] += step
            ends.append(loss_by_loops(moved, y, weight, kept))
        assert batch.x.grad[i, k].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("epochs", "options", "kept"),
    [
        (200, {}, [1 - 0.2 * min(e / 9, 1) for e in range(200)]),
        (200, {"noise_rate": 0.45, "exponent": 2.0}, [1 - 0.45**2 * min(e / 9, 1) for e in range(200)]),
        (20, {"noise_rate": 0.5, "ramp": 0.5}, [1 - 0.5 * min(e / 9, 1) for e in range(20)]),
        (30, {}, [1.0] + [0.8] * 29),
        (1, {}, [1.0]),
        (4, {"noise_rate": 0.0}, [1.0] * 4),
    ],
)
def test_kept_share_of_every_epoch(epochs, options, kept):
    method = make(epochs, **options)
    for epoch in range(epochs):
        begin(method, epoch)
        assert method.kept() == pytest.approx(kept[epoch], abs=1e-9)


def test_at_least_one_row_is_kept():
    method, batch = make(epoch=50, noise_rate=0.99), make_batch()
    loss = method(batch)["loss"]
    loss.backward()
    assert torch.isfinite(loss)
    assert [int(batch.x.grad[:, part].any(1).sum()) for part in HALVES] == [1, 1]


def test_prediction_is_the_mean_of_both_softmaxes():
    method, batch = make(), make_batch(scale=30.0)
    x = batch.x.detach()
    expected = (x[:, :K].double().softmax(1) + x[:, K:].double().softmax(1)) / 2
    assert torch.allclose(method.logits(x).softmax(1).double(), expected, atol=1e-6)
    assert torch.isfinite(method.logits(x)).all()


def build(rows, n_classes=3):
    spec = Spec(len(rows), n_classes, epochs=TRAINING.epochs)
    return lambda: CoTeaching(MLP(rows.x.shape[1], n_classes, width=16, depth=1), spec, noise_rate=0.3)
