"""Forward-T: the loss by plain loops, T by hand and by NumPy, and both stages in the engine."""

import itertools
import math

import numpy as np
import pytest
import torch
from contract import TRAINING, spec_of
from torch import nn
from torch.nn import functional as F
from toy import batch_of, softmax

from pidual.learn.batch import Spec
from pidual.learn.engine import fit
from pidual.learn.methods.ce import CE
from pidual.learn.methods.forward_t import ForwardT, estimate_transition
from pidual.learn.nets import MLP

N, K, B = 20, 4, 6


def make(T=None, **options):
    """The network passes x on: the tests' inputs are logits."""
    method = ForwardT(nn.Identity(), Spec(N, K), **options)
    if T is not None:
        method.T.copy_(T)
    return method


def rows_of(logits, y, weight=None):
    """A batch of rows that are numbered from 0."""
    return batch_of(torch.arange(len(logits)), logits, y, weight)


def random_batch():
    return rows_of(torch.randn(B, K).requires_grad_(), torch.randint(0, K, (B,)), 0.5 + torch.rand(B))


def joint(f, y, T):
    """Clipped p_k times T_ky."""
    return [min(max(p_k, 1e-7), 1 - 1e-7) * T[k][y] for k, p_k in enumerate(softmax(f))]


def loss_by_loops(logits, y, weight, T):
    return -sum(w * math.log(sum(joint(f, label, T))) for f, label, w in zip(logits, y, weight, strict=True)) / B


def test_loss_and_gradients_equal_plain_loops():
    T = torch.rand(K, K).softmax(1)
    batch, method = random_batch(), make(T)
    loss = method(batch)["loss"]
    loss.backward()
    y, weight, rows = batch.y_noisy.tolist(), batch.weight.tolist(), batch.x.tolist()
    assert loss.item() == pytest.approx(loss_by_loops(rows, y, weight, T.tolist()), abs=1e-5)
    for i, k in itertools.product(range(B), range(K)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [list(row) for row in rows]
            moved[i][k] += step
            ends.append(loss_by_loops(moved, y, weight, T.tolist()))
        assert batch.x.grad[i, k].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


def test_probabilities_are_clipped_before_the_product():
    T = torch.full((K, K), 0.1) + 0.6 * torch.eye(K)
    f = [60.0, 0.0, 0.0, 0.0]
    expected = -math.log((1 - 1e-7) * 0.1 + 1e-7 * (0.7 + 0.1 + 0.1))
    assert make(T)(rows_of(torch.tensor([f]), [1]))["loss"].item() == pytest.approx(expected, abs=1e-6)
    assert make()(rows_of(torch.tensor([f]), [1]))["loss"].item() == pytest.approx(-math.log(1e-7), abs=1e-5)


def test_a_label_that_t_rules_out_has_a_finite_loss_and_no_gradient():
    T = torch.eye(K)
    T[1] = T[0]
    batch = rows_of(torch.randn(B, K).requires_grad_(), [1] * B)
    loss = make(T)(batch)["loss"]
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.equal(batch.x.grad, torch.zeros(B, K))


@pytest.mark.parametrize("n", [30, 101, 250])
def test_t_equals_loops_with_numpys_percentile(n):
    eta = (2 * torch.randn(n, K)).softmax(1)
    kept = eta.clone()
    T = estimate_transition(eta, outlier_filter=True)
    assert torch.equal(eta, kept)
    for i in range(K):
        column = eta[:, i].numpy()
        threshold = np.percentile(column, 97, method="higher")
        anchor = max((row for row in range(n) if column[row] < threshold), key=lambda row: column[row])
        assert T[i].tolist() == pytest.approx((eta[anchor] / eta[anchor].sum()).tolist(), abs=1e-6)


def test_degenerate_probabilities_still_give_a_stochastic_matrix():
    eta = torch.full((50, 3), 1 / 3)
    eta[:, 1], eta[7, 1] = 0.0, 1e-3  # one row is not at zero, and lies above the percentile
    for rows in (eta, eta[:1], torch.zeros(50, 3), torch.full((50, 3), math.nan)):
        T = estimate_transition(rows, outlier_filter=True)
        assert torch.allclose(T.sum(1), torch.ones(3))
        assert bool((T >= 0).all())
    assert torch.equal(T, torch.eye(3))
    T = estimate_transition(eta, outlier_filter=True)
    assert T[1].tolist() == pytest.approx((eta[7] / eta[7].sum()).tolist())  # none below: the surest of all


def test_native_score_equals_plain_loops():
    T, batch = torch.rand(K, K).softmax(1), random_batch()
    columns = make(T).per_row(batch._replace(views=()), batch.x.detach())
    expected = []
    for f, y in zip(batch.x.tolist(), batch.y_noisy.tolist(), strict=True):
        parts = joint(f, y, T.tolist())
        expected.append(1 - parts[y] / sum(parts))
    assert set(columns) == {"posterior_noise"} == set(ForwardT.scores[1:])
    assert columns["posterior_noise"].tolist() == pytest.approx(expected, abs=1e-5)
    assert not make().per_row(batch, batch.x.detach())["posterior_noise"].any()  # T = I: every label is believed


def build(rows, n_classes=3):
    return lambda: ForwardT(MLP(rows.x.shape[1], n_classes, width=16, depth=1), spec_of(rows, n_classes))


def test_the_first_stage_has_the_lowest_validation_loss_and_gives_t_once(rows):
    valid = rows.subset(torch.arange(0, 240, 4))
    valid.y_noisy[::2] = (valid.y_noisy[::2] + 1) % 3  # the surer the network becomes, the higher its loss
    fitted = fit(build(rows), rows, valid, TRAINING)
    first = [record for record in fitted.history if record.get("stage") == "first stage"]
    assert len(first) == len(fitted.history) - len(first) == TRAINING.epochs
    lowest = min(first, key=lambda record: record["valid_loss"])
    assert lowest["valid_accuracy"] < max(record["valid_accuracy"] for record in first)
    teacher = fitted.method.before
    assert type(teacher) is CE
    with torch.no_grad():
        loss = F.cross_entropy(teacher.logits(valid.x[valid.x_row]), valid.y_noisy).item()
        eta = teacher.logits(rows.x[rows.x_row]).softmax(1)
    assert loss == pytest.approx(lowest["valid_loss"], abs=1e-5)
    T = estimate_transition(eta, outlier_filter=True)
    assert torch.allclose(fitted.method.T, T, atol=1e-6)
    assert not torch.equal(fitted.method.T, torch.eye(3))
    assert not torch.equal(teacher.f.head.weight, fitted.method.f.head.weight)
