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

NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def make_optimizers(method: Method, training: Training) -> list[torch.optim.Optimizer]:
    """Make the optimizers of a method's parameter groups.

    A group with `sparse` gets one that touches few rows; one with `adam` gets Adam at its own constant rate.
    """
    lr = training.scaled_lr
    defaults = {"lr": lr, "momentum": training.momentum, "weight_decay": training.weight_decay}
    groups: dict[str, list[dict[str, Any]]] = {"dense": [], "sparse": [], "adam": [], "sparse adam": []}
    for group in decay_groups(method, training, [{**defaults, **group} for group in method.param_groups()]):
        options = dict(group)
        sparse, adam = options.pop("sparse", False), options.pop("adam", False)
        if sparse and not adam:
            options |= {"lr": options["lr"] / (1 - options["momentum"]), "momentum": 0.0, "weight_decay": 0.0}
        options = {"constant": adam, **options, "base_lr": options["lr"]}
        if adam:
            del options["momentum"]
            if sparse:
                del options["weight_decay"]
        else:
            options["nesterov"] = training.nesterov and options["momentum"] > 0
        kind = "sparse adam" if sparse and adam else "adam" if adam else "sparse" if sparse else "dense"
        groups[kind].append(options)
    made: list[torch.optim.Optimizer] = []
    if groups["dense"]:
        keras = training.momentum_convention == "keras"
        made.append(KerasSGD(groups["dense"], {}) if keras else torch.optim.SGD(groups["dense"], lr=lr, fused=True))
    if groups["sparse"]:
        made.append(torch.optim.SGD(groups["sparse"], lr=lr, foreach=False))
    if groups["adam"]:
        made.append(torch.optim.Adam(groups["adam"], lr=lr))
    if groups["sparse adam"]:
        made.append(torch.optim.SparseAdam(groups["sparse adam"], lr=lr))
    return made


class KerasSGD(torch.optim.Optimizer):
    """SGD with momentum as Keras has it, the learning rate inside the velocity.

    v <- momentum * v - lr * g
    w <- w + momentum * v - lr * g        with Nesterov's momentum, else w + v

    torch has v <- momentum * v + g and multiplies by the rate of the moment.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            weights = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not weights:
                continue
            moves = torch._foreach_add([weight.grad for weight in weights], weights, alpha=group["weight_decay"])
            torch._foreach_mul_(moves, -group["lr"])
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["velocity"] = torch.zeros_like(weight)
            velocities = [self.state[weight]["velocity"] for weight in weights]
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, moves)
            if not group["nesterov"]:
                torch._foreach_add_(weights, velocities)
                continue
            torch._foreach_add_(weights, velocities, alpha=group["momentum"])
            torch._foreach_add_(weights, moves)


def decay_groups(method: Method, training: Training, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give parameter groups weight decay by the convention asked for, and normalisation layers none if so asked.

    torch's SGD adds weight_decay * w to a gradient. The penalty of Keras is l2 * w^2, of which the gradient is 2 l2 w.
    """
    if training.decay_convention == "keras":
        groups = [{**group, "weight_decay": 2 * group["weight_decay"]} for group in groups]
    if training.decay_norms:
        return groups
    norms = {id(p) for module in method.modules() if isinstance(module, NORMS) for p in module.parameters()}
    parts = []
    for group in groups:
        inside = [p for p in group["params"] if id(p) in norms]
        others = [p for p in group["params"] if id(p) not in norms]
        parts += [{**group, "params": others}] if others else []
        parts += [{**group, "params": inside, "weight_decay": 0.0}] if inside else []
    return parts


def clip_gradients(module: nn.Module, max_norm: float) -> None:
    """Scale all gradients down so that their global norm is at most `max_norm`; sparse ones count by their values."""
    gradients = [gradient_values(parameter) for parameter in module.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)


def gradient_values(parameter: Tensor) -> Tensor:
    """Return the gradient of a parameter, or the values of its sparse gradient, to be changed in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()
