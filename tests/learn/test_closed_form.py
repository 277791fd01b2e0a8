"""Leave-one-out against refits in a loop, and the limiting cases of closed-form kernel ridge."""

import pickle

import numpy as np
import pytest
import torch

from pidual.learn.closed_form import ridge as closed_form
from pidual.learn.closed_form.kernels import KERNELS, Scale, relu_kernel
from pidual.learn.closed_form.network import KernelMixture
from pidual.learn.closed_form.ridge import Block, Ridge, root_of, stack


def draw(n=30, d=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    q = rng.dirichlet(np.ones(k), n)
    return x, q, np.log(rng.dirichlet(np.ones(k), n))


def refit(phi, weight, targets, ridge, without):
    """Ridge regression with an intercept on all rows but one, and what it says about that row."""
    rows = np.arange(len(phi)) != without
    w, a, t = weight[rows], phi[rows], targets[rows]
    mean, of_targets = w @ a / w.sum(), w @ t / w.sum()
    a, t = a - mean, t - of_targets
    coefficients = np.linalg.solve((w[:, None] * a).T @ a + ridge * np.eye(phi.shape[1]), (w[:, None] * a).T @ t)
    return of_targets + (phi[without] - mean) @ coefficients


def left_out(block, targets, number):
    """What fits without each row say about it, at one ridge."""
    fitted = block.u @ (block.shrink(block.ridges[number])[:, None] * block.loadings(targets))
    return block.left_out(fitted, block.h[:, number], targets, block.weight)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel.kind}-{kernel.scale}-{kernel.width}")
@pytest.mark.parametrize("copies", [False, True])
def test_leaving_one_out_equals_refits(kernel, copies, monkeypatch):
    monkeypatch.setattr(closed_form, "PART", 7)
    x, q, _ = draw()
    weight = np.random.default_rng(1).integers(1, 4, len(x)).astype(float) if copies else np.ones(len(x))
    (block,) = Ridge(x, weight, kernels=[kernel]).blocks
    targets, z = q - weight @ q / weight.sum(), block.features.scale(x)
    k = block.features.kernel(z, z)
    phi = np.linalg.svd(k)[0] * np.sqrt(np.linalg.svd(k)[1])
    for number in (0, 4, 8):
        g, ridge = left_out(block, targets, number), block.ridges[number]
        expected = [refit(phi, weight, targets, ridge, row) for row in range(len(x))]
        # The intercept of the fit to all rows is a shrunk mean of 0; both leave the row out of their means.
        assert np.abs(g - expected).max() < 1e-8


def test_landmarks_that_are_all_inputs_give_the_kernel_itself():
    x, q, _ = draw()
    for block in Ridge(x).blocks:
        z = block.features.scale(x)
        centre = np.eye(len(x)) - 1 / len(x)
        expected = centre @ block.features.kernel(z, z) @ centre
        assert np.abs((block.u * block.squares) @ block.u.T - expected).max() < 1e-8
        assert np.abs(block.through(slice(None), block.directions) - block.u).max() < 1e-5
    for one in Ridge(x, np.full(30, 2.0)).blocks:  # the same inputs twice are not the landmarks themselves
        other = Block(one.features, np.concatenate([x, x]), np.ones(60), np.arange(60))
        assert np.abs(one.h / 2 - other.h[:30]).max() < 1e-4
        q_twice = np.concatenate([q, q]) - q.mean(0)
        fits = [
            each.features(x) @ each.coefficients(each.loadings(t), each.ridges[3])
            for each, t in ((one, q - q.mean(0)), (other, q_twice))
        ]
        assert np.abs((fits[0] - fits[0].mean(0)) - (fits[1] - fits[1].mean(0))).max() < 1e-4


