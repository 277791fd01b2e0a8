"""SGD with momentum for ordinary parameters, and for tables of which a batch touches a few rows; or Adam.

The gradient of a large table (a row of weights per annotator) is sparse. With momentum every row would move at every
step, at a cost that grows with the number of annotators. A row's gradient g moves it by lr * g / (1 - momentum) in
the end; a sparse group moves it by that at once, without momentum, and leaves all other rows alone.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ...options import Training
from ..methods.base import Method


def make_optimizers(method: Method, training: Training) -> list[torch.optim.Optimizer]:
    """Make the optimizers of a method's parameter groups.

    A group with `sparse` gets one that touches few rows; one with `adam` gets Adam at its own constant rate.
    """
    lr = training.scaled_lr
    defaults = {"lr": lr, "momentum": training.momentum, "weight_decay": training.weight_decay}
    groups: dict[str, list[dict[str, Any]]] = {"dense": [], "sparse": [], "adam": []}
    for group in training.decay_groups(method, [{**defaults, **group} for group in method.param_groups()]):
        options = dict(group)
        kind = next((kind for kind in ("sparse", "adam") if options.pop(kind, False)), "dense")
        if kind == "sparse":
            options |= {"lr": options["lr"] / (1 - options["momentum"]), "momentum": 0.0, "weight_decay": 0.0}
        options = {"constant": kind == "adam", **options, "base_lr": options["lr"]}
        if kind == "adam":
            del options["momentum"]
        else:
            options["nesterov"] = training.nesterov and options["momentum"] > 0
        groups[kind].append(options)
    made: list[torch.optim.Optimizer] = []
    if groups["dense"]:
        made.append(training.make_sgd(groups["dense"]))
    if groups["sparse"]:
        made.append(torch.optim.SGD(groups["sparse"], lr=lr, foreach=False))
    if groups["adam"]:
        made.append(torch.optim.Adam(groups["adam"], lr=lr))
    return made


def clip_gradients(module: nn.Module, max_norm: float) -> None:
    """Scale all gradients down so that their global norm is at most `max_norm`; sparse ones count by their values."""
    gradients = [_gradient_values(parameter) for parameter in module.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)


def _gradient_values(parameter: Tensor) -> Tensor:
    """Return the gradient of a parameter, or the values of its sparse gradient, to be changed in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()
