"""Training: every option of the training loop, and the learning-rate schedules."""

import math
from dataclasses import dataclass, fields

from ..errors import UsageError
from ..errors.messages import quoted

SCHEDULES = ("cosine", "steps", "constant")
SELECTIONS = ("best", "lowest_loss", "last")
GUARDS = ("recover", "watch", "off")
CONVENTIONS = ("pytorch", "keras")


@dataclass(frozen=True)
class Training:
    """Options of the training loop; `pidual.paper.protocol` has those of the paper and of its code base.

    Parameters
    ----------
    epochs : int
        Passes over the training rows.
    batch_size : int
        Rows per step over all processes together, or items where the method judges all answers of an item together;
        the last partial batch of an epoch is dropped.
    lr : float
        Learning rate of SGD.
    momentum : float
        Momentum of SGD.
    weight_decay : float
        Weight decay of SGD; `decay_convention` says what of.
    nesterov : bool
        Whether momentum is Nesterov's.
    lr_scale_batch : int or None
        Multiply `lr` by batch_size / this; None uses `lr` as it is, whatever the batch size.
    decay_convention : "pytorch" or "keras"
        What `weight_decay` means: the gradient weight_decay * w, or that of the penalty weight_decay * w^2, which is
        twice as large.
    decay_norms : bool
        Whether gains and biases of normalisation layers decay. All other parameters do but those of the PI networks,
        which have the method option `pi_weight_decay` for it.
    momentum_convention : "pytorch" or "keras"
        Whether the learning rate is outside the velocity or inside, where past gradients keep the rate they came with.
        They differ for some steps after the rate changes.
    schedule : "cosine", "steps" or "constant"
        "steps" multiplies the rate by `lr_decay` after each epoch of `milestones`.
    milestones : sequence of int
        Epochs of "steps", counted from 0.
    lr_decay : float
        Factor of "steps".
    lr_end : float
        Share of the rate at which "cosine" ends.
    warmup_epochs : float
        The rate grows linearly from 0 over this many epochs before the schedule begins.
    clip : float or None
        Largest global norm of the gradient.
    crop_pad : int
        Images only: random crop after padding by this many pixels on each side.
    resized_crop : bool
        Images only: a random crop of 8% to 100% of the image, of width / height 3/4 to 4/3, scaled to the image's size.
        Images that are read when needed are cropped as they are on disk; those in memory
        as they were read. Evaluation sees images as they are read: `load_inputs(..., centre_crop=True)`.
    flip : bool
        Images only: random horizontal flip.
    precision : str
        A Lightning Fabric precision, such as "32-true" or "bf16-mixed".
    select : "best", "lowest_loss" or "last"
        Keep the epoch with the best accuracy on the noisy validation rows, the one with the lowest loss there, or the
        last one, which is saved in any case.
    valid_whole_batches : bool
        Leave out the last rows of the noisy validation set that do not fill a batch: of 400 rows, 256 are seen at a
        batch of 256. A set smaller than a batch is used whole.
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
    nesterov: bool = True
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    milestones: tuple[int, ...] = ()
    lr_decay: float = 0.2
    lr_end: float = 0.0
    lr_scale_batch: int | None = None
    decay_convention: str = "pytorch"
    decay_norms: bool = True
    momentum_convention: str = "pytorch"
    warmup_epochs: float = 0.0
    clip: float | None = None
    crop_pad: int = 0
    resized_crop: bool = False
    flip: bool = False
    precision: str = "32-true"
    select: str = "best"
    valid_whole_batches: bool = False
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
        for name in ("nesterov", "flip", "resized_crop", "decay_norms", "valid_whole_batches"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be true or false, not {quoted(getattr(self, name))}.")
        if self.resized_crop and self.crop_pad:
            raise UsageError("resized_crop and crop_pad are two kinds of random crop; give one of them.")
        scale = self.lr_scale_batch
        if scale is not None and not (isinstance(scale, int) and not isinstance(scale, bool) and scale >= 1):
            raise UsageError(f"lr_scale_batch must be a whole number of at least 1 or none, not {quoted(scale)}.")
        if self.clip is not None and not (isinstance(self.clip, int | float) and self.clip > 0):
            raise UsageError(f"clip must be above 0 or none, not {quoted(self.clip)}.")
        choices: dict[str, tuple[str, ...]] = {"schedule": SCHEDULES, "select": SELECTIONS, "guard": GUARDS}
        choices |= {"decay_convention": CONVENTIONS, "momentum_convention": CONVENTIONS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} must be one of {', '.join(known)}, not {quoted(getattr(self, name))}.")

    @property
    def scaled_lr(self) -> float:
        """The learning rate at this batch size, before warm-up and schedule."""
        return self.lr * (self.batch_size / self.lr_scale_batch if self.lr_scale_batch else 1)

    def lr_factor(self, step: float, steps_per_epoch: int) -> float:
        """What the learning rate is multiplied by at a step, counted from 0 over the whole run."""
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


def option_names() -> list[str]:
    """Names of all training options."""
    return [option.name for option in fields(Training)]
