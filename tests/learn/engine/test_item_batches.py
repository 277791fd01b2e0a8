"""Batches of items: an input passes through f once per step, with all annotations of its item."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_item import TRAINING, ByItem, crowd
from contract import spec_of
from lazy_inputs import Photos, Squares
from torch import nn

from pidual.data.pi.random_pi import derive_seed
from pidual.learn.batch import Groups, Rows
from pidual.learn.engine import Session, Training, fit, make_fabric
from pidual.learn.engine.batches import Batches
from pidual.learn.methods import CE
from pidual.learn.nets import MLP


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


def test_a_method_says_that_it_wants_items():
    rows = crowd()
    seen = []

    class Watched(ByItem):
        def forward(self, batch):
            seen.append(batch)
            return super().forward(batch)

    fit(lambda: Watched(MLP(5, 3, width=8, depth=1), spec_of(rows, 3, (6,))), rows, rows, replace(TRAINING, epochs=1))
    for one, two in zip(seen, epoch(rows), strict=True):
        assert torch.equal(one.index, two.index)
        assert torch.equal(one.item, two.item)
    assert not CE.by_item


def test_two_steps_by_hand():
    """Weighted answers of all items in one batch, one after the other, with torch's own optimizer."""
    rows = crowd()
    training = Training(epochs=2, batch_size=5000, lr=0.1, schedule="constant", guard="off")

    def make():
        return ByItem(nn.Linear(5, 3), spec_of(rows, 3, (6,)))

    fitted = fit(make, rows, None, training, Session(make_fabric("cpu")))
    torch.manual_seed(derive_seed(0, 0, 3))
    method = make()
    optimizer = torch.optim.SGD(
        method.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=training.weight_decay
    )
    numbers = torch.cat([rows.numbers, rows.random_pi(torch.arange(len(rows)), 2)], 1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.zeros(())
        for answers in by_loops(rows.item.numpy()):
            logits = method.f(rows.x[rows.x_row[answers[0]]])
            for j in answers:
                answer = logits + method.answers(rows.codes[j : j + 1], numbers[j : j + 1])[0]
                loss = loss + rows.weight[j] * nn.functional.cross_entropy(answer, rows.y_noisy[j])
        (loss / 120).backward()
        optimizer.step()
    for name, value in method.state_dict().items():
        assert torch.allclose(fitted.last[name], value, atol=1e-5)


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
        monkeypatch.setattr("pidual.learn.engine.batches.RANDOM_PI_BLOCK", block)
        for first in (0, 3, 7, 8):
            rest = epoch(rows, 0, first, random_pi=2)
            assert len(rest) == 8 - first
            for one, two in zip(rest, everything[first:], strict=True):
                assert torch.equal(one.index, two.index)
                assert torch.equal(one.a.numbers, two.a.numbers)
                assert torch.equal(one.a.numbers[:, 2:], rows.random_pi(one.index, 2))


@pytest.mark.parametrize("workers", [0, 1])
def test_lazy_inputs_are_read_once_an_item_and_come_in_the_same_order(workers):
    rows, squares = crowd(), Squares(120)
    lazy, training = replace(rows, x=squares), replace(TRAINING, loader_workers=workers)
    memory = epoch(replace(rows, x=torch.arange(120.0)[:, None].expand(-1, 5) ** 2), 1, random_pi=2)
    for first in (0, 5):
        for one, two in zip(epoch(lazy, 1, first, training=training, random_pi=2), memory[first:], strict=True):
            assert torch.equal(one.index, two.index)
            assert torch.equal(one.item, two.item)
            assert torch.equal(one.fold, two.fold)
            assert torch.equal(one.a.numbers, two.a.numbers)
            assert torch.equal(one.x, two.x)
    if workers == 0:
        assert len(squares.taken) == 8 * 14 + 3 * 14
        assert len(set(squares.taken[: 8 * 14])) == 8 * 14


@pytest.mark.parametrize("options", [{"crop_pad": 2, "flip": True}, {"resized_crop": True, "flip": True}])
def test_augmentation_is_drawn_by_item_whatever_the_number_of_processes(options):
    rows = crowd()
    lazy, memory = replace(rows, x=Photos(120)), replace(rows, x=torch.from_numpy(Photos(120).take(np.arange(120))))
    how = {"training": replace(TRAINING, **options), "n_views": 2, "augmented": True}
    plain, whole = epoch(memory, 1), epoch(memory, 1, **how)
    assert len(whole[0].views[0]) == 14 < len(whole[0].index)
    assert not torch.equal(*whole[0].views)
    assert not torch.equal(whole[0].x, plain[0].x)
    for other, first in ((epoch(memory, 1, 3, **how), 3), (epoch(lazy, 1, **how), 0), (epoch(lazy, 1, 3, **how), 3)):
        for one, two in zip(other, whole[first:], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one.views, two.views, strict=True))
    for inputs in (memory, lazy):
        halves = [epoch(inputs, 1, rank=rank, world_size=2, **how) for rank in (0, 1)]
        for one, first, second in zip(whole, *halves, strict=True):
            for view in (0, 1):
                assert torch.equal(one.views[view], torch.cat([first.views[view], second.views[view]]))


def test_scans_are_in_the_order_of_items():
    rows, seen = crowd(), {}

    class Scans(ByItem):
        def on_epoch_start(self, epoch, scan):
            seen["x"] = scan(lambda batch: batch.x[:, 0])
            seen["rows"] = scan(lambda batch: torch.stack([batch.index, batch.starts], 1), with_x=False)

    fit(lambda: Scans(nn.Linear(5, 3), spec_of(rows, 3, (6,))), rows, None, replace(TRAINING, epochs=1))
    index, starts = seen["rows"].T
    assert index.tolist() == list(itertools.chain(*by_loops(rows.item.numpy())))
    first = [group[0] for group in by_loops(rows.item.numpy())]
    assert index[starts > 0].tolist() == first
    assert torch.equal(seen["x"], rows.x[rows.x_row[first], 0])


def test_a_memory_map_is_not_read_as_a_whole(tmp_path):
    rows = crowd()
    np.save(tmp_path / "x.npy", rows.x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="c")
    on_disk = Rows.build(
        mapped, rows.x_row.numpy(), rows.y_noisy.numpy(), item=rows.item.numpy(), fold=rows.fold.numpy()
    )
    assert on_disk.x.data_ptr() == mapped.ctypes.data
    for one, two in zip(epoch(on_disk), epoch(rows), strict=True):
        assert torch.equal(one.x, two.x)
        assert torch.equal(one.item, two.item)
