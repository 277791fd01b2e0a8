"""Several networks at once that do not know about each other."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from pidual.nets import MLP, SmallCNN, Standardize
from pidual.nets.populations import Population

RATES = (0.0, 0.5, 0.0, 0.3)


def make(kind="stacked"):
    standardize = Standardize(np.zeros(6), np.ones(6))
    if kind == "stacked":
        return Population(MLP(6, 3, width=8, depth=2, dropout=0.4, standardize=standardize), 4, RATES, copy.deepcopy)
    return Population(
        nn.Sequential(standardize, nn.Linear(6, 3)), 4, RATES, lambda f: nn.Sequential(f[0], nn.Linear(6, 3))
    )


@pytest.mark.parametrize("members", [[0], [1], [2, 0], [3, 1], [0, 1, 2, 3]])
def test_a_member_learns_the_same_whichever_others_are_beside_it(members):
    whole, x = make(), torch.randn(10, 6)
    part = copy.deepcopy(whole)
    part.keep(members)
    for population in (whole, part):
        torch.manual_seed(1)
        population(x).square().sum().backward()
    for mine, theirs in zip(whole.parameters(), part.parameters(), strict=True):
        assert torch.allclose(mine.grad[members], theirs.grad, atol=1e-6)
    torch.manual_seed(1)
    expected = whole(x)[members]
    torch.manual_seed(1)
    assert torch.allclose(part(x), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["stacked", "apart"])
def test_members_are_taken_out_and_put_back(kind):
    whole, x = make(kind).eval(), torch.randn(10, 6)
    before = whole(x)
    part = copy.deepcopy(whole)
    part.keep([3, 1])
    assert torch.equal(part(x), before[[3, 1]])
    assert torch.equal(whole(x, torch.tensor([3, 1])), before[[3, 1]])
    for value in part.parameters():
        value.data += 1
    changed = part(x)
    whole.put([3, 1], part)
    assert torch.equal(whole(x)[[3, 1]], changed)
    assert torch.equal(whole(x)[[0, 2]], before[[0, 2]])


@pytest.mark.parametrize("kind", ["stacked", "apart"])
def test_a_silenced_member_calls_all_classes_equally_likely(kind):
    whole, x = make(kind).eval(), torch.randn(10, 6)
    before = whole(x)
    for value in whole.of(2):
        value.fill_(float("inf"))
    assert [whole.is_finite(member) for member in range(4)] == [True, True, False, True]
    whole.silence(2)
    assert whole.is_finite(2)
    assert torch.equal(whole(x)[2], torch.zeros(10, 3))
    assert torch.equal(whole(x)[[0, 1, 3]], before[[0, 1, 3]])


def test_a_network_with_batch_norm_is_silenced_too():
    networks = Population(SmallCNN(3, width=2), 2, (0.0, 0.0), copy.deepcopy)
    networks(torch.full((2, 3, 8, 8), float("nan")))
    assert not networks.is_finite(1)
    networks.eval().silence(1)
    assert networks.is_finite(1)
    assert torch.equal(networks(torch.rand(4, 3, 8, 8))[1], torch.zeros(4, 3))
