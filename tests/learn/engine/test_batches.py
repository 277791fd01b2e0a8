from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from lazy_inputs import Photos, Squares

from pidual.learn import batch as batch_module
from pidual.learn.batch import Rows
from pidual.learn.engine import Training
from pidual.learn.engine.batches import Batches
from pidual.learn.nets import augment
from pidual.learn.nets.augment import STRONG_POLICIES


def test_an_epoch_is_a_permutation_and_epochs_differ(rows):
    batches = Batches(rows, Training(batch_size=60))
    seen = torch.cat([batch.index for batch in batches.epoch(batches.order(0))])
    assert sorted(seen.tolist()) == list(range(240))
    assert not torch.equal(batches.order(0), batches.order(1))
    assert torch.equal(batches.order(1), Batches(rows, Training(batch_size=60)).order(1))


def test_batches_carry_the_right_rows_and_random_pi(rows):
    batches = Batches(rows, Training(batch_size=60), random_pi=3)
    batch = next(iter(batches.epoch(batches.order(0))))
    i = int(batch.index[5])
    assert torch.equal(batch.x[5], rows.x[rows.x_row[i]])
    assert batch.y_noisy[5] == rows.y_noisy[i]
    assert torch.equal(batch.a.numbers[5, :2], rows.numbers[i])
    assert torch.equal(batch.a.numbers[5, 2:], rows.random_pi(torch.tensor([i]), 3)[0])


def test_random_pi_that_is_kept_is_that_which_is_not(rows, monkeypatch):
    index = torch.tensor([5, 0, 5, 3])
    kept = [rows.random_pi(index, length) for length in (4, 2)]
    monkeypatch.setattr(batch_module, "KEPT_RANDOM", 0)
    assert all(torch.equal(drawn, rows.random_pi(index, drawn.shape[1])) for drawn in kept)
    assert sorted(rows._kept_random) == [2, 4]


def test_batch_is_at_most_the_training_set_and_the_last_partial_one_is_dropped(rows):
    assert Batches(rows, Training(batch_size=1000)).steps == 1
    assert Batches(rows, Training(batch_size=1000)).batch_size == 240
    assert Batches(rows, Training(batch_size=100)).steps == 2
    assert Batches(rows, Training(batch_size=101), world_size=2).batch_size == 100


def images(n=64):
    rng = np.random.default_rng(0)
    return Rows.build(rng.integers(0, 255, (n, 3, 8, 8), dtype=np.uint8), np.arange(n), np.zeros(n, np.int64))


@pytest.mark.parametrize("policy", STRONG_POLICIES)
def test_the_last_views_are_strongly_augmented(policy):
    x = np.random.default_rng(0).integers(0, 256, (12, 3, 16, 16), dtype=np.uint8)
    rows = Rows.build(x, np.arange(12), np.zeros(12, int))
    training = Training(batch_size=12, crop_pad=2, flip=True)
    whole = Batches(rows, training, n_views=2, strong_views=1, strong_policy=policy)
    weak, strong = whole.augment((rows.x,), 1, 2)
    assert torch.equal(weak, Batches(rows, training).augment((rows.x,), 1, 2)[0])
    assert strong.dtype == torch.uint8
    assert strong.shape == x.shape
    mean = torch.from_numpy(x).float().mean((0, 2, 3)).round()
    seen = 8 * 8 if policy == "autoaugment" else 6 * 6  # Cutout, cut off at most twice, and the crop takes two off that
    assert all((image == mean.view(3, 1, 1)).all(0).sum() >= seen for image in strong)
    again = Batches(rows, training, n_views=2, strong_views=1, strong_policy=policy)  # as after resuming
    assert torch.equal(again.augment((rows.x,), 1, 2)[1], strong)
    assert not torch.equal(again.augment((rows.x,), 1, 3)[1], strong)
    halves = [
        Batches(rows, training, 0, 2, 1, rank, 2, policy).augment((rows.x[6 * rank : 6 * rank + 6],), 1, 2)
        for rank in (0, 1)
    ]
    assert torch.equal(torch.cat([half[1] for half in halves]), strong)


