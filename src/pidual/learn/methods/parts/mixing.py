"""MixMatch's pieces: mixed rows, sharpened answers, rows in halves and repeated."""

import torch
from torch import Tensor

from ...batch import PI, Batch


def sharpen(q: Tensor, temperature: float) -> Tensor:
    """Return q^(1/T), scaled to sum 1."""
    return (q.clamp(min=1e-12).log() / temperature).softmax(1)


def mixup(x: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor, float]:
    """Mix inputs and targets with those of random other rows; return these rows and the weight l >= 1/2 as well.

    l ~ Beta(alpha, alpha), then max(l, 1 - l).
    """
    share = float(torch.distributions.Beta(alpha, alpha).sample()) if alpha > 0 else 1.0
    share = max(share, 1 - share)
    other = torch.randperm(len(x), device=x.device)
    x = x if x.is_floating_point() else x.float()
    return share * x + (1 - share) * x[other], share * targets + (1 - share) * targets[other], other, share


def half(batch: Batch, k: int) -> Batch:
    """Select every second row, from row k on, for one of two networks; a single row is for both."""
    rows = slice(k, None, 2) if len(batch.index) > 1 else slice(None)
    return Batch.of_rows(
        batch.index[rows],
        tuple(view[rows] for view in batch.views),
        batch.y_noisy[rows],
        PI(batch.a.codes[rows], batch.a.numbers[rows]),
        batch.weight[rows],
        batch.fold[rows],
    )


def repeated(rows: Tensor, n: int) -> Tensor:
    """Repeat these rows as often as it takes to have n."""
    return rows.repeat(-(-n // max(1, len(rows))))[:n]
