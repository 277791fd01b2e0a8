"""PES(semi): its phases, its targets and its loss against plain loops."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import batch_of_views, softmax

from pidual.learn.batch import Spec
from pidual.learn.methods import pes_semi
from pidual.learn.methods.pes_semi import PESSemi
from pidual.learn.nets import MLP

N, K, B = 24, 4, 8


class Passing(nn.Module):
    """Passes x on, the tests' inputs being logits, and remembers what came."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(K, K)
        self.head.load_state_dict({"weight": torch.eye(K), "bias": torch.zeros(K)})
        self.seen = []

    def forward(self, x):
        self.seen.append((x, torch.is_grad_enabled(), self.training))
        return self.head(x)


def make(epochs=300, **options):
    return PESSemi(Passing(), Spec(N, K, epochs=epochs), **options)


def begin(method, epoch, logits, labels):
    """Start an epoch; both views of the training rows give these logits."""

    def scan(function, *, with_x=True, augmented=False):
        with torch.no_grad():
            return function(batch_of_views(torch.arange(len(labels)), (logits, logits), labels))

    return method.begin_epoch(epoch, scan)


def begin_with(method, epoch, confident, labels):
    """Start an epoch with these rows confident."""
    answers = torch.where(confident, labels, (labels + 1) % K)
    return begin(method, epoch, 5 * F.one_hot(answers, K).float(), labels)


def targets_by_loops(views, y, confident, temperature=0.5):
    targets = []
    for one, two, label, keep in zip(*views.tolist(), y.tolist(), confident.tolist(), strict=True):
        q = [((a + b) / 2) ** (1 / temperature) for a, b in zip(softmax(one), softmax(two), strict=True)]
        targets.append([float(k == label) for k in range(K)] if keep else [value / sum(q) for value in q])
    return targets


@pytest.mark.parametrize(("epochs", "lengths"), [(300, (20, 5)), (30, (2, 1)), (5, (1, 1)), (3, (1, 1)), (2, (1, 0))])
def test_phases_are_the_authors_shares_of_the_run(epochs, lengths):
    method = make(epochs)
    labels, seen = torch.randint(0, K, (N,)), []
    for epoch in range(epochs):
        changed = begin(method, epoch, torch.randn(N, K), labels)
        assert changed == (bool(seen) and method.phase != seen[-1])
        seen.append(method.phase)
    names = ["all rows", "classifier", "semi-supervised"]
    assert [seen.count(name) for name in names] == [*lengths, epochs - sum(lengths)]
    assert sorted(seen, key=names.index) == seen


def test_only_the_classifier_has_a_fresh_start():
    f = MLP(K, K, width=8, depth=1)
    method = PESSemi(f, Spec(N, K, epochs=5))
    hidden, head = f.hidden[0].weight.clone(), f.head.weight.clone()
    assert begin(method, 1, torch.randn(N, K), torch.zeros(N, dtype=torch.int64))
    assert torch.equal(f.hidden[0].weight, hidden)
    assert not torch.equal(f.head.weight, head)
    group = method.param_groups()[0]
    assert group["adam"]
    assert {id(p) for p in group["params"]} == {id(p) for p in f.head.parameters()}
    assert begin(method, 2, torch.randn(N, K), torch.zeros(N, dtype=torch.int64))
    assert len(method.param_groups()[0]["params"]) == 4


