"""Batches of items: an input passes through f once per step, with all annotations of its item."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_item import TRAINING, ByItem, build, crowd
from torch import nn

from pidual.batch import Groups
from pidual.engine import Interrupted, Training, fit, make_fabric
from pidual.engine.batches import Batches
from pidual.engine.checkpoint import StateStore
from pidual.methods import CE
from pidual.nets import MLP
from pidual.random_pi import derive_seed


def by_loops(codes):
    """Positions of each code's rows."""
    found = {}
    for position, code in enumerate(codes.tolist()):
        found.setdefault(code, []).append(position)
    return [found[code] for code in sorted(found)]


@pytest.mark.parametrize(
    "codes",
    [
        np.array([3, 1, 3, 3, -7, 1]),
        np.random.default_rng(0).integers(0, 40, 500),
        np.random.default_rng(1).integers(0, 10**12, 50).astype(np.int64),
        np.repeat(np.array([5, 2, 9]), [1, 400, 3]).astype(np.int32),
        np.arange(20),
        np.zeros(30, np.int64),
        np.array([4]),
    ],
)
def test_groups_are_those_of_plain_loops(codes):
    groups, expected = Groups.of(codes), by_loops(codes)
    assert len(groups) == len(expected)
    asked = torch.randperm(len(groups))
    for some in (asked, asked[:3], asked[:1], asked.repeat(2)):
        index, which = groups.members(some)
        assert index.tolist() == [position for group in some.tolist() for position in expected[group]]
        assert which.tolist() == [place for place, group in enumerate(some.tolist()) for _ in expected[group]]
        assert groups.first(some).tolist() == [expected[group][0] for group in some.tolist()]


def test_no_annotations_are_no_groups():
    groups = Groups.of(np.zeros(0, np.int64))
    assert len(groups) == 0
    assert [len(part) for part in groups.members(torch.arange(0))] == [0, 0]


def epoch(rows, number=0, first=0, *, training=TRAINING, random_pi=0, n_views=1, augmented=False, **process):
    """Batches of an epoch."""
    batches = Batches(rows, training, random_pi, n_views, by_item=True, **process)
    made = batches.epoch(batches.order(number), first, epoch=number)
    if not augmented:
        return list(made)
    return [batch._replace(views=batches.augment(batch.views, number, at)) for at, batch in enumerate(made, first)]


def test_an_epoch_has_each_item_once_with_all_of_its_annotations():
    rows = crowd()
    made = epoch(rows, training=replace(TRAINING, batch_size=30))
    assert len(made) == 4
    assert sorted(torch.cat([batch.index for batch in made]).tolist()) == list(range(len(rows)))
    expected = {codes[0]: codes for codes in by_loops(rows.item.numpy())}
    for batch in made:
        assert len(batch.x) == len(batch.fold) == 30
        for place in range(30):
            index = batch.index[batch.item == place]
            assert index.tolist() == expected.pop(int(index[0]))
            assert torch.equal(batch.x[place], rows.x[rows.x_row[index[0]]])
            assert (rows.fold[index] == batch.fold[place]).all()
        assert torch.equal(batch.y_noisy, rows.y_noisy[batch.index])
        assert torch.equal(batch.weight, rows.weight[batch.index])
        assert torch.equal(batch.a.codes, rows.codes[batch.index])
        assert torch.equal(batch.item, batch.item.sort().values)
    assert not expected


def test_the_order_is_a_function_of_seed_and_epoch():
    rows = crowd()

    def items(number, seed=0):
        batches = Batches(rows, replace(TRAINING, seed=seed), by_item=True)
        return batches.order(number)

    assert sorted(items(0).tolist()) == list(range(120))
    assert torch.equal(items(1), items(1))
    assert not torch.equal(items(0), items(1))
    assert not torch.equal(items(0), items(0, seed=1))


def test_a_method_says_that_it_wants_items():
    rows = crowd()
    seen = []

    class Watched(ByItem):
        def forward(self, batch):
            seen.append(batch)
            return super().forward(batch)

    fit(lambda: Watched(MLP(5, 3, width=8, depth=1), rows.spec(3)), rows, rows, replace(TRAINING, epochs=1))
    for one, two in zip(seen, epoch(rows), strict=True):
        assert torch.equal(one.index, two.index)
        assert torch.equal(one.item, two.item)
    assert not CE.by_item


