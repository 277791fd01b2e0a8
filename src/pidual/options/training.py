"""Training: every option of the training loop, and the learning-rate schedules."""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import UsageError
from .checks import Count, NotNegative, Range, Share, ShareBelowOne, check_value, is_number, one_of

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


def _are_epochs(value: Any) -> bool:
    """Return whether it is a list of whole numbers."""
    return isinstance(value, list | tuple) and all(isinstance(at, int) for at in value)


def _is_clip(value: Any) -> bool:
    """Return whether it is a number above 0, or none."""
    return value is None or (is_number(value) and value > 0)


@dataclass(frozen=True)
class Training:
    """Options of the training loop; a subclass may have more, and say how they change the steps.

    Parameters
    ----------
    epochs : int
        Number of passes over the training rows; time grows in proportion.
    batch_size : int
        Rows per step, over all processes together. If the method judges all answers to an item together, it counts
        items. The last partial batch of an epoch is dropped.
    lr : float
        Learning rate of SGD. Lower it if training diverges or collapses.
    momentum : float
        Momentum of SGD, from 0 to below 1.
    weight_decay : float
        Weight decay of SGD, which keeps weights small: weight_decay * w is added to the gradient.
    nesterov : bool
        Use Nesterov's momentum instead of plain momentum.
    schedule : "cosine", "steps" or "constant"
        How the learning rate changes during the run: "cosine" lowers it smoothly to `lr_end`, "steps" multiplies it by
        `lr_decay` at each of the `milestones`, "constant" keeps it.
    milestones : sequence of int
        For schedule "steps": the numbers of epochs after which the rate drops, such as [36, 72].
    lr_decay : float
        For schedule "steps": the factor by which the rate is multiplied at each milestone.
    lr_end : float
        For schedule "cosine": the last learning rate, as a share of `lr`; 0 ends at zero.
    warmup_epochs : float
        Number of epochs in which the rate grows linearly from 0, before the schedule begins; 0 leaves this out.
    clip : float or None
        Largest norm of the gradient over all parameters; larger gradients are scaled down to it. None does not clip.
    crop_pad : int
        For images: pad each side by this many pixels, then crop to the old size at a random place. 0 does not crop.
    resized_crop : bool
        For images: crop a random part of 8% to 100% of the area, with width / height from 3/4 to 4/3, and scale it to
        the size of the image. Images that are read when needed are cropped as they are on disk, those in memory as they
        were read. Evaluation uses images as they are read; `load_inputs(..., centre_crop=True)` reads their centre.
    flip : bool
        For images: flip left and right at random.
    precision : str
        Number format of the calculations, by its name in Lightning Fabric, such as "32-true" or "bf16-mixed".
    select : "best", "lowest_loss" or "last"
        Epoch whose weights predict: "best" has the highest accuracy on the noisy validation rows, "lowest_loss" the
        lowest loss there, "last" is the last one. The last weights are saved in any case.
    guard : "recover", "watch" or "off"
        What to do if training collapses, so that the classifier learns nothing: "recover" starts again with a smaller
        learning rate, "watch" only records it, "off" does not check.
    loader_workers : int
        Number of processes that read inputs which do not fit in memory.
    seed : int
        Random seed for initial weights, order of rows, augmentation and random PI.
    """

    epochs: Count = 30
    batch_size: Count = 256
    lr: NotNegative = 0.1
    momentum: ShareBelowOne = 0.9
    nesterov: bool = True
    weight_decay: NotNegative = 1e-4
    schedule: Annotated[str, one_of("cosine", "steps", "constant")] = "cosine"
    milestones: Annotated[tuple[int, ...], Range(_are_epochs, "a list of epochs, such as [30, 60]")] = ()
    lr_decay: NotNegative = 0.2
    lr_end: Share = 0.0
    warmup_epochs: NotNegative = 0.0
    clip: Annotated[float | None, Range(_is_clip, "above 0 or none")] = None
    crop_pad: int = 0
    resized_crop: bool = False
    flip: bool = False
    precision: str = "32-true"
    select: Annotated[str, one_of("best", "lowest_loss", "last")] = "best"
    guard: Annotated[str, one_of("recover", "watch", "off")] = "recover"
    loader_workers: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for option in fields(self):
            check_value(option.name, getattr(self, option.name), option.type)
        object.__setattr__(self, "milestones", tuple(self.milestones))
        if self.resized_crop and self.crop_pad:
            raise UsageError("resized_crop and crop_pad are two kinds of random crop; give one of them.")

    @property
    def scaled_lr(self) -> float:
        """The learning rate at this batch size, before warm-up and schedule."""
        return self.lr

    def count_valid(self, n: int) -> int:
        """Return how many of the noisy validation rows are used: the first ones."""
        return n

    def make_sgd(self, groups: list[dict[str, Any]]) -> "Optimizer":
        """Return the optimizer of ordinary parameters."""
        from torch.optim import SGD

        return SGD(groups, lr=self.scaled_lr, fused=True)

    def decay_groups(self, method: "Module", groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a method's parameter groups with their weight decay."""
        return groups

    def lr_factor(self, step: float, steps_per_epoch: int) -> float:
        """Return what the learning rate is multiplied by at a step, counted from 0 over the whole run."""
        warmup = self.warmup_epochs * steps_per_epoch
        if step < warmup:
            return (step + 1) / warmup
        if self.schedule == "cosine":
            total = self.epochs * steps_per_epoch
            left = 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, total - warmup)))
            return self.lr_end + (1 - self.lr_end) * left
        if self.schedule == "steps":
            return float(self.lr_decay ** sum(step // steps_per_epoch >= epoch for epoch in self.milestones))
        return 1.0


def option_names(training: type[Training] = Training) -> list[str]:
    """Return the names of all training options."""
    return [option.name for option in fields(training)]
