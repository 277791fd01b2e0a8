"""CORES*: what CORES records, the second stage by plain loops, and both stages in the engine."""

import itertools
import math

import pytest
import torch
from contract import TRAINING
from torch import nn
from toy import batch_of_views, softmax

from pidual.learn.batch import Spec
from pidual.learn.engine import fit
from pidual.learn.methods.cores_star import CORESStar
from pidual.learn.nets import MLP

N, K, B = 20, 4, 6


def make(dropped=(), epochs=100, **options):
    """The network passes x on: the tests' inputs are logits."""
    method = CORESStar(nn.Identity(), Spec(N, K, epochs=epochs), **options)
    method.before.looks_wrong[list(dropped)] = True
    return method


def random_batch(weight=None):
    views = tuple(torch.randn(B, K).requires_grad_() for _ in range(2))
    return batch_of_views(torch.arange(B), views, torch.randint(0, K, (B,)), weight)


def mean(values, weight):
    return sum(w * value for w, value in zip(weight, values, strict=True)) / sum(weight) if weight else 0.0


def loss_by_loops(weak, strong, y, w, dropped):
    kept_terms, kept_weight, dropped_terms, dropped_weight = [], [], [], []
    for i in range(B):
        t, p = softmax(weak[i]), softmax(strong[i])
        if i in dropped:
            dropped_terms.append(sum(t[k] * math.log(t[k] / p[k]) for k in range(K)))
            dropped_weight.append(w[i])
        else:
            kept_terms.append(-math.log(p[y[i]]))
            kept_weight.append(w[i])
    return mean(kept_terms, kept_weight) + 0.9 * mean(dropped_terms, dropped_weight)


@pytest.mark.parametrize("dropped", [(1, 4), (), tuple(range(B))])
def test_loss_and_gradients_equal_plain_loops(dropped):
    method, batch = make(dropped), random_batch(0.5 + torch.rand(B))
    logs = method(batch)
    logs["loss"].backward()
    weak, strong = (view.tolist() for view in batch.views)
    y, w = batch.y_noisy.tolist(), batch.weight.tolist()
    assert logs["loss"].item() == pytest.approx(loss_by_loops(weak, strong, y, w, dropped), abs=1e-5)
    assert logs["kept"].item() == pytest.approx(1 - len(dropped) / B)
    assert not batch.views[0].grad.any()  # a fixed target
    for i, k in itertools.product(range(B), range(K)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [list(row) for row in strong]
            moved[i][k] += step
            ends.append(loss_by_loops(weak, moved, y, w, dropped))
        assert batch.views[1].grad[i, k].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


@pytest.mark.parametrize(("epochs", "options", "recorded_in"), [
    (100, {}, 40), (1, {}, 0), (4, {}, 1), (5, {}, 2), (35, {}, 14), (200, {}, 80),
    (10, {"record_at": 0.9}, 9), (10, {"record_at": 1.0}, 9), (10, {"record_at": 0.0}, 0),
])  # fmt: skip
def test_cores_records_the_sign_of_its_score_in_one_epoch(epochs, options, recorded_in):
    """Also where the sieve is not on yet; and rows that the epoch does not visit look right."""
    cores = make(epochs=epochs, **options).before
    labels = torch.arange(N) % K
    recorded = []
    for epoch in range(epochs):
        cores.begin_epoch(epoch, lambda function, *, with_x=True, augmented=False: labels)
        logits = torch.randn(N - 2, K)
        before = cores.looks_wrong.clone()
        cores(batch_of_views(torch.arange(N - 2), (logits,), labels[: N - 2]))
        if not torch.equal(cores.looks_wrong, before):
            recorded.append(epoch)
            for i, (f, y) in enumerate(zip(logits.tolist(), labels.tolist(), strict=False)):
                assert bool(cores.looks_wrong[i]) == (f[y] < sum(f) / K)  # CE_i - mean_k l_ik = mean_k f_k - f_y
            assert not cores.looks_wrong[N - 2 :].any()
    assert recorded == [recorded_in]


def build(rows, n_classes=3):
    spec = Spec(len(rows), n_classes, epochs=TRAINING.epochs)
    return lambda: CORESStar(MLP(rows.x.shape[1], n_classes, width=16, depth=1, dropout=0.2), spec)


def test_what_was_recorded_does_not_depend_on_the_epoch_that_validation_would_choose(rows):
    """And it holds more wrong labels than chance would."""
    none_right = rows.subset(torch.arange(240))
    none_right.y_noisy.copy_((none_right.y_noisy + 1) % 3)  # validation prefers the first epoch
    fitted = fit(build(rows), rows, none_right, TRAINING)
    again = fit(build(rows), rows, rows, TRAINING)
    dropped = fitted.method.before.looks_wrong
    assert torch.equal(dropped, again.method.before.looks_wrong)
    spammer = rows.codes[:, 0] < 2  # two of six annotators guess
    assert 0 < dropped.sum() < 120
    assert dropped[spammer].float().mean() > 2 * dropped[~spammer].float().mean()
