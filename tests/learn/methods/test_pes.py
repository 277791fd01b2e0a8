"""PES: its phases, what each trains, the confident rows and their weights, against plain loops."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import batch_of_views, softmax

from pidual.errors import UsageError
from pidual.learn.batch import Spec
from pidual.learn.engine import Training
from pidual.learn.engine.fit import make_optimizers
from pidual.learn.methods.parts.networks import classifier, last_stage
from pidual.learn.methods.pes import PES
from pidual.learn.nets import MLP, SmallCNN

N, K, B = 24, 4, 8
PHASES = ["all rows", "last stage", "classifier", "confident rows"]


def passing():
    """A network that passes x on: the tests' inputs are logits."""
    f = MLP(K, K, depth=0)
    f.load_state_dict({"head.weight": torch.eye(K), "head.bias": torch.zeros(K)})
    return f


def scan_of(method, views, labels):
    """What the engine hands to on_epoch_start, for a training set of these views and labels."""

    def scan(function, *, with_x=True, augmented=False):
        assert augmented
        method.eval()
        with torch.no_grad():
            values = function(batch_of_views(torch.arange(len(labels)), views, labels))
        method.train()
        return values

    return scan


def begin_last_phase(method, views, labels):
    return method.begin_epoch(sum(phase.epochs for phase in method.phases[:-1]), scan_of(method, views, labels))


@pytest.mark.parametrize(
    ("epochs", "lengths"),
    [
        (200, (25, 7, 5)),
        (300, (38, 11, 8)),
        (30, (4, 1, 1)),
        (5, (1, 1, 1)),
        (4, (1, 1, 1)),
        (3, (1, 0, 0)),
        (1, (1, 0, 0)),
    ],
)
def test_phases_are_the_authors_shares_of_the_run(epochs, lengths):
    method = PES(MLP(K, K, width=8, depth=2), Spec(N, K, epochs=epochs))
    labels, seen = torch.randint(0, K, (N,)), []
    for epoch in range(epochs):
        changed = method.begin_epoch(epoch, scan_of(method, torch.randn(2, N, K), labels))
        assert changed == (bool(seen) and method.phase != seen[-1])
        seen.append(method.phase)
    counts = [seen.count(name) for name in PHASES]
    assert counts == [*lengths, epochs - sum(lengths)]
    assert sorted(seen, key=PHASES.index) == seen


def test_confident_rows_and_their_weights_equal_plain_loops():
    method = PES(passing(), Spec(N, K, epochs=8))
    views, labels = 2 * torch.randn(2, N, K), torch.arange(N) % (K - 1)  # the last class has no rows
    begin_last_phase(method, views, labels)
    confident, counts = [], [0] * K
    for one, two, y in zip(*views.tolist(), labels.tolist(), strict=True):
        mean = [(a + b) / 2 for a, b in zip(softmax(one), softmax(two), strict=True)]
        confident.append(mean.index(max(mean)) == y)
        counts[y] += confident[-1]
    expected = [sum(counts) / (K - 1) / count if count else 0.0 for count in counts]
    assert 0 < sum(confident) < N
    assert method.confident.tolist() == confident
    assert method.class_weight.tolist() == pytest.approx(expected, abs=1e-6)
    assert expected[-1] == 0

    rows = method.confident.nonzero()[:, 0]
    batch = batch_of_views(rows, (torch.randn(len(rows), K),) * 2, labels[rows], torch.rand(len(rows)) + 0.5)
    above, below = 0.0, 0.0
    for f, y, w in zip(batch.x.tolist(), batch.y_noisy.tolist(), batch.weight.tolist(), strict=True):
        above -= w * expected[y] * math.log(softmax(f)[y])
        below += w * expected[y]
    assert method(batch)["loss"].item() == pytest.approx(above / below, abs=1e-5)


def test_all_rows_are_trained_on_where_f_agrees_with_none():
    method = PES(passing(), Spec(N, K, epochs=8))
    labels = torch.arange(N) % K
    begin_last_phase(method, 5 * F.one_hot((labels + 1) % K, K).float().expand(2, N, K), labels)
    assert method.confident.all()
    assert method.class_weight.tolist() == [1.0] * K
    assert sorted(method.epoch_rows(7, torch.randperm(N)).tolist()) == list(range(N))


