"""What methods with two networks, selected rows and mixed rows share."""

import math

import pytest
import torch
from torch import nn

from pidual.errors import UsageError
from pidual.fit.factories import method_maker
from pidual.learn.batch import Spec
from pidual.learn.methods.parts.networks import fresh_copy, second_network, update_average
from pidual.learn.methods.parts.selection import class_weights, clean_posterior, mixup, small_loss
from pidual.learn.nets import SmallCNN, Standardize

# --- mixup ---


@pytest.mark.parametrize("alpha", [0.75, 4.0])
def test_mixup_mixes_inputs_and_targets_with_one_weight_and_one_permutation(alpha):
    x, targets = torch.randn(10, 3, 2), torch.rand(10, 4)
    mixed_x, mixed_targets, other, share = mixup(x, targets, alpha)
    assert 0.5 <= share <= 1
    assert sorted(other.tolist()) == list(range(10))
    for i, j in enumerate(other.tolist()):
        assert torch.allclose(mixed_x[i], share * x[i] + (1 - share) * x[j], atol=1e-6)
        assert torch.allclose(mixed_targets[i], share * targets[i] + (1 - share) * targets[j], atol=1e-6)


# --- sharpen ---


# --- selection ---


def test_clean_posterior_tells_small_losses_from_large_ones():
    clean, noisy = 0.1 + 0.05 * torch.randn(300).abs(), 3 + 0.5 * torch.randn(100)
    w = clean_posterior(torch.cat([clean, noisy]))
    assert w.dtype == torch.float32
    assert (w[:300] > 0.9).all()
    assert (w[300:] < 0.1).all()
    assert torch.equal(w, clean_posterior(torch.cat([clean, noisy])))
    assert torch.allclose(w, clean_posterior(7 * torch.cat([clean, noisy]) + 2), atol=1e-3)  # they are scaled


@pytest.mark.parametrize("losses", [[1.0], [2.0, 2.0, 2.0], [1.0, math.nan], [1.0, math.inf]])
def test_clean_posterior_calls_all_clean_where_nothing_can_be_told_apart(losses):
    assert clean_posterior(torch.tensor(losses)).tolist() == [1.0] * len(losses)


def test_class_weights_are_mean_count_of_classes_with_rows_over_count():
    assert class_weights(torch.tensor([2, 4, 0, 6])).tolist() == [2.0, 1.0, 0.0, pytest.approx(2 / 3)]
    assert class_weights(torch.tensor([30, 1, 2]), cap=3.0).tolist() == [pytest.approx(11 / 30), 3.0, 3.0]
    assert class_weights(torch.tensor([0, 0])).tolist() == [0.0, 0.0]


def test_small_loss_keeps_a_share_but_at_least_one():
    losses = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0])
    assert small_loss(losses, 0.6).tolist() == [True, True, True, False, False]
    assert small_loss(losses, 0.79).tolist() == [True, True, True, False, False]
    assert small_loss(losses, 0.0).tolist() == [False, True, False, False, False]
    assert small_loss(losses, 1.0).all()


# --- networks ---


def test_fresh_copy_has_weights_of_its_own_and_the_same_standardisation():
    f = SmallCNN(3, width=4, standardize=Standardize([5.0, 6.0, 7.0], [1.0, 2.0, 3.0]))
    f.blocks[0][1].running_mean.fill_(9.0)
    g = fresh_copy(f)
    assert not torch.equal(f.head.weight, g.head.weight)
    assert not torch.equal(f.blocks[0][0].weight, g.blocks[0][0].weight)
    assert g.blocks[0][0].weight.std().item() == pytest.approx(f.blocks[0][0].weight.std().item(), rel=0.3)
    assert torch.equal(f.standardize.mean, g.standardize.mean)
    assert (g.blocks[0][1].running_mean == 0).all()


class Pretrained(nn.Module):
    """A network that has seen other data: a body, a class token that is a bare parameter, and a last layer."""

    def __init__(self):
        super().__init__()
        self.body, self.token, self.last = nn.Linear(5, 4), nn.Parameter(torch.full((4,), 2.0)), nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(4)
        nn.init.constant_(self.body.weight, 0.5)
        nn.init.constant_(self.body.bias, 0.1)
        nn.init.constant_(self.norm.running_mean, 3.0)

    def features(self, x):
        return self.norm(self.body(x)) + self.token

    @property
    def head(self):
        return self.last

    def forward(self, x):
        return self.last(self.features(x))


def body(f):
    """Everything but the last layer."""
    return {name: value for name, value in f.state_dict().items() if not name.startswith("last")}


def equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(value, two[name]) for name, value in one.items())


def test_a_second_network_made_from_one_that_is_not_ours_keeps_what_was_learned():
    f = Pretrained()
    g = second_network(f, None)
    assert g is not f
    assert equal(body(g), body(f))
    assert not torch.equal(g.last.weight, f.last.weight)
    assert equal(second_network(f, None, beside=False).state_dict(), f.state_dict())


def test_a_second_network_that_is_given_is_taken_as_it_is_unless_it_is_the_same():
    f, other, same = Pretrained(), Pretrained(), Pretrained()
    same.load_state_dict(f.state_dict())
    before = {name: value.clone() for name, value in other.state_dict().items()}
    assert second_network(f, other) is other
    assert equal(other.state_dict(), before)
    assert equal(second_network(f, same, beside=False).state_dict(), f.state_dict())
    assert second_network(f, same) is same
    assert not torch.equal(same.last.weight, f.last.weight)
    assert equal(body(same), body(f))


def test_a_second_network_of_ours_is_drawn_anew():
    f = SmallCNN(3, width=4)
    pairs = zip(convolutions(f), convolutions(second_network(f, None)), strict=True)
    assert not any(torch.equal(one, two) for one, two in pairs)
    with torch.device("meta"):
        assert second_network(nn.Sequential(nn.Linear(3, 2)), nn.Sequential(nn.Linear(3, 2)))[0].weight.is_meta


def convolutions(f):
    return [module.weight for module in f.modules() if isinstance(module, nn.Conv2d)]


@pytest.mark.parametrize("name", ["co_teaching", "divide_mix", "elr_plus", "forward_t", "distill_pi", "cores_star"])
@pytest.mark.parametrize("twice", [True, False], ids=["made twice", "made once"])
def test_both_networks_of_a_method_begin_with_what_was_learned_before(name, twice):
    options = {"width": 8} if name == "distill_pi" else {}
    method = method_maker(name, options, Spec(20, 3, (4,), 2, epochs=10), Pretrained, twice=twice)()
    networks = [method.f, method.g if method.before is None else method.before.f]
    assert equal(body(networks[0]), body(networks[1]))
    assert (networks[1].token == 2).all()
    alone = method.before is not None and not twice
    assert torch.equal(networks[0].last.weight, networks[1].last.weight) == alone
    if name == "elr_plus":
        assert equal(method.g_ema.state_dict(), method.g.state_dict())


def test_update_average_moves_parameters_and_leaves_buffers():
    average, network = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    nn.init.constant_(network.weight, 5.0)
    network.running_mean.fill_(3.0)
    update_average(average, network, 0.75)
    assert average.weight.tolist() == [2.0, 2.0]
    assert average.running_mean.tolist() == [0.0, 0.0]
    update_average(average, network, 0.0)
    assert average.weight.tolist() == [5.0, 5.0]


def test_equal_networks_without_a_layer_to_draw_anew_are_refused():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

    with pytest.raises(UsageError, match="must not begin as equals; Odd has no linear layer"):
        second_network(Odd(), None)
    assert torch.equal(second_network(Odd(), None, beside=False).weight, torch.ones(3))
