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
from torch.nn import functional as F

from ..batch import PI, Batch, Spec
from ..nets import PILinear
from .base import Method, Scan
from .parts.networks import split_network
from .parts.pi_tower import PITower
from .parts.ranges import check_range

TINY = 1e-20


class AFM(Method):
    """A classifier of x and PI, averaged over PI when it predicts.

    Parameters
    ----------
    f : nn.Module
        Prediction network with features(x); its head is taken away.
    spec : Spec
        Sizes of the training set.
    width : int
        Width of the tower (the Pi-DUAL paper: 1024 on CIFAR, 2048 on ImageNet-PI).
    draws : int
        Number S of PI vectors averaged over (the code base: 1000).
    pi_weight_decay : bool
        Whether weight decay applies to the hidden layers of the tower (the code base: not on CIFAR).
    """

    title = "AFM"
    reference = "Collier et al., ICML 2022, arXiv 2202.09244"
    needs_pi = True
    codes: Tensor
    numbers: Tensor

    def __init__(
        self, f: nn.Module, spec: Spec, *, width: int = 1024, draws: int = 1000, pi_weight_decay: bool = False
    ):
        super().__init__(f, spec)
        check_range("width", width, 1)
        check_range("draws", draws, 1)
        self.pi_weight_decay = pi_weight_decay
        self.seed = int(torch.randint(2**62, ()))
        first = PILinear(spec.cardinalities, spec.n_numbers, width)
        self.tower = PITower(split_network(f)[1].in_features, spec.n_classes, first, residual=False)
        split_network(f)[1].requires_grad_(False)
        self.register_buffer("codes", torch.full((draws, len(spec.cardinalities)), -1, dtype=torch.int32))
        self.register_buffer("numbers", torch.zeros(draws, spec.n_numbers))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z = self.tower(split_network(self.f)[0](batch.x), batch.a)
        return {"loss": batch.mean(F.cross_entropy(z, batch.y_noisy, reduction="none"))}

    def logits(self, x: Tensor) -> Tensor:
        """log p, of which the softmax is p."""
        phi = split_network(self.f)[0](x)
        return self.tower.marginal(phi, PI(self.codes, self.numbers)).clamp(min=TINY).log()

    def on_epoch_start(self, epoch: int, scan: Scan) -> bool:
        """Draw the PI to average over, before the first epoch."""
        if epoch == 0:
            codes = scan(lambda batch: batch.a.codes, with_x=False)
            numbers = scan(lambda batch: batch.a.numbers, with_x=False)
            generator = torch.Generator().manual_seed(self.seed)
            rows = torch.randint(len(codes), (len(self.codes),), generator=generator)
            self.codes.copy_(codes[rows])
            self.numbers.copy_(numbers[rows])
        return False

    def param_groups(self) -> list[dict[str, Any]]:
        hidden = self.tower.hidden()
        others = [p for p in [*self.f.parameters(), *self.tower.third.parameters()] if p.requires_grad]
        return [{"params": others}, {"params": hidden, **({} if self.pi_weight_decay else {"weight_decay": 0.0})}]
