"""Training: every option of the training loop, and the learning-rate schedules."""

import math
from dataclasses import dataclass, fields
from typing import Any

from ..errors import UsageError

SCHEDULES = ("cosine", "steps", "constant")
SELECTIONS = ("best", "lowest_loss", "last")
GUARDS = ("recover", "watch", "off")


@dataclass(frozen=True)
class Training:
    """Options of the training loop.

    Parameters
    ----------
    epochs : int
        Passes over the training rows.
    batch_size : int
        Rows per step over all processes together; the last partial batch of an epoch is dropped.
    lr, momentum, weight_decay : float
        Of SGD with Nesterov momentum. `lr` is used as it is, whatever the batch size.
    schedule : "cosine", "steps" or "constant"
        "steps" multiplies the rate by `lr_decay` after each epoch of `milestones`.
    warmup_epochs : float
        The rate grows linearly from 0 over this many epochs before the schedule begins.
    clip : float or None
        Largest global norm of the gradient.
    crop_pad : int
        Images only: random crop after padding by this many pixels on each side.
    flip : bool
        Images only: random horizontal flip.
    precision : str
        A Lightning Fabric precision, such as "32-true" or "bf16-mixed".
    select : "best", "lowest_loss" or "last"
        Keep the epoch with the best accuracy on the noisy validation rows, the one with the lowest loss there, or the
        last one, which is saved in any case.
    guard : "recover", "watch" or "off"
        Watch for collapse: start again with a smaller rate when it happens, or only record it.
    loader_workers : int
        Processes that read inputs which do not fit in memory.
    seed : int
        Of initialisation, order, augmentation and random PI.
    """

    epochs: int = 30
    batch_size: int = 256
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    milestones: tuple[int, ...] = ()
    lr_decay: float = 0.2
    warmup_epochs: float = 0.0
    clip: float | None = None
    crop_pad: int = 0
    flip: bool = False
    precision: str = "32-true"
    select: str = "best"
    guard: str = "recover"
    loader_workers: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.milestones, list | tuple) or not all(isinstance(at, int) for at in self.milestones):
            raise UsageError(f"milestones must be a list of epochs, such as [30, 60], not {self.milestones!r}.")
        object.__setattr__(self, "milestones", tuple(self.milestones))
        for name, low in {"epochs": 1, "batch_size": 1, "crop_pad": 0, "loader_workers": 0, "seed": 0}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise UsageError(f"{name} must be a whole number of at least {low}, not {value!r}.")
        for name in ("lr", "weight_decay", "momentum", "warmup_epochs", "lr_decay"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise UsageError(f"{name} must be a number of at least 0, not {value!r}.")
        if self.momentum >= 1:
            raise UsageError(f"momentum must be below 1, not {self.momentum!r}.")
        if not isinstance(self.flip, bool):
            raise UsageError(f"flip must be true or false, not {self.flip!r}.")
        if self.clip is not None and not (isinstance(self.clip, int | float) and self.clip > 0):
            raise UsageError(f"clip must be above 0 or none, not {self.clip!r}.")
        for name, known in {"schedule": SCHEDULES, "select": SELECTIONS, "guard": GUARDS}.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}.")

    def lr_factor(self, step: float, steps_per_epoch: int) -> float:
        """What the learning rate is multiplied by at a step, counted from 0 over the whole run."""
        warmup = self.warmup_epochs * steps_per_epoch
        if step < warmup:
            return (step + 1) / warmup
        if self.schedule == "cosine":
            total = self.epochs * steps_per_epoch
            return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, total - warmup)))
        if self.schedule == "steps":
            return float(self.lr_decay ** sum(step // steps_per_epoch >= epoch for epoch in self.milestones))
        return 1.0


def option_names() -> list[str]:
    """Names of all training options."""
    return [option.name for option in fields(Training)]


def paper_protocol(images: str = "cifar") -> dict[str, Any]:
    """Training options of the paper: "cifar" (METHODS 1.1) or "imagenet" (METHODS 1.2)."""
    if images == "imagenet":
        return {
            "epochs": 90,
            "batch_size": 2048,
            "lr": 0.1,
            "schedule": "steps",
            "milestones": (30, 60, 80),
            "lr_decay": 0.1,
            "weight_decay": 1e-4,
        }
    return {
        "epochs": 90,
        "batch_size": 256,
        "lr": 0.1,
        "schedule": "steps",
        "milestones": (36, 72, 96),
        "lr_decay": 0.2,
        "weight_decay": 1e-4,
    }
