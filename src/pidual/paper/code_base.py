"""Train as the code base does that the paper was built on, which is written for Keras (METHODS 1.4)."""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import nn

from ..options import Training, at_least, one_of

NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
Groups = list[dict[str, Any]]


@dataclass(frozen=True)
class CodeBaseTraining(Training):
    """Options of training that only the code base needs, beside those of `Training`.

    Parameters
    ----------
    lr_scale_batch : int, optional
        Batch size that `lr` is meant for: the rate becomes lr * batch_size / lr_scale_batch. None uses `lr` at any
        batch size.
    decay_convention : {"pytorch", "keras"}
        How `weight_decay` is counted. "pytorch" adds weight_decay * w to the gradient. "keras" adds twice that, the
        gradient of the penalty weight_decay * w^2.
    decay_norms : bool
        Apply weight decay to gains and biases of normalisation layers too. All other parameters have it, except those
        of PI networks, which the method option `pi_weight_decay` decides on.
    momentum_convention : {"pytorch", "keras"}
        Where the learning rate enters. "pytorch" multiplies the velocity by the current rate. In "keras" past gradients
        keep the rate they came with. The two differ only for some steps after the rate changes.
    valid_whole_batches : bool
        Leave out the last noisy validation rows if they do not fill a batch: with batches of 256, 256 of 400 rows are
        used. A set smaller than a batch is used whole.
    """

    lr_scale_batch: Annotated[int | None, at_least(1)] = None
    decay_convention: Annotated[str, one_of("pytorch", "keras")] = "pytorch"
    decay_norms: bool = True
    momentum_convention: Annotated[str, one_of("pytorch", "keras")] = "pytorch"
    valid_whole_batches: bool = False

    @property
    def scaled_lr(self) -> float:
        return self.lr * (self.batch_size / self.lr_scale_batch if self.lr_scale_batch else 1)

    def count_valid(self, n: int) -> int:
        return (n // self.batch_size * self.batch_size or n) if self.valid_whole_batches else n

    def make_sgd(self, groups: Groups) -> torch.optim.Optimizer:
        return _KerasSGD(groups, {}) if self.momentum_convention == "keras" else super().make_sgd(groups)

    def decay_groups(self, method: nn.Module, groups: Groups) -> Groups:
        if self.decay_convention == "keras":  # the penalty is l2 * w^2, of which the gradient is 2 l2 w
            groups = [{**group, "weight_decay": 2 * group["weight_decay"]} for group in groups]
        if self.decay_norms:
            return groups
        norms = {id(p) for module in method.modules() if isinstance(module, NORMS) for p in module.parameters()}
        parts = []
        for group in groups:
            inside = [p for p in group["params"] if id(p) in norms]
            others = [p for p in group["params"] if id(p) not in norms]
            parts += [{**group, "params": others}] if others else []
            parts += [{**group, "params": inside, "weight_decay": 0.0}] if inside else []
        return parts


class _KerasSGD(torch.optim.Optimizer):
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
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            velocities = [self.state[weight]["momentum_buffer"] for weight in weights]
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, moves)
            if not group["nesterov"]:
                torch._foreach_add_(weights, velocities)
                continue
            torch._foreach_add_(weights, velocities, alpha=group["momentum"])
            torch._foreach_add_(weights, moves)
