"""Which labels to trust, by their losses; how much classes count."""

import math
import warnings

import torch
from torch import Tensor

from .processes import gather, n_processes


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
