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

from torch import Tensor, nn

from ...options import Positive, Share, ShareBelowOne
from .base import Batch, Method, Spec
from .parts.networks import log_mean_softmax, second_network
from .parts.processes import kept_mean
from .parts.selection import growth, small_loss


class CoTeaching(Method):
    """Two networks that choose rows for each other.

    Parameters
    ----------
    noise_rate : float
        Share tau of wrong labels (authors: the true one, which has to be known; 0.2 is the lowest they tried).
    ramp : float
        Share T_k of the run over which fewer rows are kept (authors: 10 of 200 epochs). The first epoch keeps all.
    exponent : float
        In the end, noise_rate to this power c of the rows are left out (authors: 1).
    """

    title = "Co-teaching"
    reference = "Han et al., NeurIPS 2018, arXiv 1804.06872"
    networks = 2

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        noise_rate: ShareBelowOne = 0.2,
        ramp: Share = 0.05,
        exponent: Positive = 1.0,
    ):
        super().__init__(f, spec)
        self.g = second_network(f, second)
        self.forgotten, self.ramp = float(noise_rate**exponent), ramp * spec.epochs

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        loss_f, loss_g = batch.losses(self.f(batch.x)), batch.losses(self.g(batch.x))
        chosen_by_f, chosen_by_g = small_loss(loss_f, self.kept()), small_loss(loss_g, self.kept())
        loss = kept_mean(batch, loss_f, chosen_by_g) + kept_mean(batch, loss_g, chosen_by_f)
        return {"loss": loss, "chosen_by_both": (chosen_by_f & chosen_by_g).float().mean()}

    def kept(self) -> float:
        """Return R(e) of this epoch."""
        return 1 - self.forgotten * growth(self.epoch, 0, self.ramp - 1)

    def logits(self, x: Tensor) -> Tensor:
        return log_mean_softmax(self.f(x), self.g(x))
