"""HET: a heteroscedastic classifier, whose logits are random with a covariance that depends on x.

    z_s = mu(x) + V(x) e_s + d(x) * e'_s          e_s ~ N(0, I_R), e'_s ~ N(0, I_K), s = 1 .. S
    p   = mean over s of softmax(z_s / tau)
    L   = -log p[y_noisy]

mu is f; V (K x R) and d > 0 (K) are linear in f's features. Training and prediction use the same Monte-Carlo estimate;
the draws of a step are shared by the batch, and all predictions use the same ones.

Collier et al., "Correlated input-dependent label noise in large-scale image classification", CVPR 2021, arXiv
2105.10305. Probabilities are averaged, not logits; every class has diagonal noise of its own.
"""

import torch
from torch import Tensor, nn

from ...options import Count, Positive
from ..nets import glorot_linear
from .base import Batch, Method, Spec
from .parts.monte_carlo import Draws, covariance, covariance_rank, log_mean_probability


class HET(Method):
    """Cross-entropy of a classifier with input-dependent normal noise on its logits.

    Parameters
    ----------
    rank : int, optional
        Rank of the covariance between classes; by default 3, or the number of classes if that is less (the paper: 3 on
        CIFAR-10H and -10N, 6 on CIFAR-100N, 15 on ImageNet-PI).
    tau : float
        Temperature of the logits (the code base: 1.3 on CIFAR; the paper tunes over 0.25 to 5 there, 3 on ImageNet-PI).
    draws : int
        Random draws to average over (the code base: 10,000 on CIFAR, 1,000 on ImageNet; not stated in the paper).
    """

    title = "HET"
    reference = "Collier et al., CVPR 2021, arXiv 2105.10305"

    def __init__(self, f: nn.Module, spec: Spec, *, rank: int | None = None, tau: Positive = 1.3, draws: Count = 1000):
        super().__init__(f, spec)
        n_features = self.head.in_features
        self.rank, self.tau = covariance_rank(rank, spec.n_classes, "classes"), tau
        self.factors = glorot_linear(n_features, spec.n_classes * self.rank)
        self.diagonal = glorot_linear(n_features, spec.n_classes)
        self.draws = Draws(draws)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": batch.cross_entropy(self.logits(batch.x))}

    def logits(self, x: Tensor) -> Tensor:
        """Return The log p, of which the softmax is p."""
        phi = self.features(x)
        mu: Tensor = self.head(phi)
        V, d = covariance(self.factors(phi), self.diagonal(phi), self.rank)

        def noisy(e: Tensor, e_diagonal: Tensor) -> Tensor:
            z = mu[:, None] + torch.einsum("bkr,sr->bsk", V, e) + d[:, None] * e_diagonal
            return z / self.tau

        return log_mean_probability(noisy, mu.numel(), *self.draws(self.rank, mu.shape[1]))
