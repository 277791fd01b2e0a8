"""DivideMix: division, targets and loss against plain loops; who divides for whom; and when."""

import math

import pytest
import torch
from small_networks import Linear
from torch.nn import functional as F
from toy import batch_of_views, fixed_mixup, softmax

from pidual.learn.batch import Spec
from pidual.learn.methods import divide_mix
from pidual.learn.methods.divide_mix import DivideMix
from pidual.learn.methods.parts.selection import clean_posterior

N, K, B, T = 24, 4, 8, 0.5


def make(epochs=300, **options):
    return DivideMix(Linear(K), Spec(N, K, epochs=epochs), **options)


def begin(method, epoch, x, labels):
    """Start an epoch as the engine does."""

    def scan(function, *, with_x=True, augmented=False):
        assert not augmented
        method.eval()
        with torch.no_grad():
            values = function(batch_of_views(torch.arange(len(labels)), (x,), labels))
        method.train()
        return values

    assert not method.begin_epoch(epoch, scan)


def divided(method, w, epoch=100):
    """The method in an epoch that has begun with these posteriors (by f, by g)."""
    method.epoch = epoch
    method.w.copy_(w)
    method.labelled.copy_((w > method.threshold).flip(0))
    method.progress.copy_(torch.tensor([0, 4 * N]))
    return method


def predict(weight, x):
    return softmax([sum(a * b for a, b in zip(row, x, strict=True)) for row in weight])


def targets_by_loops(net, partner, views, y, w):
    """For one network: refined where the partner's w is above a half, guessed by both elsewhere, sharpened."""
    targets = []
    for one, two, label, w_i in zip(*views, y, w, strict=True):
        own = [predict(net, view) for view in (one, two)]
        all_four = own + [predict(partner, view) for view in (one, two)]
        if w_i > 0.5:
            q = [w_i * (k == label) + (1 - w_i) * (own[0][k] + own[1][k]) / 2 for k in range(K)]
        else:
            q = [sum(p[k] for p in all_four) / 4 for k in range(K)]
        sharp = [value ** (1 / T) for value in q]
        targets.append([value / sum(sharp) for value in sharp])
    return targets


def terms_by_loops(net, x, targets, w, weight, share, other):
    """L_x, L_u, L_pen of one network on views one after the other, mixed."""
    n = len(w)
    loss_x = loss_u = n_x = n_u = 0.0
    mean_p = [0.0] * K
    for i in range(2 * n):
        mixed = [share * a + (1 - share) * b for a, b in zip(x[i], x[other[i]], strict=True)]
        q = [share * a + (1 - share) * b for a, b in zip(targets[i], targets[other[i]], strict=True)]
        p = predict(net, mixed)
        mean_p = [a + b / (2 * n) for a, b in zip(mean_p, p, strict=True)]
        if w[i % n] > 0.5:
            loss_x -= weight[i % n] * sum(q[k] * math.log(p[k]) for k in range(K))
            n_x += weight[i % n]
        else:
            loss_u += weight[i % n] * sum((p[k] - q[k]) ** 2 for k in range(K)) / K
            n_u += weight[i % n]
    return loss_x / n_x, loss_u / n_u, sum(math.log(1 / K / value) / K for value in mean_p)


@pytest.mark.parametrize(("epochs", "warmup"), [(300, 10), (30, 1), (5, 1), (1, 1)])
def test_phases_are_the_authors_shares_of_the_run(epochs, warmup):
    method, labels, phases = make(epochs), torch.arange(N) % K, []
    for epoch in range(min(epochs, 14)):
        begin(method, epoch, torch.randn(N, K), labels)
        phases.append(method.phase)
    assert phases == ["warm-up"] * min(warmup, epochs) + ["semi-supervised"] * (len(phases) - warmup)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_warm_up_is_cross_entropy_and_for_asymmetric_noise_negative_entropy(asymmetric):
    method = make(asymmetric=asymmetric)
    views, y, weight = torch.randn(2, B, K), torch.randint(0, K, (B,)), torch.rand(B) + 0.5
    total = 0.0
    for net, view in zip((method.f, method.g), views, strict=True):
        for x, label, w in zip(view.tolist(), y.tolist(), weight.tolist(), strict=True):
            p = predict(net.head.weight.tolist(), x)
            total -= w * math.log(p[label]) / B
            total += asymmetric * w * sum(value * math.log(value) for value in p) / B
    assert method(batch_of_views(torch.arange(B), views, y, weight))["loss"].item() == pytest.approx(total, abs=1e-5)


