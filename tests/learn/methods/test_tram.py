"""TRAM and TRAM++ against plain loops, and their stop-gradients."""

import pytest
import torch
from small_networks import Smooth
from torch import nn
from torch.nn import functional as F
from toy import count, dense, log_softmax, tower_by_hand

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.methods import TRAM, TRAMPlusPlus
from pidual.learn.nets import ResNet50

D, K, W, B = 5, 4, 6, 7
SIZES, NUMBERS = (3, 2), 2
SPEC = Spec(100, K, SIZES, NUMBERS)
BOTH = pytest.mark.parametrize("kind", [TRAM, TRAMPlusPlus])


def build(kind=TRAM, **options):
    """A small method in float64 whose biases are not zero."""
    method = kind(Smooth(D, K), SPEC, **{"width": W, **options}).double()
    for parameter in method.parameters():
        nn.init.normal_(parameter)
    return method


def make_batch(method):
    codes = torch.stack([torch.randint(0, size, (B,)) for size in SIZES], 1)
    codes[0, 0] = -1  # unknown: an annotator that was not seen in training
    numbers = torch.randn(B, NUMBERS + method.random_pi, dtype=torch.float64)
    x, y = torch.randn(B, 3, dtype=torch.float64), torch.randint(0, K, (B,))
    return Batch.of_rows(torch.arange(B), (x,), y, PI(codes, numbers), torch.rand(B, dtype=torch.float64) + 0.5)


def losses_by_loops(method, batch, residual):
    """The terms with and without PI: weighted means over rows."""
    tower, head = method.tower, method.f.head
    with_pi = without = 0.0
    for i in range(B):
        phi = torch.tanh(method.f.body.weight @ batch.x[i] + method.f.body.bias)
        z_pi = tower_by_hand(tower, phi, dense(batch.a.codes[i], batch.a.numbers[i], SIZES), residual=residual)
        share, y = batch.weight[i].item() / B, int(batch.y_noisy[i])
        with_pi -= share * log_softmax(z_pi.tolist())[y]
        without -= share * log_softmax((head.weight @ phi + head.bias).tolist())[y]
    return with_pi, without


@BOTH
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("head_weight", [1.0, 0.1])
def test_loss_equals_plain_loops(kind, residual, head_weight):
    method = build(kind, residual=residual, head_weight=head_weight)
    batch = make_batch(method)
    with_pi, without = losses_by_loops(method, batch, residual)
    logs = method(batch)
    assert logs["loss"].item() == pytest.approx(with_pi + head_weight * without, abs=1e-10)
    assert logs["head_loss"].item() == pytest.approx(without, abs=1e-10)


def gradients(method, batch):
    method.zero_grad()
    method(batch)["loss"].backward()
    return {name: parameter.grad.clone() for name, parameter in method.named_parameters()}


@BOTH
def test_term_without_pi_gives_the_backbone_exactly_zero_gradient(kind):
    method = build(kind)
    batch = make_batch(method)
    for layer in (method.tower.second, method.tower.third):
        nn.init.zeros_(layer.weight[:, :D])  # a tower that does not look at the features
    found = gradients(method, batch)
    assert bool((found["f.body.weight"] == 0).all())
    assert bool((found["f.body.bias"] == 0).all())
    assert bool((found["f.head.weight"] != 0).any())


@BOTH
def test_head_is_a_linear_probe_with_w_times_its_own_gradient(kind):
    method = build(kind, head_weight=0.3)
    batch = make_batch(method)
    phi = method.f.features(batch.x).detach()
    losses = F.cross_entropy(method.f.head(phi), batch.y_noisy, reduction="none")
    (expected,) = torch.autograd.grad((losses * batch.weight).mean(), method.f.head.weight)
    assert torch.allclose(gradients(method, batch)["f.head.weight"], 0.3 * expected, rtol=0, atol=1e-12)


@BOTH
@pytest.mark.parametrize("asked", [False, True])
def test_weight_decay_spares_the_hidden_layers_of_the_tower_unless_asked(kind, asked):
    method = build(kind, pi_weight_decay=asked)
    decay = {id(p): group.get("weight_decay", "the run's") for group in method.param_groups() for p in group["params"]}
    assert sum(len(group["params"]) for group in method.param_groups()) == len(decay)
    for name, parameter in method.named_parameters():
        hidden = name.startswith(("tower.first.", "tower.second."))
        assert decay.pop(id(parameter)) == (0 if hidden and not asked else "the run's"), name
    assert not decay


def test_parameter_counts_of_the_paper():
    with torch.device("meta"):
        f = ResNet50()
    spec = Spec(1, 1000, (16,), 3)
    tram, tram_2048 = (TRAMPlusPlus(f, spec, width=width, random_pi=30) for width in (1024, 2048))
    assert count(tram) - count(f) == 6_270_952
    assert round(count(tram) / 1e6, 2) == 31.83
    assert round(count(tram_2048) / 1e6, 2) == 38.15
