"""Training: every option of the training loop, and the learning-rate schedules."""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..errors.messages import quoted

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

_SCHEDULES = ("cosine", "steps", "constant")
_SELECTIONS = ("best", "lowest_loss", "last")
_GUARDS = ("recover", "watch", "off")


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

    epochs: int = 30
    batch_size: int = 256
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    milestones: tuple[int, ...] = ()
    lr_decay: float = 0.2
    lr_end: float = 0.0
    warmup_epochs: float = 0.0
    clip: float | None = None
    crop_pad: int = 0
    resized_crop: bool = False
    flip: bool = False
    precision: str = "32-true"
    select: str = "best"
    guard: str = "recover"
    loader_workers: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.milestones, list | tuple) or not all(isinstance(at, int) for at in self.milestones):
            raise UsageError(f"milestones must be a list of epochs, such as [30, 60], not {quoted(self.milestones)}.")
        object.__setattr__(self, "milestones", tuple(self.milestones))
        for name, low in {"epochs": 1, "batch_size": 1, "crop_pad": 0, "loader_workers": 0, "seed": 0}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise UsageError(f"{name} must be a whole number of at least {low}, not {quoted(value)}.")
        for name in ("lr", "weight_decay", "momentum", "warmup_epochs", "lr_decay", "lr_end"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise UsageError(f"{name} must be a number of at least 0, not {quoted(value)}.")
        if self.momentum >= 1:
            raise UsageError(f"momentum must be below 1, not {quoted(self.momentum)}.")
        if self.lr_end > 1:
            raise UsageError(f"lr_end must be at most 1, not {quoted(self.lr_end)}.")
        for name in ("nesterov", "flip", "resized_crop"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be true or false, not {quoted(getattr(self, name))}.")
        if self.resized_crop and self.crop_pad:
            raise UsageError("resized_crop and crop_pad are two kinds of random crop; give one of them.")
        if self.clip is not None and not (isinstance(self.clip, int | float) and self.clip > 0):
            raise UsageError(f"clip must be above 0 or none, not {quoted(self.clip)}.")
        choices: dict[str, tuple[str, ...]] = {"schedule": _SCHEDULES, "select": _SELECTIONS, "guard": _GUARDS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} must be one of {', '.join(known)}, not {quoted(getattr(self, name))}.")

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
