"""HET and HET-XL against plain loops over inputs and draws, and in their limiting cases."""

import math

import pytest
import torch
from small_networks import Smooth
from torch import nn
from toy import Largest, count

from pidual.errors import UsageError
from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.methods import HET, HETXL
from pidual.learn.methods.parts import monte_carlo
from pidual.learn.nets import ResNet50

D, K, R, S, B = 5, 4, 2, 7, 6
SPEC = Spec(100, K)
BOTH = pytest.mark.parametrize("kind", [HET, HETXL])


def build(kind, **options):
    """A small method whose covariance and classes are far from trivial."""
    method = kind(Smooth(D, K), SPEC, **{"rank": R, "draws": S, **options}).eval()
    for parameter in method.parameters():
        nn.init.normal_(parameter)
    return method


def in_double(method):
    """The method in float64, draws included."""
    method.double()
    draw = method.draws.forward
    method.draws.forward = lambda *widths: [values.double() for values in draw(*widths)]
    return method


def make_batch(dtype=torch.float32, size=B):
    pi = PI(torch.zeros(size, 0, dtype=torch.int32), torch.zeros(size, 0))
    x, y = torch.randn(size, 3, dtype=dtype), torch.randint(0, K, (size,))
    return Batch.of_rows(torch.arange(size), (x,), y, pi, torch.rand(size, dtype=dtype) + 0.5)


def softmax_by_hand(z):
    powers = (z - z.max()).exp()
    return powers / powers.sum()


def temperature(method):
    if isinstance(method, HET):
        return method.tau
    return 0.3 + (3.0 - 0.3) / (1 + math.exp(-method.rho.item()))


def logits_of_draw(method, phi, e, e_diagonal):
    """Noisy logits of one input for one draw: noise on the logits (HET) or on the features (HET-XL)."""
    W, b = method.f.head.weight, method.f.head.bias
    V = (method.factors.weight @ phi + method.factors.bias).reshape(-1, R)
    d = (1 + (method.diagonal.weight @ phi + method.diagonal.bias).exp()).log() + 1e-3
    noise = torch.stack([sum(V[k, r] * e[r] for r in range(R)) + d[k] * e_diagonal[k] for k in range(len(d))])
    return W @ phi + b + noise if isinstance(method, HET) else W @ (phi + noise) + b


def means_by_loops(method, x, draws):
    """Mean over draws of the probabilities, before clipping."""
    tau = temperature(method)
    rows = []
    for phi in method.f.features(x):
        z = [logits_of_draw(method, phi, e, e_diagonal) for e, e_diagonal in zip(*draws, strict=True)]
        rows.append(sum(softmax_by_hand(z_s / tau) for z_s in z) / len(z))
    return torch.stack(rows)


def probabilities_by_loops(method, x, draws):
    clipped = means_by_loops(method, x, draws).clamp(1e-5, 1)
    return clipped / clipped.sum(1, keepdim=True)


def loss_by_loops(method, batch, draws):
    p = probabilities_by_loops(method, batch.x, draws)
    return sum(-math.log(p[i, int(batch.y_noisy[i])].item()) * batch.weight[i].item() for i in range(B)) / B


def draws_of(method):
    return method.draws(R, K if isinstance(method, HET) else D)


@BOTH
def test_probabilities_and_loss_equal_plain_loops(kind):
    method, batch = in_double(build(kind)), make_batch(torch.float64)
    draws = draws_of(method)
    assert [tuple(values.shape) for values in draws] == [(S, R), (S, K if kind is HET else D)]
    expected = probabilities_by_loops(method, batch.x, draws)
    assert torch.allclose(method.logits(batch.x).softmax(1), expected, rtol=0, atol=1e-12)
    assert method(batch)["loss"].item() == pytest.approx(loss_by_loops(method, batch, draws), abs=1e-12)


@BOTH
def test_probabilities_are_clipped_at_1e_5_and_renormalised(kind):
    method = in_double(build(kind))
    method.f.head.bias.data[1] = -60.0
    batch = make_batch(torch.float64)
    draws = draws_of(method)
    assert bool((means_by_loops(method, batch.x, draws)[:, 1] < 1e-6).all())  # the clip acts
    log_p = method.logits(batch.x)
    assert torch.allclose(log_p[:, 1], torch.full((B,), math.log(1e-5), dtype=torch.float64))
    assert torch.allclose(log_p.softmax(1), probabilities_by_loops(method, batch.x, draws), rtol=0, atol=1e-12)
    assert method(batch)["loss"].item() == pytest.approx(loss_by_loops(method, batch, draws), abs=1e-12)


@BOTH
def test_memory_of_a_step_does_not_grow_with_inputs_times_draws(kind, monkeypatch):
    monkeypatch.setattr(monte_carlo, "BLOCK", 2**12)
    n_draws, size = 4000, 32
    method, batch = build(kind, draws=n_draws).train(), make_batch(size=size)
    saved = []

    def pack(tensor):
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), Largest() as largest:
        method(batch)["loss"].backward()
    width = K if kind is HET else D
    assert largest.numel == n_draws * width  # the draws themselves
    assert sum(saved) < 1.2 * n_draws * (R + width)  # they are kept for the gradient; S x B x K would be 512,000


@BOTH
def test_rank_is_at_least_one_and_at_most_what_it_is_the_rank_of(kind):
    full = K if kind is HET else D
    kind(Smooth(D, K), SPEC, rank=full)
    for rank in (0, full + 1):
        with pytest.raises(UsageError, match=rf"rank must be between 1 and .*{full}, not {rank}"):
            kind(Smooth(D, K), SPEC, rank=rank)


@BOTH
def test_needs_draws_and_a_network_with_features_and_a_head(kind):
    with pytest.raises(UsageError, match="draws must be at least 1, not 0"):
        kind(Smooth(D, K), SPEC, rank=R, draws=0)
    with pytest.raises(UsageError, match="linear `head`"):
        kind(nn.Linear(3, K), SPEC, rank=R)


def test_parameter_counts_of_the_paper():
    with torch.device("meta"):
        f, spec = ResNet50(), Spec(1, 1000)
        het, het_xl = HET(f, spec, rank=15), HETXL(f, spec, rank=15)
    assert count(f) == 25_557_032
    assert count(het) - count(f) == 32_784_000
    width = f.n_features
    assert count(het_xl) - count(f) == (width + 1) * width * 15 + (width + 1) * width + 1


# HET-XL's temperature


def test_temperature_begins_half_way_and_stays_within_its_bounds():
    method = HETXL(Smooth(D, K), SPEC, rank=R)
    assert method.tau().item() == pytest.approx(1.65)
    for rho, tau in ((-200.0, 0.3), (200.0, 3.0)):
        nn.init.constant_(method.rho, rho)
        assert method.tau().item() == pytest.approx(tau)
    other = HETXL(Smooth(D, K), SPEC, rank=R, tau_min=1.0, tau_max=2.0)
    assert other.tau().item() == pytest.approx(1.5)


def test_temperature_is_logged_and_has_no_weight_decay():
    method = build(HETXL)
    assert method(make_batch())["tau"].item() == pytest.approx(temperature(method))
    groups = method.param_groups()
    without = [parameter for group in groups if group.get("weight_decay") == 0 for parameter in group["params"]]
    assert len(without) == 1
    assert without[0] is method.rho
    listed = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(listed) == sorted(id(parameter) for parameter in method.parameters())
