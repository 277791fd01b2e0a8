"""PITower: logits from features and PI."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...batch import PI, Spec
from ...nets import PILinear, glorot_linear
from .monte_carlo import log_mean_probability

TINY = 1e-20


class PITower(nn.Module):
    """Logits from features and PI: how TRAM, AFM and the teacher of Distillation-PI use PI.

        h1 = ReLU(A1 a),  h2 = ReLU(A2 [phi; h1]) (+ h1),  z = A3 [phi; h2]

    `n_features`, `width`: width of phi, and of h1 and h2.
    `spec`: its classes and PI.
    `random_pi`: length of the random PI among a.
    `residual`: whether h1 is added to h2 (the paper's code base does so in TRAM's network for CIFAR, and nowhere else).
    """

    def __init__(self, n_features: int, spec: Spec, width: int, *, residual: bool = False, random_pi: int = 0):
        super().__init__()
        self.n_features, self.residual = n_features, residual
        self.first = PILinear(spec.cardinalities, spec.n_numbers + random_pi, width)
        self.second = glorot_linear(n_features + width, width)
        self.third = glorot_linear(n_features + width, spec.n_classes)

    def forward(self, phi: Tensor, a: PI) -> Tensor:
        h1 = F.relu(self.first(a.codes, a.numbers))
        h2 = F.relu(self.second(torch.cat([phi, h1], 1)))
        if self.residual:
            h2 = h2 + h1
        logits: Tensor = self.third(torch.cat([phi, h2], 1))
        return logits

    def marginal(self, phi: Tensor, a: PI) -> Tensor:
        """Return The log of the mean over the S rows of `a` of the class probabilities, for every row of phi.

        A2 and A3 are cut into the part that sees phi and the part that sees the PI: the former is applied once per
        input, A2's latter once per draw. Pairs of input and draw meet in pieces only.
        """
        d = self.n_features
        (w2, b2), (w3, b3) = (self.second.weight, self.second.bias), (self.third.weight, self.third.bias)
        h1 = F.relu(self.first(a.codes, a.numbers))  # (S, W)
        from_phi, to_logits = F.linear(phi, w2[:, :d], b2), F.linear(phi, w3[:, :d], b3)

        def logits(h1: Tensor, from_pi: Tensor) -> Tensor:
            h2 = F.relu(from_phi[:, None] + from_pi)  # (B, s, W)
            return to_logits[:, None] + F.linear(h2 + h1 if self.residual else h2, w3[:, d:])

        sizes = len(phi) * max(len(w2), len(w3))
        return log_mean_probability(logits, sizes, h1, F.linear(h1, w2[:, d:]), floor=TINY)

    @property
    def hidden(self) -> list[nn.Module]:
        """Return the hidden layers, which the paper's code base does not decay on CIFAR."""
        return [self.first, self.second]
