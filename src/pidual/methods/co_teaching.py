"""Co-teaching: two networks, each of which learns from the rows on which the other has a small loss.

    I_f, I_g = the R(e) B rows of the batch with the smallest CE of f, of g
    L        = mean over I_g of CE(f(x), y_noisy)  +  mean over I_f of CE(g(x), y_noisy)
    R(e)     = 1 - tau^c min(e / (T_k - 1), 1)

The two share no weights, so that the sum of their losses trains each with its own. What is fitted late is left out:
the share R of rows that are kept falls from 1 in the first epoch e = 0 as f and g begin to fit wrong labels.
Prediction is the mean of both softmaxes.

Han et al., "Co-teaching: robust training of deep neural networks with extremely noisy labels", NeurIPS 2018, arXiv
1804.06872. The released code divides the mean over kept rows by their number once more, which only Adam undoes; ours
does not. There R falls to 1 - tau^c during the ramp and is 1 - tau after it; ours stays (the same at c = 1).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..batch import Batch, Spec
from ..errors import UsageError
from .base import Method, Scan
from .parts.networks import second_network
from .parts.processes import kept_mean
from .parts.ranges import check_range
from .parts.selection import small_loss


class CoTeaching(Method):
    """Two networks that choose rows for each other.

    Parameters
    ----------
    f : nn.Module
        Prediction network, x -> logits of shape (B, K).
    spec : Spec
        Sizes of the training set, and the epochs of the run.
    second : nn.Module, optional
        The second network, g; by default a copy of f as `parts.second_network` makes it.
    noise_rate : float
        Share tau of wrong labels, from 0 to below 1 (authors: the true one, which has to be known; 0.2 is the lowest
        of their experiments).
    ramp : float
        Share T_k of the run over which the kept share falls (authors: 10 of 200 epochs). The first epoch keeps all.
    exponent : float
        c (authors: 1).
    """

    title = "Co-teaching"
    reference = "Han et al., NeurIPS 2018, arXiv 1804.06872"
    networks = 2
    epoch: Tensor

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        noise_rate: float = 0.2,
        ramp: float = 0.05,
        exponent: float = 1.0,
    ):
        super().__init__(f, spec)
        if not 0 <= noise_rate < 1:
            raise UsageError(f"noise_rate must be at least 0 and below 1, not {noise_rate:g}.")
        check_range("ramp", ramp, 0, 1)
        check_range("exponent", exponent, 0, inclusive=False)
        self.g = second_network(f, second)
        self.forgotten, self.ramp = float(noise_rate**exponent), ramp * spec.epochs
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        loss_f = F.cross_entropy(self.f(batch.x).float(), batch.y_noisy, reduction="none")
        loss_g = F.cross_entropy(self.g(batch.x).float(), batch.y_noisy, reduction="none")
        chosen_by_f, chosen_by_g = small_loss(loss_f, self.kept()), small_loss(loss_g, self.kept())
        loss = kept_mean(batch, loss_f, chosen_by_g) + kept_mean(batch, loss_g, chosen_by_f)
        return {"loss": loss, "chosen_by_both": (chosen_by_f & chosen_by_g).float().mean()}

    def kept(self) -> float:
        """R(e) of this epoch."""
        return 1 - self.forgotten * min(int(self.epoch) / max(1.0, self.ramp - 1), 1.0)

    def logits(self, x: Tensor) -> Tensor:
        """log of the mean of both softmaxes."""
        log_f, log_g = self.f(x).float().log_softmax(1), self.g(x).float().log_softmax(1)
        return torch.logaddexp(log_f, log_g) - math.log(2)

    def on_epoch_start(self, epoch: int, scan: Scan) -> bool:
        self.epoch.fill_(epoch)
        return False
