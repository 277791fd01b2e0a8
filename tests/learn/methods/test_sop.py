"""SOP against plain loops written from its objective; u and v by finite differences of it."""

import math

import pytest
import torch
from torch import nn
from toy import batch_of, softmax

from pidual.learn.batch import Spec
from pidual.learn.methods import SOP

N, K, B = 12, 4, 5
SPEC = Spec(N, K)
LR_U, LR_V = 0.5, 2.0


def make(spec=SPEC, **options):
    """The network passes x on: the tests' inputs are logits. The default std here is one at which u and v matter."""
    return SOP(nn.Identity(), spec, **{"lr_u": LR_U, "lr_v": LR_V, "std": 0.7, **options})


def random_steps(n_steps, scale=2.0):
    """Random batches of random logits; with 5 of 12 rows a step, rows return."""
    for _ in range(n_steps):
        logits = (scale * torch.randn(B, K)).requires_grad_()
        yield batch_of(torch.randperm(N)[:B], logits, torch.randint(0, K, (B,)), 0.5 + torch.rand(B))


def noise_by_loops(u, v, y):
    U = [min(max(u * u, 0.0), 1.0) if k == y else 0.0 for k in range(K)]
    V = [0.0 if k == y else min(max(v[k] * v[k], 0.0), 1.0) for k in range(K)]
    return U, V


def first_term(f, y, U, V):
    """-sum Y log q."""
    q = [max(p_k + U_k - V_k, 1e-4) for p_k, U_k, V_k in zip(softmax(f), U, V, strict=True)]
    return -math.log(min(max(q[y] / sum(q), 1e-4), 1.0))


def second_term(f, y, U, V):
    """|| o + U - V - Y ||^2."""
    answer = f.index(max(f))
    return sum((float(k == answer) + U[k] - V[k] - float(k == y)) ** 2 for k in range(K))


def slope(function, at, step=1e-6):
    return (function(at + step) - function(at - step)) / (2 * step)


def replaced(values, k, value):
    return [*values[:k], value, *values[k + 1 :]]


def gradients_by_loops(f, u, v, y):
    """Of one row's objective by f, u and v: f learns from the first term, v from the second, u from both."""
    U, V = noise_by_loops(u, v, y)
    by_f = [slope(lambda z, k=k: first_term(replaced(f, k, z), y, U, V), f[k]) for k in range(K)]

    def of_u(z):
        moved = noise_by_loops(z, v, y)[0]
        return first_term(f, y, moved, V) + second_term(f, y, moved, V)

    by_v = [
        slope(lambda z, k=k: second_term(f, y, U, noise_by_loops(u, replaced(v, k, z), y)[1]), v[k]) for k in range(K)
    ]
    return by_f, slope(of_u, u), by_v


def test_loss_gradients_and_updates_equal_plain_loops_over_repeated_visits():
    method = make()
    u, v = method.u.values[:, 0].tolist(), method.v.values.tolist()
    visits = torch.zeros(N, dtype=torch.int64)
    for batch in random_steps(8):
        visits[batch.index] += 1
        total, by_f, moves = 0.0, [], {}
        for i, f, y, w in zip(
            batch.index.tolist(), batch.x.tolist(), batch.y_noisy.tolist(), batch.weight.tolist(), strict=True
        ):
            total += w * first_term(f, y, *noise_by_loops(u[i], v[i], y))
            gradient_f, gradient_u, gradient_v = gradients_by_loops(f, u[i], v[i], y)
            by_f.append([w * g / B for g in gradient_f])
            moves[i] = LR_U * w * gradient_u / B, [LR_V * w * g / B for g in gradient_v]
        loss = method(batch)["loss"]
        loss.backward()
        for i, (move_u, move_v) in moves.items():
            u[i], v[i] = u[i] - move_u, [a - b for a, b in zip(v[i], move_v, strict=True)]
        assert loss.item() == pytest.approx(total / B, abs=1e-5)
        assert torch.allclose(batch.x.grad, torch.tensor(by_f), atol=1e-5)
        assert torch.allclose(method.u.values[:, 0], torch.tensor(u), atol=1e-5)
        assert torch.allclose(method.v.values, torch.tensor(v), atol=1e-5)
    assert visits.max() >= 3
    assert max(abs(value) for value in u) > 1  # the clamp of U was met


def test_clamp_bounds_the_loss_and_blocks_its_gradient_where_the_softmax_is_tiny():
    method = make(std=0.0)
    logits = torch.tensor([[30.0, 0.0, 0.0, 0.0]], requires_grad=True)
    loss = method(batch_of([0], logits, [1]))["loss"]
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(1e-4), abs=1e-5)  # the second clamp; 1e-4 / 1.0003 is below it
    assert not logits.grad.any()


def test_no_optimizer_and_no_set_of_weights_sees_u_and_v():
    method = SOP(nn.Linear(3, K), SPEC)
    assert [name for name, _ in method.named_parameters()] == ["f.weight", "f.bias"]
    assert sum(len(group["params"]) for group in method.param_groups()) == 2
    assert set(method.state_dict()) == {"f.weight", "f.bias"}
    assert set(method.memories) == {"u", "v"}


def test_native_score_is_the_size_of_u_minus_v():
    method = make()
    y, logits = torch.randint(0, K, (N,)), torch.randn(N, K)
    columns = method.per_row(batch_of(torch.arange(N), logits, y)._replace(views=()), logits)
    expected = []
    for u, v, label in zip(method.u.values[:, 0].tolist(), method.v.values.tolist(), y.tolist(), strict=True):
        U, V = noise_by_loops(u, v, label)
        expected.append(math.sqrt(sum((a - b) ** 2 for a, b in zip(U, V, strict=True))))
    assert set(columns) == {"estimated_noise"} == set(SOP.scores[1:])
    assert columns["estimated_noise"].tolist() == pytest.approx(expected, abs=1e-5)
