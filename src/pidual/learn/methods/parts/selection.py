"""Which rows count, from which epoch on, and how they are mixed: what methods that choose rows share."""

import math
import warnings

import torch
from torch import Tensor

from ...batch import PI, Batch
from .processes import gather, n_processes


def epoch_after(share: float, epochs: int) -> int:
    """Return the epoch, from 0, that begins when this share of the run is over."""
    return math.floor(share * epochs + 1e-6)


def growth(epoch: float, start: float, length: float) -> float:
    """Return a number that grows from 0 at `start` to 1 in `length` epochs, at least one, and stays 1."""
    return min(1.0, max(0.0, (epoch - start) / max(1.0, length)))


def small_loss(losses: Tensor, share: float) -> Tensor:
    """Return which rows are among the floor(share * B) smallest losses of the whole batch, but at least one."""
    losses = losses.detach()
    everywhere = gather(losses) if n_processes() > 1 else losses
    count = max(1, math.floor(share * len(everywhere) + 1e-6))
    return losses <= everywhere.kthvalue(count).values


def clean_posterior(losses: Tensor) -> Tensor:
    """Return the probability that each row is of the component with the lower mean, of a mixture of two normals.

    Losses are scaled to [0, 1] first. Where all are the same, or one is not finite, there is nothing to tell apart:
    every row is clean.
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import, and needed by few methods
    from sklearn.mixture import GaussianMixture

    spread = losses.max() - losses.min()
    if len(losses) < 2 or not 0 < float(spread) < math.inf:
        return torch.ones_like(losses)
    scaled = ((losses - losses.min()) / spread).double().numpy()[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten iterations are the authors' choice
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(scaled)
    posterior = mixture.predict_proba(scaled)[:, mixture.means_.argmin()]
    return torch.from_numpy(posterior).to(losses)


def class_weights(counts: Tensor, cap: float = math.inf) -> Tensor:
    """Return mean count / count of each class, at most `cap`; 0 for one without rows, which does not count."""
    counts = counts.float()
    mean = counts.sum() / (counts > 0).sum().clamp(min=1)
    return torch.where(counts > 0, mean / counts.clamp(min=1), 0.0).clamp(max=cap)


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
