"""Layers as our networks begin with them, and global pooling."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def glorot_linear(in_dim: int, out_dim: int) -> nn.Linear:
    """Make a linear layer with Glorot-uniform weights and zero biases."""
    layer = nn.Linear(in_dim, out_dim)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def conv(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Make a convolution without bias that divides the image size by the stride; truncated He-normal weights."""
    conv = nn.Conv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False)
    he_normal_(conv.weight)
    return conv


def he_normal_(weight: Tensor) -> None:
    """Draw He-normal weights by fan-in, truncated at two standard deviations and rescaled to keep the variance.

    Draws again what falls outside: twice as fast as `nn.init.trunc_normal_`, which inverts the error function.
    """
    if weight.is_meta:
        return
    std = math.sqrt(2.0 / weight[0].numel()) / 0.8796256610342398  # std of a unit normal cut at +-2
    with torch.no_grad():
        flat = weight.normal_().view(-1)
        while len(outside := (flat.abs() > 2).nonzero()[:, 0]):
            flat[outside] = torch.randn(len(outside), dtype=flat.dtype, device=flat.device)
        weight.mul_(std)


def pooled(x: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
    """Average over the image, of any size."""
    return x.mean((2, 3))
