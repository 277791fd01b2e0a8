"""SOP+ against plain loops: loss, gradients, and the steps of u and v; its limits are SOP."""

import itertools
import math

import pytest
import torch
from torch import nn
from toy import batch_of_views, softmax

from pidual.learn.batch import Spec
from pidual.learn.methods.sop_plus import SOPPlus

N, K, B = 12, 4, 5
SPEC = Spec(N, K)
LR_U, LR_V = 0.5, 2.0
CONSISTENCY, BALANCE = 0.9, 0.7


def make(kind=SOPPlus, **options):
    """The network passes x on: the tests' inputs are logits. Balance weighs more than the authors', to be seen."""
    torch.manual_seed(7)
    return kind(nn.Identity(), SPEC, **{"lr_u": LR_U, "lr_v": LR_V, "std": 0.5, **options})


def make_batch(weight=None, scale=1.5):
    """Logits of two views, which differ."""
    views = tuple((scale * torch.randn(B, K)).requires_grad_() for _ in range(2))
    return batch_of_views(torch.randperm(N)[:B], views, torch.randint(0, K, (B,)), weight)


def noise(u, v, y):
    U = [min(u * u, 1.0) if k == y else 0.0 for k in range(K)]
    V = [0.0 if k == y else min(v[k] * v[k], 1.0) for k in range(K)]
    return U, V


def corrected(f, U, V):
    q = [max(p_k + U_k - V_k, 1e-4) for p_k, U_k, V_k in zip(softmax(f), U, V, strict=True)]
    return [min(max(q_k / sum(q), 1e-4), 1.0) for q_k in q]


def objective(weak, strong, targets, u, v, fixed_v, y, w, squares):
    """The whole of it. `targets` and `fixed_v` stand for the weak view and v where they have no gradient."""
    total, means = 0.0, [0.0] * K
    for i in range(B):
        U, V = noise(u[i], v[i], y[i])
        q = corrected(weak[i], U, noise(u[i], fixed_v[i], y[i])[1])
        total -= w[i] * math.log(q[y[i]]) / B
        t, p = softmax(targets[i]), softmax(strong[i])
        total += CONSISTENCY * w[i] * sum(t[k] * math.log(t[k] / p[k]) for k in range(K)) / B
        means = [mean + w[i] * q_k / sum(w) for mean, q_k in zip(means, q, strict=True)]
        if squares:
            answer = targets[i].index(max(targets[i]))
            total += w[i] * sum((float(k == answer) + U[k] - V[k] - float(k == y[i])) ** 2 for k in range(K)) / B
    return total - BALANCE * sum(math.log(min(max(mean, 1e-4), 1.0)) for mean in means) / K


def slopes(function, rows, step=1e-5):
    """Derivatives of a function of a list of lists by every entry."""
    found = [[0.0] * len(row) for row in rows]
    for i, k in itertools.product(range(len(rows)), range(len(rows[0]))):
        ends = []
        for sign in (1, -1):
            moved = [list(row) for row in rows]
            moved[i][k] += sign * step
            ends.append(function(moved))
        found[i][k] = (ends[0] - ends[1]) / (2 * step)
    return torch.tensor(found)


def test_loss_gradients_and_updates_equal_plain_loops():
    method = make(consistency=CONSISTENCY, balance=BALANCE)
    for _ in range(4):
        batch = make_batch(0.5 + torch.rand(B))
        u, v = method.u[batch.index], method.v[batch.index]
        u_, v_, y, w = u[:, 0].tolist(), v.tolist(), batch.y_noisy.tolist(), batch.weight.tolist()
        weak, strong = (view.tolist() for view in batch.views)
        loss = method(batch)["loss"]
        loss.backward()
        args = {"targets": weak, "fixed_v": v_, "y": y, "w": w}
        expected = objective(weak, strong, u=u_, v=v_, squares=False, **args)
        assert loss.item() == pytest.approx(expected, abs=1e-5)
        by_weak = slopes(lambda z: objective(z, strong, u=u_, v=v_, squares=False, **args), weak)  # noqa: B023
        by_strong = slopes(lambda z: objective(weak, z, u=u_, v=v_, squares=False, **args), strong)  # noqa: B023
        assert torch.allclose(batch.views[0].grad, by_weak, atol=1e-5)
        assert torch.allclose(batch.views[1].grad, by_strong, atol=1e-5)

        def of_u(z):
            return objective(weak, strong, u=[row[0] for row in z], v=v_, squares=True, **args)  # noqa: B023

        by_u = slopes(of_u, u.tolist())
        by_v = slopes(lambda z: objective(weak, strong, u=u_, v=z, squares=True, **args), v_)  # noqa: B023
        assert torch.allclose(method.u[batch.index], u - LR_U * by_u, atol=1e-5)
        assert torch.allclose(method.v[batch.index], v - LR_V * by_v, atol=1e-5)


def test_a_class_without_probability_has_a_finite_loss():
    method, batch = make(std=0.0), make_batch(torch.zeros(B), scale=200.0)
    assert torch.isfinite(method(batch)["loss"])
