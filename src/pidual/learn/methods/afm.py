"""AFM, approximate full marginalisation: train with PI, and average over the PI of other rows to predict.

    L    = CE(tower(phi(x), a), y_noisy)
    p(x) = mean over s of softmax(tower(phi(x), a_s)),     a_1 .. a_S PI of training rows, drawn once

Nothing is detached and there is no second head: f's own head is not used. The draws keep all PI of a row together, and
are the same for every input; validation is marginalised too.

Collier et al., "Transfer and marginalize: explaining away label noise with privileged information", ICML 2022, arXiv
2202.09244.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ...options import Count
from .base import PI, Batch, Scan, Spec
from .kinds import WithPI
from .parts.monte_carlo import PITower


class AFM(WithPI):
    """A classifier of x and PI, averaged over PI when it predicts.

    Parameters
    ----------
    width : int
        Hidden units per layer of the tower that reads PI (the Pi-DUAL paper: 1024 on CIFAR, 2048 on ImageNet-PI).
    draws : int
        Number of PI vectors of training rows that a prediction is averaged over (the code base: 1000).
    **pi
        Whether the hidden layers of the tower decay (`WithPI`).
    """

    title = "AFM"
    reference = "Collier et al., ICML 2022, arXiv 2202.09244"

    def __init__(self, f: nn.Module, spec: Spec, *, width: Count = 1024, draws: Count = 1000, **pi: Any):
        super().__init__(f, spec, **pi)
        self.seed = int(torch.randint(2**62, ()))
        self.tower = PITower(self.head.in_features, spec, width)
        self.head.requires_grad_(False)
        self.codes = nn.Buffer(torch.full((draws, len(spec.cardinalities)), -1, dtype=torch.int32))
        self.numbers = nn.Buffer(torch.zeros(draws, spec.n_numbers))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": batch.cross_entropy(self.with_pi(batch))}

    def with_pi(self, batch: Batch) -> Tensor:
        """Return the logits of x and the row's own PI."""
        logits: Tensor = self.tower(self.features(batch.x), batch.a)
        return logits

    def logits(self, x: Tensor) -> Tensor:
        return self.tower.marginal(self.features(x), PI(self.codes, self.numbers))

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Draw the PI to average over, before the first epoch."""
        if epoch == 0:
            codes = scan(lambda batch: batch.a.codes, with_x=False)
            rows = torch.randint(len(codes), (len(self.codes),), generator=torch.Generator().manual_seed(self.seed))
            self.codes.copy_(codes[rows])
            self.numbers.copy_(scan(lambda batch: batch.a.numbers, with_x=False)[rows])