def test_an_epoch_visits_confident_rows_only_and_fills_a_batch():
    method = PES(passing(), Spec(N, K, epochs=8))
    order = torch.randperm(N)
    assert torch.equal(method.epoch_rows(0, order), order)
    method(batch_of_views(torch.arange(B), torch.randn(2, B, K), torch.zeros(B, dtype=torch.int64)))
    labels = torch.zeros(N, dtype=torch.int64)
    logits = F.one_hot((torch.arange(N) % 3 > 0).long(), K).float()  # every third row agrees
    begin_last_phase(method, logits.expand(2, N, K), labels)
    assert method.epoch_rows(7, order).tolist() == [i for i in order.tolist() if i % 3 == 0]
    begin_last_phase(method, F.one_hot((torch.arange(N) != 5).long(), K).float().expand(2, N, K), labels)
    assert method.epoch_rows(7, order).tolist() == [5] * B


def test_each_phase_renews_and_trains_its_own_layers():
    f = SmallCNN(K, width=4)
    method = PES(f, Spec(N, K, epochs=4))
    x, y = torch.randn(N, 3, 8, 8), torch.randint(0, K, (N,))
    early, late = {"blocks.0.0", "blocks.0.1", "blocks.1.0", "blocks.1.1"}, {"blocks.2.0", "blocks.2.1", "head"}
    renewed = [set(), late, {"head"}, set()]
    trained = [early | late, late, {"head"}, early | late]
    for epoch in range(4):
        before = copy.deepcopy(f.state_dict())
        method.begin_epoch(epoch, scan_of(method, (x, x), y))
        assert moved(before, f) == renewed[epoch]
        optimizers = make_optimizers(method, Training(lr=0.1, weight_decay=0.1))
        adam = [type(optimizer) is torch.optim.Adam for optimizer in optimizers]
        assert adam == [epoch in (1, 2)]
        before = copy.deepcopy(f.state_dict())
        for _ in range(3):
            optimizers[0].zero_grad()
            method(batch_of_views(torch.arange(N), (x, x), y))["loss"].backward()
            optimizers[0].step()
        assert moved(before, f) == trained[epoch]
        assert optimizers[0].param_groups[0]["weight_decay"] == (0.0 if epoch in (1, 2) else 0.1)


def moved(before, f):
    """Layers of which a parameter differs."""
    names = [name for name, _ in f.named_parameters()]
    return {name.rsplit(".", 1)[0] for name in names if not torch.equal(before[name], f.state_dict()[name])}


def test_rate_of_adam_is_the_authors_for_their_steps_and_higher_for_fewer():
    def rate(n_train, epochs, **options):
        method = PES(MLP(K, K, width=8), Spec(n_train, K, epochs=epochs), **options)
        method.batch_size.fill_(128)
        method.epoch = method.phases[0].epochs
        return method.param_groups()[0]["lr"]

    assert rate(45_000, 200) == 1e-4
    assert rate(1280, 200) == pytest.approx(1e-4 * 2000 / 70)
    assert rate(128, 30) == 0.05
    assert rate(128, 30, refine_lr=0.1) == 0.1


def test_a_network_without_head_or_last_stage():
    f = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
    assert classifier(f) is f[4]
    assert last_stage(f, f[4]) == [f[2]]
    inside = nn.Sequential(f)
    assert classifier(inside) is f[4]
    assert last_stage(inside, f[4]) == []
    with pytest.raises(UsageError, match="PES needs a classifier"):
        PES(nn.Identity(), Spec(N, K))


def test_native_score_is_disagreement():
    method = PES(passing(), Spec(N, K))
    logits, y = torch.randn(N, K), torch.randint(0, K, (N,))
    columns = method.per_row(batch_of_views(torch.arange(N), (), y), logits)
    assert set(columns) == set(PES.scores[1:])
    assert columns["disagreement"].tolist() == [
        float(f.index(max(f)) != k) for f, k in zip(logits.tolist(), y.tolist(), strict=True)
    ]
