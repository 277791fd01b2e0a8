"""Pi-DUAL against plain loops written from its equation, and in its limiting cases."""

import math

import pytest
import torch
from torch import nn
from toy import dense, log_softmax

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.methods import CE, PiDual
from pidual.learn.nets import MLP

K, B = 4, 9
SPEC = Spec(100, K, (3, 5), 2)


@pytest.fixture
def batch():
    codes = torch.stack([torch.randint(0, 3, (B,)), torch.randint(0, 5, (B,))], 1)
    return Batch.of_rows(
        torch.arange(B), (torch.randn(B, 6),), torch.randint(0, K, (B,)), PI(codes, torch.randn(B, 4)), torch.ones(B)
    )


@pytest.fixture
def method():
    f = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, K))
    return PiDual(f, SPEC, width=7, random_pi=2)


def affine(weight, bias, v):
    """weight (out, in) times v plus bias, with loops."""
    return [sum(w * value for w, value in zip(row, v, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def relu(v):
    return [max(0.0, value) for value in v]


def loss_by_loops(method, batch):
    first = torch.cat([method.shared.table, method.shared.dense]).T.tolist()
    total = 0.0
    for i in range(B):
        a = dense(batch.a.codes[i], batch.a.numbers[i], SPEC.cardinalities).tolist()
        s = relu(affine(first, method.shared.bias.tolist(), a))
        layers = [
            [(layer.weight.tolist(), layer.bias.tolist()) for layer in net if isinstance(layer, nn.Linear)]
            for net in (method.eps, method.gamma)
        ]
        eps = affine(*layers[0][1], relu(affine(*layers[0][0], s)))
        (g,) = affine(*layers[1][1], relu(affine(*layers[1][0], s)))
        gamma = 1 / (1 + math.exp(-g))
        f = method.f(batch.x[i : i + 1])[0].tolist()
        h = [(1 - gamma) * f_k + gamma * e_k for f_k, e_k in zip(f, eps, strict=True)]
        total -= log_softmax(h)[int(batch.y_noisy[i])]
    return total / B


def test_loss_equals_plain_loops(method, batch):
    for parameter in method.shared.parameters():
        nn.init.normal_(parameter)
    method.double()
    batch = batch._replace(
        views=(batch.x.double(),), a=PI(batch.a.codes, batch.a.numbers.double()), weight=batch.weight.double()
    )
    assert method(batch)["loss"].item() == pytest.approx(loss_by_loops(method, batch), abs=1e-6)


def test_gradients_equal_finite_differences(method, batch):
    method.double()
    batch = batch._replace(
        views=(batch.x.double(),), a=PI(batch.a.codes, batch.a.numbers.double()), weight=batch.weight.double()
    )
    method(batch)["loss"].backward()
    for parameter in (
        method.shared.table,
        method.shared.dense,
        method.eps[0].weight,
        method.gamma[-1].weight,
        method.f[-1].weight,
    ):
        at = int(parameter.grad.abs().argmax())
        step, flat = 1e-5, parameter.data.view(-1)
        flat[at] += step
        above = loss_by_loops(method, batch)
        flat[at] -= 2 * step
        below = loss_by_loops(method, batch)
        flat[at] += step
        assert float(parameter.grad.view(-1)[at]) == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7)


def fix_gate(method, value):
    nn.init.zeros_(method.gamma[-1].weight)
    nn.init.constant_(method.gamma[-1].bias, value)


def test_gate_at_zero_is_cross_entropy(method, batch):
    fix_gate(method, -200.0)
    method(batch)["loss"].backward()
    plain = CE(method.f, SPEC)
    expected = plain(batch)["loss"]
    assert torch.equal(method(batch)["loss"], expected)
    assert all((p.grad is None) or bool((p.grad == 0).all()) for p in method.eps.parameters())


@pytest.mark.parametrize(
    ("n_annotators", "n_numbers", "random_pi", "width", "classes", "expected"),
    [
        (2571, 2, 8, 1024, 10, 4_754_443),  # CIFAR-10H
        (746, 1, 8, 2048, 10, 9_963_531),  # CIFAR-10N
        (518, 1, 8, 2048, 100, 9_680_997),  # CIFAR-100N
        (16, 3, 30, 2048, 1000, 10_546_153),  # ImageNet-PI
    ],
)
def test_parameter_counts_of_the_paper(n_annotators, n_numbers, random_pi, width, classes, expected):
    spec = Spec(1, classes, (n_annotators,), n_numbers)
    method = PiDual(nn.Identity(), spec, width=width, random_pi=random_pi)
    assert sum(p.numel() for p in method.parameters()) == expected


def test_weight_decay_spares_the_pi_networks_unless_asked():
    f = MLP(6, K, width=8, depth=1)
    groups = PiDual(f, SPEC, width=8).param_groups()
    assert "weight_decay" not in groups[0]
    assert groups[1]["weight_decay"] == 0
    assert sum(len(group["params"]) for group in groups) == len(list(PiDual(f, SPEC, width=8).parameters()))
    assert "weight_decay" not in PiDual(f, SPEC, width=8, pi_weight_decay=True).param_groups()[1]
