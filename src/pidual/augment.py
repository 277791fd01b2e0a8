"""Batched augmentation: whole batches of images at once, with the random draws supplied by the caller.

The caller owns the randomness, so that an augmented epoch is the same after resuming and on any number of processes.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from .errors import UsageError


def crop_flip(x: Tensor, draws: Tensor, *, pad: int, fill: float = 0) -> Tensor:
    """Pad each image, crop it to its old size at its own random place, and mirror every second one at random.

    Parameters
    ----------
    x : Tensor of shape (B, C, H, W)
        Images, of any number type and on any device; both are kept.
    draws : Tensor of shape (B, 3)
        Uniform numbers in [0, 1): row offset, column offset, flip (mirrored where below 0.5).
    pad : int
        Pixels added on every side; 0 only mirrors.
    fill : float
        Value of the added pixels, in the units of `x`.

    Returns
    -------
    Tensor of shape (B, C, H, W)
        A new tensor; `x` is left as it is.
    """
    if x.ndim != 4 or draws.shape != (len(x), 3):
        raise UsageError(
            f"crop_flip takes images (B, C, H, W) and draws (B, 3), not {tuple(x.shape)} and {tuple(draws.shape)}"
        )
    if pad < 0:
        raise UsageError(f"crop_flip needs a padding of 0 or more pixels, not {pad}")
    batch, channels, height, width = x.shape
    padded = F.pad(x, (pad, pad, pad, pad), value=fill) if pad else x
    offsets = (draws[:, :2] * (2 * pad + 1)).long().clamp_(0, 2 * pad).to(x.device)
    top, left = offsets[:, :1], offsets[:, 1:]
    mirrored = (draws[:, 2:] < 0.5).to(x.device)
    column = torch.arange(width, device=x.device)
    rows = top + torch.arange(height, device=x.device)  # (B, H)
    columns = left + torch.where(mirrored, width - 1 - column, column)  # (B, W)
    pixel = rows[:, :, None] * (width + 2 * pad) + columns[:, None, :]  # (B, H, W), places in the padded image
    index = pixel.view(batch, 1, height * width).expand(batch, channels, height * width)
    return padded.flatten(2).gather(2, index).view(x.shape)