@pytest.mark.parametrize(
    ("policy", "order"),
    [("autoaugment", ["auto_augment", "crop_flip", "cutout"]), ("uda", ["rand_augment", "cutout", "crop_flip"])],
)
def test_the_strong_policy_comes_before_crop_and_flip(policy, order, monkeypatch):
    made = []

    def watched(name):
        function = getattr(augment, name)

        def call(x, draws, **options):
            made.append((name, x, draws, function(x, draws, **options)))
            return made[-1][3]

        return call

    for name in order:
        monkeypatch.setattr(f"pidual.learn.engine.batches.{name}", watched(name))
    x = images().x[:16]
    training = Training(batch_size=16, crop_pad=2, flip=True)
    batches = Batches(images(), training, n_views=2, strong_views=1, strong_policy=policy)
    weak, strong = batches.augment((x,), 0, 0)
    assert [name for name, *_ in made] == ["crop_flip", *order]
    (_, _, _, weak_made), *steps = made
    assert weak_made is weak
    for (_, _, _, before), (_, after, _, _) in pairwise([("", None, None, x), *steps]):
        assert after is before
    assert steps[-1][3] is strong
    numbers = torch.cat([draws for _, _, draws, _ in steps], 1)
    assert len(numbers.unique()) == numbers.numel()  # no number serves twice


def test_resized_crops_of_images_in_memory():
    training = Training(batch_size=16, resized_crop=True)
    whole = Batches(images(), training, n_views=2)
    x = whole.rows.x[:16]
    one, two = whole.augment((x,), 3, 1)
    assert one.shape == x.shape
    assert not torch.equal(one, two)
    assert torch.equal(one, whole.augment((x,), 3, 1)[0])
    assert not torch.equal(one, whole.augment((x,), 3, 2)[0])
    halves = [Batches(images(), training, n_views=2, rank=rank, world_size=2) for rank in (0, 1)]
    parts = [half.augment((x[8 * rank : 8 * rank + 8],), 3, 1)[1] for rank, half in enumerate(halves)]
    assert torch.equal(torch.cat(parts), two)
    scanned = whole.scan_views(x, 0, epoch=3)
    assert torch.equal(scanned[0], whole.scan_views(x, 0, epoch=3)[0])
    assert not torch.equal(*scanned)
    flipped = Batches(images(), Training(batch_size=16, resized_crop=True, flip=True)).augment((x,), 0, 0)[0]
    plain = Batches(images(), Training(batch_size=16, resized_crop=True)).augment((x,), 0, 0)[0]
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(flipped, plain, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(flipped, plain, strict=True)]
    assert all(a or b for a, b in zip(mirrored, same, strict=True))
    assert 0 < sum(mirrored) < 16


def test_lazy_images_are_cropped_as_they_are_read(rows):
    lazy = replace(rows, x=Photos(80))
    memory = replace(rows, x=torch.from_numpy(Photos(80).take(np.arange(80))))

    def epoch(rows, first=0, workers=0, **process):
        training = Training(batch_size=60, resized_crop=True, flip=True, loader_workers=workers)
        batches = Batches(rows, training, random_pi=2, n_views=2, **process)
        made = batches.epoch(batches.order(1), first, epoch=1)
        return [batch._replace(views=batches.augment(batch.views, 1, step)) for step, batch in enumerate(made, first)]

    whole = epoch(memory)
    assert len(whole) == 4
    assert not torch.equal(*whole[0].views)
    for other, first in ((epoch(lazy), 0), (epoch(lazy, workers=1), 0), (epoch(lazy, first=3), 3)):
        for one, two in zip(other, whole[first:], strict=True):
            assert torch.equal(one.a.numbers, two.a.numbers)
            assert all(torch.equal(a, b) for a, b in zip(one.views, two.views, strict=True))
    halves = [epoch(lazy, rank=rank, world_size=2)[2].views[1] for rank in (0, 1)]
    assert torch.equal(torch.cat(halves), whole[2].views[1])


def test_workers_that_read_stay_from_epoch_to_epoch(rows):
    lazy = replace(rows, x=Squares(len(rows.x)))
    batches, plain = (Batches(lazy, Training(batch_size=60, loader_workers=n), random_pi=2) for n in (1, 0))
    seen = []
    for epoch in range(2):
        order = batches.order(epoch)
        found = [*zip(batches.epoch(order, 1, epoch=epoch), plain.epoch(order, 1, epoch=epoch), strict=True)]
        assert len(found) == 3
        for one, other in found:
            assert torch.equal(one.x, other.x)
            assert torch.equal(one.index, other.index)
            assert torch.equal(one.a.numbers, other.a.numbers)
        (worker,) = batches._loader._iterator._workers
        seen.append(worker.pid)
    assert seen[0] == seen[1]
