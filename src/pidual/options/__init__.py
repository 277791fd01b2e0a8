"""Options given by name, checked against the signature of what takes them; those of training, and its learning rates.

A signature gives the kind and the range of an option: `beta: Share = 0.7`, `width: Count = 256`. Other ranges
are an `Annotated` kind: `depth: Annotated[int, at_least(2)] = 3`.
"""

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

from ..errors import UsageError
from ..errors.messages import quoted

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


def check_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any], taken: Collection[str] = ()
) -> None:
    """Refuse options that the function does not take, or whose values are not of the kind its signature says.

    Options are taken by keyword alone: arguments that can be given by position are none.

    Parameters
    ----------
    what : str
        What messages call the function, such as "method 'pi_dual'".
    function : callable
        Takes the options by name.
    options : mapping
        The options.
    taken : collection of str
        Arguments that are not options.
    """
    parameters = {name: p for name, p in signature(function).items() if is_option(p) and name not in taken}
    for name, value in options.items():
        if name not in parameters:
            raise UsageError(f"The {what} has no option {quoted(name)}; it takes {', '.join(parameters) or 'none'}.")
        check_value(f"The option {name} of the {what}", value, parameters[name].annotation)


def check_values(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse values that are not of the kind, or not in the range, that the signature says."""
    parameters = signature(function)
    for name, value in options.items():
        if name in parameters and is_option(parameters[name]):
            check_value(name, value, parameters[name].annotation)


def signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return parameters by name; a class that hands on **options to its parent also takes the parent's."""
    if not isinstance(function, type):
        return dict(inspect.signature(function).parameters)
    parameters: dict[str, inspect.Parameter] = {}
    for made in (vars(kind)["__init__"] for kind in function.__mro__ if "__init__" in vars(kind)):
        own = {name: p for name, p in inspect.signature(made).parameters.items() if name != "self"}
        parameters |= {n: p for n, p in own.items() if n not in parameters and p.kind is not p.VAR_KEYWORD}
        if all(p.kind is not p.VAR_KEYWORD for p in own.values()):
            break
    return parameters


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return options by name with their default values."""
    return {name: p.default for name, p in signature(function).items() if is_option(p) and p.default is not p.empty}


def is_option(parameter: inspect.Parameter) -> bool:
    """Return whether an argument is taken by keyword alone."""
    return parameter.kind is parameter.KEYWORD_ONLY


def check_value(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of this kind, or not in its range; kinds that KINDS does not have are not checked."""
    kind, *ranges = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    for good, words in (*([KINDS[kind]] if kind in KINDS else []), *ranges):
        if not good(value):
            raise UsageError(f"{name} must be {words}, not {quoted(value)}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(part, list | tuple) and all(map(_is_number, part)) for part in value
    )


def _is_count(value: Any) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_count, "a whole number of at least 0"),
    int | None: (lambda value: value is None or _is_count(value), "a whole number of at least 0, or none"),
    float: (_is_number, "a number"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    bool | None: (lambda value: value is None or isinstance(value, bool), "true, false or none"),
    Sequence[Sequence[float]]: (_is_table, "a list of lists of numbers"),
}


# --- ranges, for annotations ---


class Range(NamedTuple):
    """What a value of the right kind must be."""

    good: Callable[[Any], bool]
    words: str


def at_least(low: float) -> Range:
    """Allow values from `low` on; none, where the kind allows it, is in every range."""
    return Range(lambda value: value is None or value >= low, f"at least {low}")


def one_of(*names: str) -> Range:
    """Allow one of these words."""
    return Range(lambda value: value in names, " or ".join(names))


def _is_span(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and _is_table([value]) and 0 <= value[0] <= value[1] <= 1


Share = Annotated[float, Range(lambda value: 0 <= value <= 1, "at least 0 and at most 1")]
ShareBelowOne = Annotated[float, Range(lambda value: 0 <= value < 1, "at least 0 and below 1")]
ShareAboveZero = Annotated[float, Range(lambda value: 0 < value <= 1, "above 0 and at most 1")]
Positive = Annotated[float, Range(lambda value: value > 0, "above 0")]
NotNegative = Annotated[float, at_least(0)]
Count = Annotated[int, at_least(1)]
Span = Annotated[Sequence[float], Range(_is_span, "two shares from 0 to 1 in ascending order")]


def _are_epochs(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(at, int) for at in value)


def _is_clip(value: Any) -> bool:
    return value is None or (_is_number(value) and value > 0)


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