def test_an_input_passes_through_f_once_a_step_however_many_answers_it_has():
    rows = crowd()

    class Counting(MLP):
        passed = 0

        def forward(self, x):
            self.passed += len(x) if self.training else 0
            return super().forward(x)

    training = replace(TRAINING, epochs=2, batch_size=40)
    fitted = fit(lambda: ByItem(Counting(5, 3, width=8, depth=1), rows.spec(3)), rows, None, training)
    assert fitted.method.f.passed == 2 * 120 < 2 * len(rows)


def test_two_steps_by_hand():
    """The whole set as one batch, with torch's own optimizer."""
    rows = crowd()
    training = Training(epochs=2, batch_size=5000, lr=0.1, schedule="constant", guard="off")
    fitted = fit(lambda: ByItem(nn.Linear(5, 3), rows.spec(3)), rows, None, training, fabric=make_fabric("cpu"))
    torch.manual_seed(derive_seed(0, 0, 3))
    f = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(f.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=training.weight_decay)
    for _ in range(2):
        optimizer.zero_grad()
        loss = sum(
            rows.weight[j] * nn.functional.cross_entropy(f(rows.x[rows.x_row[found[0]]]), rows.y_noisy[j])
            for found in by_loops(rows.item.numpy())
            for j in found
        )
        (loss / 120).backward()
        optimizer.step()
    for name, value in f.state_dict().items():
        assert torch.allclose(fitted.last[f"f.{name}"], value, atol=1e-5)


def test_one_seed_gives_one_result():
    rows = crowd()
    one, two = (fit(build(rows), rows, rows, TRAINING) for _ in range(2))
    assert all(torch.equal(value, two.last[name]) for name, value in one.last.items())
    other = fit(build(rows), rows, rows, replace(TRAINING, seed=5))
    assert not torch.equal(other.last["f.head.weight"], one.last["f.head.weight"])


@pytest.mark.parametrize("at", [1, 7, 8, 19])  # of 8 steps an epoch
def test_stopped_and_resumed_is_bitwise_the_same(at, tmp_path):
    rows = crowd()
    whole = fit(build(rows), rows, rows, TRAINING)
    steps = itertools.count(1)
    with pytest.raises(Interrupted):
        fit(build(rows), rows, rows, TRAINING, store=StateStore(tmp_path), stop=lambda: next(steps) == at)
    resumed = fit(build(rows), rows, rows, TRAINING, store=StateStore(tmp_path))
    assert whole.last.keys() == resumed.last.keys()
    assert all(torch.equal(value, resumed.last[name]) for name, value in whole.last.items())


def test_processes_have_equally_many_items_of_a_global_batch():
    rows = crowd()
    halves = [epoch(rows, 2, random_pi=3, rank=rank, world_size=2) for rank in (0, 1)]
    uneven = 0
    for whole, first, second in zip(epoch(rows, 2, random_pi=3), *halves, strict=True):
        assert len(first.x) == len(second.x) == 7
        assert torch.equal(whole.index, torch.cat([first.index, second.index]))
        assert torch.equal(whole.item, torch.cat([first.item, second.item + 7]))
        assert torch.equal(whole.fold, torch.cat([first.fold, second.fold]))
        assert torch.equal(whole.x, torch.cat([first.x, second.x]))
        assert torch.equal(whole.a.numbers, torch.cat([first.a.numbers, second.a.numbers]))
        uneven += len(first.index) != len(second.index)
    assert uneven


def test_an_epoch_can_start_in_the_middle_and_random_pi_follows_the_annotation(monkeypatch):
    rows = crowd()
    everything = epoch(rows, random_pi=2)
    for block in (65_536, 64, 1):  # annotations whose random PI is made in one go
        monkeypatch.setattr("pidual.engine.batches.RANDOM_PI_BLOCK", block)
        for first in (0, 3, 7, 8):
            rest = epoch(rows, 0, first, random_pi=2)
            assert len(rest) == 8 - first
            for one, two in zip(rest, everything[first:], strict=True):
                assert torch.equal(one.index, two.index)
                assert torch.equal(one.a.numbers, two.a.numbers)
                assert torch.equal(one.a.numbers[:, 2:], rows.random_pi(one.index, 2))


def test_a_batch_is_at_most_all_items_and_the_last_partial_one_is_dropped():
    rows = crowd()
    for size, world, batch_size, steps in ((1000, 1, 120, 1), (50, 1, 50, 2), (50, 3, 48, 2), (1, 1, 1, 120)):
        batches = Batches(rows, Training(batch_size=size), world_size=world, by_item=True)
        assert (batches.batch_size, batches.steps) == (batch_size, steps)
    (batch,) = epoch(rows, training=Training(batch_size=1000))
    assert len(batch.x) == 120
    assert len(batch.index) == len(rows)