@pytest.mark.parametrize("epoch", [30, 200])
def test_loss_equals_plain_loops(epoch, monkeypatch):
    method, labels = make(lam=7.0), torch.arange(N) % (K - 1)  # a class without rows
    confident = torch.arange(N) % 5 < 2
    begin_with(method, epoch, confident, labels)
    assert torch.equal(method.confident, confident)
    counts = [
        sum(1 for y, keep in zip(labels.tolist(), confident.tolist(), strict=True) if keep and y == k) for k in range(K)
    ]
    weights = [min(3.0, sum(counts) / (K - 1) / count) if count else 0.0 for count in counts]
    assert method.class_weight.tolist() == pytest.approx(weights)

    views, index = 2 * torch.randn(2, B, K), torch.randperm(N)[:B]
    weight = torch.rand(B) + 0.5
    mixed = {}

    def mixup(x, targets, alpha):
        mixed.update(x=x, targets=targets, alpha=alpha)
        other = torch.randperm(2 * B)
        mixed.update(other=other.tolist())
        return 0.7 * x + 0.3 * x[other], 0.7 * targets + 0.3 * targets[other], other, 0.7

    monkeypatch.setattr(pes_semi, "mixup", mixup)
    method.f.seen.clear()
    logs = method(batch_of_views(index, views, labels[index], weight))
    assert mixed["alpha"] == (4.0 if epoch < 150 else 0.75)
    targets = targets_by_loops(views, labels[index], confident[index])
    assert torch.allclose(mixed["targets"], torch.tensor(targets * 2), atol=1e-5)
    x = torch.cat([*views]).tolist()
    loss_x = loss_u = n_x = n_u = 0.0
    for i, (row, other) in enumerate(zip(x, mixed["other"], strict=True)):
        p = softmax([0.7 * a + 0.3 * b for a, b in zip(row, x[other], strict=True)])
        q = [0.7 * a + 0.3 * b for a, b in zip((targets * 2)[i], (targets * 2)[other], strict=True)]
        w = weight[i % B].item()
        if confident[index[i % B]]:
            loss_x -= w * sum(weights[k] * q[k] * math.log(p[k]) for k in range(K))
            n_x += w
        else:
            loss_u += w * sum((p[k] - q[k]) ** 2 for k in range(K)) / K
            n_u += w
    lam = 7.0 * min(1.0, (epoch - 25) / 16)
    assert logs["loss"].item() == pytest.approx(loss_x / n_x + lam * loss_u / n_u, abs=1e-5)
    (_, first_grad, _), (_, second_grad, _) = method.f.seen
    assert (first_grad, second_grad) == (False, True)


def test_targets_carry_no_gradient(monkeypatch):
    """The gradient is that of the loss with the targets held fixed."""
    method, labels = make(), torch.randint(0, K, (N,))
    begin_with(method, 100, torch.arange(N) % 2 == 0, labels)
    views = torch.randn(2, B, K)
    monkeypatch.setattr(pes_semi, "mixup", lambda x, targets, alpha: (x, targets, torch.arange(2 * B), 1.0))
    method(batch_of_views(torch.arange(B), views, labels[:B]))["loss"].backward()
    found = method.f.head.weight.grad.clone()
    q = torch.tensor(targets_by_loops(views, labels[:B], method.confident[:B]))
    weight = torch.eye(K, requires_grad=True)
    log_p = (torch.stack([*views]) @ weight.T).log_softmax(2)
    labelled = method.confident[:B]
    loss = -(method.class_weight * q * log_p).sum(2)[:, labelled].mean()
    loss = loss + 5.0 * (log_p.exp() - q).square().mean(2)[:, ~labelled].mean()
    loss.backward()
    assert torch.allclose(found, weight.grad, atol=1e-5)


def test_a_batch_is_in_proportion_or_half_and_half():
    method, labels, order = make(), torch.randint(0, K, (N,)), torch.randperm(N)
    begin_with(method, 100, torch.arange(N) % 3 > 0, labels)
    assert torch.equal(method.epoch_rows(100, order), order)
    begin_with(method, 100, torch.arange(N) % 4 == 0, labels)
    rows = method.epoch_rows(100, order)
    assert len(rows) == N
    assert (rows[0::2] % 4 == 0).all()
    assert (rows[1::2] % 4 != 0).all()
    assert len(rows[1::2].unique()) == N // 2
    assert rows[0::2].bincount(minlength=N)[0::4].tolist() == [2] * 6


def test_a_batch_without_confident_rows_has_no_labelled_term():
    method, labels = make(), torch.randint(0, K, (N,))
    begin_with(method, 100, torch.arange(N) >= B, labels)
    logs = method(batch_of_views(torch.arange(B), torch.randn(2, B, K), labels[:B]))
    assert logs["loss_labelled"] == 0
    assert logs["loss_unlabelled"] > 0
