"""SOP against plain loops written from its objective; u and v by finite differences of it."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
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


def give(method, index, u=None, v=None):
    """Set u and v of rows."""
    for memory, values in ((method.u, u), (method.v, v)):
        if values is not None:
            memory.update(torch.as_tensor(index), torch.tensor(values))


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


def test_without_noise_the_loss_is_cross_entropy_and_nothing_ever_moves():
    method = make(std=0.0, lr_u=100.0, lr_v=1000.0)
    for batch in random_steps(4, scale=1.0):
        assert bool((batch.x.softmax(1) > 1e-4).all())
        loss = method(batch)["loss"]
        loss.backward()
        logits = batch.x.detach().requires_grad_()
        expected = (F.cross_entropy(logits, batch.y_noisy, reduction="none") * batch.weight).mean()
        expected.backward()
        assert torch.allclose(loss, expected, atol=1e-6)
        assert torch.allclose(batch.x.grad, logits.grad, atol=1e-6)
    assert not method.u.values.any()
    assert not method.v.values.any()


def test_clamp_bounds_the_loss_and_blocks_its_gradient_where_the_softmax_is_tiny():
    method = make(std=0.0)
    logits = torch.tensor([[30.0, 0.0, 0.0, 0.0]], requires_grad=True)
    loss = method(batch_of([0], logits, [1]))["loss"]
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(1e-4), abs=1e-5)  # the second clamp; 1e-4 / 1.0003 is below it
    assert not logits.grad.any()


def test_clamp_blocks_the_gradient_once_u_or_v_squared_is_above_one():
    method = make()
    rows, logits = torch.tensor([0, 1]), torch.tensor([[0.5, 2.0, 0.0, 0.5]] * 2)
    give(method, rows, u=[[1.01], [0.99]], v=[[0.0, 1.01, 0.3, 1.01], [0.0, 0.99, 0.3, 0.99]])
    before = method.u[rows], method.v[rows]
    method(batch_of(rows, logits, [0, 0]))
    assert (method.u[rows] != before[0]).tolist() == [[False], [True]]
    assert (method.v[rows] != before[1]).tolist() == [[False, False, True, False], [False, True, True, True]]


def test_no_optimizer_and_no_set_of_weights_sees_u_and_v():
    method = SOP(nn.Linear(3, K), SPEC)
    assert [name for name, _ in method.named_parameters()] == ["f.weight", "f.bias"]
    assert sum(len(group["params"]) for group in method.param_groups()) == 2
    assert set(method.state_dict()) == {"f.weight", "f.bias"}
    assert set(method.memories) == {"u", "v"}


def test_initial_values_are_normal_with_standard_deviation_1e_8():
    method = SOP(nn.Identity(), Spec(20_000, K))
    for memory in (method.u, method.v):
        z = memory.values.double().flatten() / 1e-8
        close = 5 / math.sqrt(len(z))
        assert z.mean().item() == pytest.approx(0, abs=close)
        assert z.std().item() == pytest.approx(1, abs=close)
        assert z.pow(4).mean().item() == pytest.approx(3, abs=10 * close)
        assert (z.abs() < 1).double().mean().item() == pytest.approx(0.6827, abs=close)


def test_u_and_v_begin_independent():
    method = SOP(nn.Identity(), Spec(5_000, K))
    u, v = method.u.values[:, 0], method.v.values
    for other in (*v.T, v.flatten()[:5_000]):
        assert abs(torch.corrcoef(torch.stack([u, other]))[0, 1].item()) < 0.07


def test_from_1e_8_u_and_v_grow_to_explain_the_labels_that_the_network_contradicts():
    method = make(std=1e-8, lr_u=1.0, lr_v=10.0)
    logits = 4 * F.one_hot(torch.tensor([1, 1, 2, 3]), K).float()
    batch = batch_of(torch.arange(4), logits, [0, 1, 2, 0])  # rows 0 and 3 are contradicted
    right = torch.tensor([1, 2])
    before = method.v[right]
    for _ in range(100):
        method(batch)
    noise = method.per_row(batch, logits)["estimated_noise"]
    assert noise[[0, 3]].tolist() == pytest.approx([math.sqrt(2)] * 2, abs=0.01)  # U and V explain it in full
    assert float(noise[right].max()) < 1e-6
    assert torch.equal(method.v[right], before)


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
