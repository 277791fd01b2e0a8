"""Gradients, dense and sparse ones, scaled together."""

import torch
from torch import Tensor, nn


def clip_gradients(module: nn.Module, max_norm: float) -> None:
    """Scale all gradients down so that their global norm is at most `max_norm`; sparse ones count by their values."""
    gradients = [gradient_values(parameter) for parameter in module.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)


def gradient_values(parameter: Tensor) -> Tensor:
    """The gradient of a parameter, or the values of its sparse gradient, to be changed in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()
