"""Rows in the order they are trained on: a function of (seed, epoch), the same on any number of processes.

What is put in order and counted is a unit: an annotation, or an item with all of its annotations where the method
judges items. A global batch is cut into slices of equally many units, one for each process. Arrays are selected by
index in this process; inputs that are read when needed come through a DataLoader whose workers make the same selection.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ...data.pi.random_pi import derive_seed
from ...options import Training
from ..batch import Batch, LazyCrops, Rows
from ..nets.augment import (
    DRAWS_CROP,
    DRAWS_CUTOUT,
    STRONG_POLICIES,
    auto_augment,
    crop_flip,
    cutout,
    rand_augment,
    resized_crop,
)

RANDOM_PI_BLOCK = 65_536  # rows whose random PI is made in one go


@dataclass(frozen=True)
class Batches:
    """The training batches of one process."""

    rows: Rows  # training rows
    training: Training  # batch size, seed and augmentation
    random_pi: int = 0  # length of the random PI
    n_views: int = 1  # augmented views of each input
    strong_views: int = 0  # how many of them, the last ones, are strongly augmented
    rank: int = 0  # which process this is
    world_size: int = 1  # of how many
    strong_policy: str = "autoaugment"  # how the strong views are augmented: "autoaugment" or "uda"
    by_item: bool = False  # whether a unit is an item with all of its annotations; else it is an annotation
    on_cuda: bool = False  # whether what is read is put where a CUDA device copies it from by itself

    @property
    def n_units(self) -> int:
        """Return the number of units in the training set."""
        return len(self.rows.groups) if self.by_item else len(self.rows)

    @property
    def batch_size(self) -> int:
        """Return the units per step over all processes: at most all, and a multiple of the number of processes."""
        size = min(self.training.batch_size, self.n_units)
        return max(1, size // self.world_size) * self.world_size

    @property
    def steps(self) -> int:
        """Return the number of steps in an epoch over all units."""
        return self.n_units // self.batch_size

    def order(self, epoch: int) -> Tensor:
        """Return the permutation of the units in this epoch."""
        generator = torch.Generator().manual_seed(derive_seed(self.training.seed, epoch, 1))
        return torch.randperm(self.n_units, generator=generator)

    @property
    def crops_when_read(self) -> bool:
        """Return whether random resized crops are taken from the images on disk, not from what has been read."""
        return self.training.resized_crop and isinstance(self.rows.x, LazyCrops)

    def epoch(self, order: Tensor, first_step: int = 0, *, epoch: int = 0) -> Iterator[Batch]:
        """Yield the batches of this process from `first_step` on, not augmented but for crops taken on reading."""
        size = self.batch_size
        share = size // self.world_size
        order = order[: len(order) // size * size].view(-1, size)[
            first_step:, self.rank * share : (self.rank + 1) * share
        ]
        if isinstance(self.rows.x, Tensor):
            yield from self._select(order)
        else:
            self._to_read[:] = [(epoch, step, units) for step, units in enumerate(order, first_step)]
            yield from self._loader

    @cached_property
    def _to_read(self) -> list[tuple[int, int, Tensor]]:
        """Return epoch, step and units of the batches to read; they change with every epoch."""
        return []

    @cached_property
    def _loader(self) -> "DataLoader[Batch]":
        """Return what reads them, by workers that stay from epoch to epoch."""
        workers = self.training.loader_workers
        how: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0, "pin_memory": self.on_cuda}
        return DataLoader(_Reader(replace(self)), None, sampler=self._to_read, **how)

    def augment(self, views: tuple[Tensor, ...], epoch: int, step: int) -> tuple[Tensor, ...]:
        """Make the views of a batch: random crops and flips where these are asked for, and a policy with Cutout on
        the strong ones. Inputs that are not images have no augmentation.
        """
        n, first = self.batch_size, self.rank * len(views[0])
        if not self.crops_when_read:
            views = self._crop(views[0], n, first, epoch, step, 6)
        return self._views(views, n, first, epoch, step, 2)

    def scan_views(self, x: Tensor, first: int, *, epoch: int) -> tuple[Tensor, ...]:
        """Make the views of inputs outside of training; `first` is the position of the first of them."""
        return self._views(self._crop(x, len(x), 0, epoch, first, 8), len(x), 0, epoch, first, 4)

    def read_crops(self, units: Tensor, epoch: int, step: int) -> tuple[Tensor, ...]:
        """Read random resized crops of the images of this process's share of a batch, one for each view."""
        draws = self._crop_draws(self.batch_size, epoch, step, 6)[:, self.rank * len(units) :][:, : len(units)]
        index = self.rows.groups.first(units) if self.by_item else units
        return self.rows.take_crops(self.rows.x_row[index], draws)

    def _crop(self, x: Tensor, n: int, first: int, *key: int) -> tuple[Tensor, ...]:
        """Crop images in memory at random where this is asked for, else return the inputs; once for each view."""
        if x.ndim != 4 or not self.training.resized_crop:
            return (x,) * self.n_views
        return tuple(resized_crop(x, draws[first : first + len(x)]) for draws in self._crop_draws(n, *key))

    def _crop_draws(self, n: int, *key: int) -> Tensor:
        generator = torch.Generator().manual_seed(derive_seed(self.training.seed, *key))
        return torch.rand(self.n_views, n, DRAWS_CROP, generator=generator)

    def _views(self, inputs: tuple[Tensor, ...], n: int, first: int, *key: int) -> tuple[Tensor, ...]:
        """Make the views of inputs, with the draws of rows `first` on among `n`."""
        training = self.training
        if inputs[0].ndim != 4 or not (training.crop_pad or training.flip or self.strong_views):
            return inputs
        generator = torch.Generator().manual_seed(derive_seed(training.seed, *key))
        views = []
        for view, x in enumerate(inputs):
            strong = view >= self.n_views - self.strong_views
            n_draws = 3 + (STRONG_POLICIES[self.strong_policy] + DRAWS_CUTOUT if strong else 0)
            draws = torch.rand(n, n_draws, generator=generator)[first : first + len(x)].to(x.device)
            if not training.flip:
                draws[:, 2] = 1.0
            views.append(self._strong(x, draws) if strong else crop_flip(x, draws, pad=training.crop_pad))
        return tuple(views)

    @cached_property
    def mean_colour(self) -> Tensor:
        """Return the mean of every channel over some of the images: what Cutout covers with, 0 once standardised."""
        some = torch.linspace(0, len(self.rows.x) - 1, min(256, len(self.rows.x))).long()
        return self.rows.take_x(some).float().mean((0, 2, 3))

    def _strong(self, x: Tensor, draws: Tensor) -> Tensor:
        """Make strong views in their authors' order: the policy first; Cutout after crop and flip, with UDA before."""
        pad, fill = self.training.crop_pad, self.mean_colour
        for_crop, for_policy, for_cutout = draws.split([3, STRONG_POLICIES[self.strong_policy], DRAWS_CUTOUT], 1)
        if self.strong_policy == "uda":
            x = cutout(rand_augment(x, for_policy, fill=fill), for_cutout, fill=fill)
            return crop_flip(x, for_crop, pad=pad)
        return cutout(crop_flip(auto_augment(x, for_policy), for_crop, pad=pad), for_cutout, fill=fill)

    def _select(self, order: Tensor, *, with_x: bool = True) -> Iterator[Batch]:
        """Select the units in every row of `order` (steps, share), making random PI for many steps at a time."""
        if not self.random_pi:
            for units in order:
                index, item = self._annotations(units)
                yield self.rows.select(index, item=item, with_x=with_x)
            return
        per_step = order.shape[1] * len(self.rows) // self.n_units  # annotations, on average
        block = max(1, RANDOM_PI_BLOCK // max(1, per_step))
        for first in range(0, len(order), block):
            parts = [self._annotations(units) for units in order[first : first + block]]
            random = self.rows.random_pi(torch.cat([index for index, _ in parts]), self.random_pi)
            for (index, item), part in zip(parts, random.split([len(index) for index, _ in parts]), strict=True):
                yield self.rows.select(index, item=item, random=part, with_x=with_x)

    def read(self, epoch: int, step: int, units: Tensor) -> Batch:
        """Select the units of a step, whose inputs are read now."""
        if not self.crops_when_read:
            return next(self._select(units[None]))
        return next(self._select(units[None], with_x=False))._replace(views=self.read_crops(units, epoch, step))

    def _annotations(self, units: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the positions of the annotations of these units, and which of the items each is about, if any."""
        return self.rows.groups.members(units) if self.by_item else (units, None)


class _Reader(Dataset[Batch]):
    """Batches by epoch, step and units."""

    def __init__(self, batches: Batches):
        self.batches = batches

    def __getitem__(self, at: tuple[int, int, Tensor]) -> Batch:
        return self.batches.read(*at)