def test_the_relu_kernel_is_that_of_a_wide_network():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 5))
    inputs = np.concatenate([a / np.sqrt(5), np.full((3, 1), 0.5)], 1)
    w = rng.normal(size=(6, 400_000))
    hidden = inputs @ w
    on = (hidden > 0).astype(float)
    derivative = (inputs @ inputs.T) * np.einsum("ij,kj->ik", on, on) / w.shape[1]
    network = np.maximum(hidden, 0) @ np.maximum(hidden, 0).T / w.shape[1] + derivative
    assert np.abs(relu_kernel(a, a) - 2 * network).max() < 0.02


def test_parts_make_no_difference(monkeypatch):
    x, q, evidence = draw(n=50)
    p, fitted = Ridge(x).fit(q, evidence)
    monkeypatch.setattr(closed_form, "PART", 8)
    monkeypatch.setattr(closed_form, "CACHED", 0)
    other, again = Ridge(x).fit(q, evidence)
    assert np.abs(other - p).max() < 1e-10
    assert np.abs(fitted.predict(x) - again.predict(x)).max() < 1e-10


def test_copies_of_an_item_are_left_out_together():
    x, q, evidence = draw(n=20)
    one, _ = Ridge(x, np.full(20, 3.0)).fit(q, evidence)
    two, _ = Ridge(x).fit(q, evidence)
    assert np.abs(one - two).max() < 1e-6


def test_probabilities_are_of_sum_one_and_learn_what_can_be_learned():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 300)
    x = np.eye(3)[z] * 3 + rng.normal(size=(300, 3))
    evidence = np.log(np.where(np.eye(3)[z] == 1, 0.8, 0.1))
    p, fitted = Ridge(x).fit(np.exp(evidence), evidence)
    assert np.abs(p.sum(1) - 1).max() < 1e-9
    assert np.abs(fitted.predict(x).sum(1) - 1).max() < 1e-9
    assert (p.argmax(1) == z).mean() > 0.9
    assert sum(setting.weight for setting in fitted.settings) == pytest.approx(1)


def test_stacking_finds_the_mixture():
    rng = np.random.default_rng(0)
    likelihood = np.stack([np.where(rng.random(4000) < 0.7, 0.9, 0.1), np.full(4000, 0.1), np.full(4000, 0.5)])
    v = stack(likelihood, np.ones(4000))
    grid = [(a, 0.0, 1 - a) for a in np.linspace(0, 1, 101)]
    best = max(grid, key=lambda w: float(np.log(np.array(w) @ likelihood).sum()))
    assert np.log(v @ likelihood).sum() > np.log(np.array(best) @ likelihood).sum() - 1.0


@pytest.mark.parametrize(("n", "d"), [(40, 4), (12, 30), (3000, 4)])
def test_the_network_says_what_the_fit_says(n, d, monkeypatch):
    monkeypatch.setattr(closed_form, "LANDMARKS", 60)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    q = rng.dirichlet(np.ones(3), n)
    ridge = Ridge(x)
    _, fitted = ridge.fit(q, np.log(q))
    network = KernelMixture.of(fitted)
    new = torch.from_numpy(rng.normal(size=(20, d)))
    assert np.abs(network(new).exp().numpy() - fitted.predict(new.numpy())).max() < (1e-4 if n == 3000 else 1e-9)
    assert (network(new)[3] - network(new[3:4])[0]).abs().max() < 1e-12
    again = KernelMixture(d, 3, len(ridge.landmarks), network.kernels)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again(new), network(new))
    assert torch.equal(pickle.loads(pickle.dumps(network))(new), network(new))


def test_one_huge_number_leaves_the_other_columns_as_they_are():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    x[7, 3] = 1e12
    for kind in ("each", "alike"):
        scale = Scale.fit(kind, x.mean(0), x.var(0))
        assert np.isfinite(scale.std).all()
        z = scale(x)
        assert np.abs(np.corrcoef(z[:, 0], x[:, 0])[0, 1]) > 0.99


def test_a_kernel_of_equal_inputs_has_a_root():
    k = np.ones((50, 50)) - 1e-4 * np.eye(50)  # rounding has made it no kernel any more
    root = root_of(k)
    assert np.abs(root @ root.T - k).max() < 0.02
