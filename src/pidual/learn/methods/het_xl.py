"""HET-XL: the noise of HET put on the features, so that its size does not depend on the number of classes.

    e_s(x) = V(x) r_s + d(x) * r'_s               r_s ~ N(0, I_R), r'_s ~ N(0, I_D), s = 1 .. S
    p      = mean over s of softmax(head(phi(x) + e_s(x)) / tau)
    L      = -log p[y_noisy]

V (D x R) and d > 0 (D) are linear in f's features phi; the temperature tau is learned between two bounds. Training and
prediction use the same Monte-Carlo estimate; the draws of a step are shared by the batch.

Collier et al., "Massively scaling heteroscedastic classifiers", ICLR 2023, arXiv 2301.12860. The Pi-DUAL paper lists
it but runs HET.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...options import Count, Positive
from ..nets import glorot_linear
from .base import Batch, Method, Spec
from .parts.monte_carlo import Draws, covariance, covariance_rank, log_mean_probability


class HETXL(Method):
    """Cross-entropy of a classifier with input-dependent normal noise on its features.

    Parameters
    ----------
    rank : int, optional
        Rank of the covariance between features; by default 3, or their number if less (not stated in the paper).
    tau_min, tau_max : float
        The learned temperature is between `tau_min` and `tau_max`, and begins half-way (edward2: 0.3 and 3; the bounds
        of the HET-XL paper are not known to us).
    draws : int
        Random draws to average over (not stated in the paper).
    """

    title = "HET-XL"
    reference = "Collier et al., ICLR 2023, arXiv 2301.12860"

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        rank: int | None = None,
        tau_min: Positive = 0.3,
        tau_max: Positive = 3.0,
        draws: Count = 1000,
    ):
        super().__init__(f, spec)
        if tau_max <= tau_min:
            raise UsageError(f"tau_max must be above tau_min, {tau_min:g}, not {tau_max:g}.")
        n_features = self.head.in_features
        self.rank, self.tau_min, self.tau_max = covariance_rank(rank, n_features, "features"), tau_min, tau_max
        self.factors = glorot_linear(n_features, n_features * self.rank)
        self.diagonal = glorot_linear(n_features, n_features)
        self.rho = nn.Parameter(torch.zeros(()))
        self.draws = Draws(draws)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": batch.cross_entropy(self.logits(batch.x)), "tau": self.tau().detach()}

    def logits(self, x: Tensor) -> Tensor:
        """Return The log p, of which the softmax is p."""
        phi, head = self.features(x), self.head
        V, d = covariance(self.factors(phi), self.diagonal(phi), self.rank)

        def noisy(r: Tensor, r_diagonal: Tensor) -> Tensor:
            z: Tensor = head(phi[:, None] + torch.einsum("bdr,sr->bsd", V, r) + d[:, None] * r_diagonal)
            return z / self.tau()

        draws = self.draws(self.rank, phi.shape[1])
        return log_mean_probability(noisy, len(phi) * max(head.weight.shape), *draws)

    def tau(self) -> Tensor:
        """Return the temperature."""
        return self.tau_min + (self.tau_max - self.tau_min) * self.rho.sigmoid()

    def param_groups(self) -> list[dict[str, Any]]:
        others = [parameter for parameter in self.parameters() if parameter is not self.rho]
        return [{"params": others}, {"params": [self.rho], "weight_decay": 0.0}]
