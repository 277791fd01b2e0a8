"""SOP+: SOP with an f that answers the same on a strongly augmented view, and answers that are balanced over classes.

    L_bal = -sum_k (1/K) log mean_i q_ik          q SOP's corrected prediction of the weak view; the mean clamped
    L     = L_SOP + consistency * KL( sg(softmax f(x)) || softmax f(strong x) ) + balance * L_bal

L_SOP sees the weak view. As in the released code, q carries U with its gradient and V without one, so u learns from
L_bal too, at its own rate; v does not, nor do u and v from the consistency. The mean of q is over the whole batch, of
all processes. `WithStrongView` has the two views. Prediction uses f.

Liu et al., "Robust training under label noise by over-parameterization", ICML 2022, arXiv 2202.14026. The released
loader for CIFAR-100 standardises the strong view with the statistics of CIFAR-10; ours treats both views the same way.
"""

from typing import Any

from torch import Tensor, nn

from ...options import NotNegative
from .base import Batch, Spec
from .kinds import WithStrongView
from .parts.processes import n_processes, sum_over_processes
from .sop import SOP, TINY


class SOPPlus(WithStrongView, SOP):
    """SOP with consistency and class balance.

    Parameters
    ----------
    consistency, balance : float
        `consistency` is the weight of equal predictions on both views (authors: 0.9), `balance` of class balance (0.1).
    **options
        Those of SOP.
    """

    title = "SOP+"

    def __init__(
        self, f: nn.Module, spec: Spec, *, consistency: NotNegative = 0.9, balance: NotNegative = 0.1, **options: Any
    ):
        super().__init__(f, spec, **options)
        self.consistency, self.balance = consistency, balance

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        f_weak, _, kl_of_rows = self.on_both_views(batch)
        logs, kl = self.explain(batch, f_weak.float().softmax(1)), batch.mean(kl_of_rows)
        return logs | {"loss": logs["loss"] + self.consistency * kl, "consistency": kl.detach()}

    def label_loss(self, batch: Batch, q: Tensor) -> Tensor:
        """Return the loss of SOP, and the balance of q."""
        means = _class_means(batch, q).clamp(TINY, 1)
        return super().label_loss(batch, q) - self.balance * means.log().mean()


def _class_means(batch: Batch, q: Tensor) -> Tensor:
    """Return the mean of q (B, K) over the rows of all processes, (K,); the gradient is that of this process's rows."""
    total = sum_over_processes(batch.weight.sum()).clamp(min=1e-12)
    here = (q * batch.weight[:, None]).sum(0) * n_processes() / total
    return here + sum_over_processes(here) / n_processes() - here.detach()