def test_each_network_divides_the_rows_for_the_other():
    method, x, labels = make(), 3 * torch.randn(N, K), torch.arange(N) % K
    begin(method, 10, x, labels)
    for k, net in enumerate((method.f, method.g)):
        losses = [
            -math.log(predict(net.head.weight.tolist(), row)[y])
            for row, y in zip(x.tolist(), labels.tolist(), strict=True)
        ]
        w = clean_posterior(torch.tensor(losses))
        assert torch.allclose(method.w[k], w, atol=1e-3)
        assert torch.equal(method.labelled[1 - k], method.w[k] > 0.5)
        assert 0 < method.labelled[1 - k].sum() < N
    assert not torch.equal(method.labelled[0], method.labelled[1])
    assert all(mode == (False, False) for net in (method.f, method.g) for mode in net.seen)


def test_loss_equals_plain_loops(monkeypatch):
    method = divided(make(lam=25.0), torch.rand(2, N), epoch=18)
    others = fixed_mixup(monkeypatch, divide_mix, 4.0)
    index, y, weight = torch.randperm(N)[:B], torch.randint(0, K, (B,)), torch.rand(B) + 0.5
    views = torch.randn(2, B, K)
    logs = method(batch_of_views(index, views, y, weight))
    f, g = method.f.head.weight.tolist(), method.g.head.weight.tolist()
    expected = [0.0] * 3
    for k, (net, partner) in enumerate([(f, g), (g, f)]):
        own = slice(k, None, 2)  # every second row is for f, the others for g
        w = method.w[1 - k][index[own]].tolist()
        assert min(w) < 0.5 < max(w)
        parts = views[:, own].tolist()
        targets = targets_by_loops(net, partner, parts, y[own].tolist(), w)
        terms = terms_by_loops(net, parts[0] + parts[1], targets * 2, w, weight[own].tolist(), 0.7, others[k])
        expected = [a + b for a, b in zip(expected, terms, strict=True)]
    loss_x, loss_u, penalty = expected
    assert logs["loss_labelled"].item() == pytest.approx(loss_x, abs=1e-5)
    assert logs["loss_unlabelled"].item() == pytest.approx(loss_u, abs=1e-5)
    assert logs["loss"].item() == pytest.approx(loss_x + 25 * (18 - 10) / 16 * loss_u + penalty, abs=1e-4)


def test_targets_carry_no_gradient_and_each_network_learns_from_its_own_half(monkeypatch):
    method = divided(make(lam=0.0), torch.ones(2, N))
    monkeypatch.setattr(divide_mix, "mixup", lambda x, targets, alpha: (x, targets, torch.arange(len(x)), 1.0))
    views, y = torch.randn(2, B, K), torch.randint(0, K, (B,))
    method(batch_of_views(torch.arange(B), views, y))["loss"].backward()
    for k, net in enumerate((method.f, method.g)):
        weight = net.head.weight.detach().clone().requires_grad_()
        log_p = (views[:, k::2] @ weight.T).log_softmax(2)  # w = 1: the targets are the labels
        loss = -(F.one_hot(y[k::2], K) * log_p).sum(2).mean() - (K * log_p.exp().mean((0, 1))).log().mean()
        loss.backward()
        assert torch.allclose(net.head.weight.grad, weight.grad, atol=1e-5)


def test_weight_of_unlabelled_rows_grows_within_the_epoch():
    method = divided(make(lam=25.0), torch.rand(2, N), epoch=12)
    seen = []
    for _ in range(4 * N // B):
        seen.append(method.unlabelled_weight())
        method(batch_of_views(torch.arange(B), torch.randn(2, B, K), torch.zeros(B, dtype=torch.int64)))
    assert seen == pytest.approx([25 * (2 + step / 12) / 16 for step in range(12)])
    method.epoch = 200
    assert method.unlabelled_weight() == 25.0
    assert method.lam * 0 == divided(make(), torch.rand(2, N), epoch=10).unlabelled_weight()


def test_rows_come_labelled_and_unlabelled_for_either_network_in_turn():
    method, order = divided(make(), torch.rand(2, N)), torch.randperm(N)
    rows = method.epoch_rows(100, order).view(-1, 4).T
    assert method.labelled[0][rows[0]].all()
    assert method.labelled[1][rows[1]].all()
    assert not method.labelled[0][rows[2]].any()
    assert not method.labelled[1][rows[3]].any()
    for part, members in zip(rows, [*method.labelled, *~method.labelled], strict=True):
        assert set(part.tolist()) == set(members.nonzero()[:, 0].tolist())


def test_predicts_the_sum_of_logits():
    method, x = make().eval(), torch.randn(5, K)
    assert torch.allclose(method.logits(x), x @ method.f.head.weight.T + x @ method.g.head.weight.T, atol=1e-6)


def test_native_score_is_the_mean_posterior_of_noise():
    method = make()
    w = torch.rand(2, N)
    method.w.copy_(w)
    columns = method.per_row(batch_of_views([4, -1, 0], (), [0, 1, 2]), torch.randn(3, K))
    assert set(columns) == set(DivideMix.scores[1:])
    found = columns["noise_posterior"]
    assert found.isnan().tolist() == [False, True, False]
    assert found[0].item() == pytest.approx(1 - (w[0, 4] + w[1, 4]).item() / 2)
