"""ELR+: targets, loss, averages and their schedules against plain loops."""

import math

import pytest
import torch
from small_networks import Linear
from toy import batch_of, fixed_mixup, softmax

from pidual.learn.batch import Spec
from pidual.learn.methods import elr_plus
from pidual.learn.methods.elr_plus import ELRPlus

N, K, B = 12, 4, 6


def make(epochs=200, **options):
    return ELRPlus(Linear(K), Spec(N, K, epochs=epochs), **options)


def a_batch():
    return batch_of(torch.randperm(N)[:B], 2 * torch.randn(B, K), torch.randint(0, K, (B,)), torch.rand(B) + 0.5)


def predict(weight, x):
    return softmax([sum(a * b for a, b in zip(row, x, strict=True)) for row in weight])


def mix(share, a, b):
    return [share * one + (1 - share) * two for one, two in zip(a, b, strict=True)]


def r_of(step, steps):
    return math.exp(-5 * (1 - min(1, step / steps)) ** 2)


def losses_by_loops(net, partner_ema, table, batch, k, other, beta, refine):
    """Mean cross-entropy and pull of network k, and its targets, moved in place."""
    x, y, index, weight = (value[k::2].tolist() for value in (batch.x, batch.y_noisy, batch.index, batch.weight))
    for row, i in zip(x, index, strict=True):
        table[i] = mix(beta, table[i], predict(partner_ema, row))
    cross_entropy = pull = 0.0
    for i, row in enumerate(x):
        p = predict(net, mix(0.7, row, x[other[i]]))
        q = mix(0.7, table[index[i]], table[index[other[i]]])
        target = mix(0.7, [float(c == y[i]) for c in range(K)], [float(c == y[other[i]]) for c in range(K)])
        if refine:
            total = sum(a * b for a, b in zip(target, q, strict=True))
            target = [a * b / total for a, b in zip(target, q, strict=True)]
        clamped = [min(max(value, 1e-4), 1 - 1e-4) for value in p]
        cross_entropy -= weight[i] * sum(t * math.log(v) for t, v in zip(target, p, strict=True)) / len(x)
        pull += weight[i] * math.log(1 - sum(a * b for a, b in zip(q, clamped, strict=True))) / len(x)
    return cross_entropy, pull


@pytest.mark.parametrize("refine", [False, True])
def test_loss_targets_and_averages_equal_plain_loops_over_steps(refine, monkeypatch):
    beta, lam = (0.9, 7.0) if refine else (0.7, 3.0)
    method = make(epochs=4, beta=beta, lam=lam, refine_labels=refine)  # half the run is 2 * 24 rows, or 8 steps
    others = fixed_mixup(monkeypatch, elr_plus, 1.0)
    tables = [[[0.0] * K for _ in range(N)] for _ in range(2)]
    averages = [method.f.head.weight.detach().clone(), method.g.head.weight.detach().clone()]
    optimizer = torch.optim.SGD(method.param_groups(), lr=0.3)
    for step in range(10):
        a = 0.997 * r_of(step, 8)
        nets = [method.f.head.weight.detach().clone(), method.g.head.weight.detach().clone()]
        averages = [a * mean + (1 - a) * net for mean, net in zip(averages, nets, strict=True)]
        others.clear()
        batch = a_batch()
        logs = method(batch)
        expected = 0.0
        for k in (0, 1):
            arguments = nets[k].tolist(), averages[1 - k].tolist(), tables[k], batch, k, others[k], beta, refine
            cross_entropy, pull = losses_by_loops(*arguments)
            expected += cross_entropy + lam * (r_of(step, 8) if refine else 1) * pull
        assert logs["loss"].item() == pytest.approx(expected, abs=1e-4)
        assert torch.allclose(method.f_ema.head.weight, averages[0], atol=1e-5)
        assert torch.allclose(method.g_ema.head.weight, averages[1], atol=1e-5)
        assert torch.allclose(method.targets_f.values, torch.tensor(tables[0]), atol=1e-5)
        assert torch.allclose(method.targets_g.values, torch.tensor(tables[1]), atol=1e-5)
        optimizer.zero_grad()
        logs["loss"].backward()
        optimizer.step()
    assert not torch.allclose(averages[0], averages[1], atol=0.1)
    assert not torch.allclose(method.f_ema.head.weight, method.f.head.weight, atol=1e-3)


def test_targets_carry_no_gradient_and_each_network_learns_from_its_own_half(monkeypatch):
    method, batch = make(), a_batch()
    monkeypatch.setattr(elr_plus, "mixup", lambda x, targets, alpha: (x, targets, torch.arange(len(x)), 1.0))
    method(batch)["loss"].backward()
    for k, (net, targets) in enumerate([(method.f, method.targets_f), (method.g, method.targets_g)]):
        weight = net.head.weight.detach().clone().requires_grad_()
        log_p = (batch.x[k::2] @ weight.T).log_softmax(1)
        t = targets[batch.index[k::2]]
        pull = (1 - (t * log_p.exp().clamp(1e-4, 1 - 1e-4)).sum(1)).log()
        cross_entropy = -log_p.gather(1, batch.y_noisy[k::2, None])[:, 0]
        ((cross_entropy + 3 * pull) * batch.weight[k::2]).mean().backward()
        assert torch.allclose(net.head.weight.grad, weight.grad, atol=1e-5)
    assert all(parameter.grad is None for net in (method.f_ema, method.g_ema) for parameter in net.parameters())


def test_averages_are_not_trained_and_predict_in_training_mode():
    method = make()
    assert len(method.param_groups()[0]["params"]) == 2
    for net in (method.f, method.g, method.f_ema, method.g_ema):
        net.seen.clear()
    method(a_batch())
    assert method.f.seen == method.g.seen == [(True, True)]
    assert method.f_ema.seen == method.g_ema.seen == [(False, True)]


def test_native_score_is_of_the_mean_of_both_targets():
    method = make()
    t = torch.rand(2, N, K)
    method.targets_f.update(torch.arange(N), t[0])
    method.targets_g.update(torch.arange(N), t[1])
    columns = method.per_row(batch_of([4, -1, 0], torch.zeros(3, K), [0, 1, 2]), torch.zeros(3, K))
    assert set(columns) == set(ELRPlus.scores[1:])
    found = columns["target_disagreement"]
    assert found.isnan().tolist() == [False, True, False]
    mean = t.mean(0)[4]
    assert found[0].item() == pytest.approx(1 - (mean[0] / mean.sum()).item(), abs=1e-6)
