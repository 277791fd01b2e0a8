"""Pi-DUAL+ against plain loops: label smoothing, consistency, and what the consistency term may touch."""

import math

import pytest
import torch
from torch import nn
from toy import dense, log_softmax

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.methods import PiDualPlus
from pidual.paper.ablations import PiDualPlusAblation

K, W, L, B = 4, 6, 3, 5
SIZES, NUMBERS = (3, 2), 2
SPEC = Spec(100, K, SIZES, NUMBERS)


def build(kind=PiDualPlus, **options):
    """A small method in float64; f has a column of weights for every input of every view."""
    f = nn.Linear(2 * B, K, bias=False)
    method = kind(f, SPEC, **{"width": W, "random_pi": L, **options}).double()
    for parameter in method.parameters():
        nn.init.normal_(parameter, std=0.7)
    return method


@pytest.fixture
def batch():
    """Input i is the i-th unit vector in the weak view, the (B + i)-th in the strong one."""
    codes = torch.stack([torch.randint(0, size, (B,), dtype=torch.int32) for size in SIZES], 1)
    a = PI(codes, torch.randn(B, NUMBERS + L, dtype=torch.float64))
    weak, strong = torch.eye(2 * B, dtype=torch.float64).split(B)
    weight = torch.rand(B, dtype=torch.float64) + 0.5
    return Batch.of_rows(torch.arange(B), (weak, strong), torch.randint(0, K, (B,)), a, weight)


def layers_by_hand(net, v):
    """Linear, ReLU, linear."""
    hidden = (net[0].weight @ v + net[0].bias).clamp(min=0)
    return net[2].weight @ hidden + net[2].bias


def losses_by_loops(method, batch, smoothing):
    """Smoothed cross-entropy of h, and consistency: weighted means over rows."""
    A1 = torch.cat([method.shared.table, method.shared.dense]).T
    smoothed = consistency = 0.0
    for i in range(B):
        s = (A1 @ dense(batch.a.codes[i], batch.a.numbers[i], SIZES) + method.shared.bias).clamp(min=0)
        gamma = 1 / (1 + math.exp(-layers_by_hand(method.gamma, s).item()))
        weak, strong = method.f.weight[:, i], method.f.weight[:, B + i]
        log_h = log_softmax(((1 - gamma) * weak + gamma * layers_by_hand(method.eps, s)).tolist())
        log_weak, log_strong = log_softmax(weak.tolist()), log_softmax(strong.tolist())
        share = batch.weight[i].item() / B
        for k in range(K):
            target = (1 - smoothing) * (k == int(batch.y_noisy[i])) + smoothing / K
            smoothed -= share * target * log_h[k]
            consistency += share * math.exp(log_weak[k]) * (log_weak[k] - log_strong[k])
    return smoothed, consistency


@pytest.mark.parametrize("smoothing", [0.0, 0.4])
@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("detach", [True, False])
def test_loss_equals_plain_loops(batch, smoothing, lam, detach):
    method = build(smoothing=smoothing, lam=lam, detach=detach)
    smoothed, consistency = losses_by_loops(method, batch, smoothing)
    logs = method(batch)
    assert logs["loss"].item() == pytest.approx(smoothed + lam * consistency, abs=1e-10)
    assert logs["consistency"].item() == pytest.approx(consistency, abs=1e-10)


def close_gate(method):
    """h = eps: f gets its gradient from the consistency term alone."""
    nn.init.zeros_(method.gamma[-1].weight)
    nn.init.constant_(method.gamma[-1].bias, 200.0)


def test_detached_weak_view_gets_no_gradient_from_the_consistency_term(batch):
    method = build(lam=0.5)
    close_gate(method)
    method(batch)["loss"].backward()
    weak, strong = method.f.weight.grad.split(B, 1)
    assert bool((weak == 0).all())
    p_weak, p_strong = method.f.weight.softmax(0).split(B, 1)
    assert torch.allclose(strong, 0.5 * (p_strong - p_weak) * batch.weight / B, rtol=0, atol=1e-12)


@pytest.mark.parametrize("detach", [True, False])
def test_consistency_gives_noise_and_gate_networks_exactly_no_gradient(batch, detach):
    method, found = build(detach=detach), []
    for lam in (0.0, 1000.0):
        method.lam = lam
        method.zero_grad()
        method(batch)["loss"].backward()
        found.append({name: parameter.grad.clone() for name, parameter in method.named_parameters()})
    changed = {name for name in found[0] if not torch.equal(found[0][name], found[1][name])}
    assert changed == {"f.weight"}


def test_both_views_go_through_f_in_one_pass(batch):
    method, seen = build(), []
    method.f.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].clone()))
    method(batch)
    assert len(seen) == 1
    assert torch.equal(seen[0], torch.cat(batch.views))
    assert (PiDualPlus.n_views, PiDualPlus.strong_views) == (2, 1)


def test_ablations_of_pi_dual_apply(batch):
    """The gate in probability space, with smoothed labels."""
    method = build(PiDualPlusAblation, gate_on="probabilities", smoothing=0.4, lam=0.0)
    g, eps = method.answers(batch.a)
    gamma = g.sigmoid()
    p = (1 - gamma) * method.f(batch.x).softmax(1) + gamma * eps.softmax(1)
    target = 0.6 * nn.functional.one_hot(batch.y_noisy, K).double() + 0.4 / K
    expected = (-(target * p.log()).sum(1) * batch.weight).mean()
    assert method(batch)["loss"].item() == pytest.approx(expected.item(), abs=1e-12)
