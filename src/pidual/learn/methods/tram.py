"""TRAM: learn the features with the help of PI, and a head without PI on top of them.

    L = CE(tower(phi(x), a), y_noisy) + w * CE(head(sg(phi(x))), y_noisy)

The tower reads features phi and PI; it alone trains the features. The head without PI is a linear probe on them,
trained beside it; prediction uses that head, f(x) = head(phi(x)).

Collier et al., "Transfer and marginalize: explaining away label noise with privileged information", ICML 2022, arXiv
2202.09244.
"""

from typing import Any

from torch import Tensor, nn

from ...options import Count, NotNegative
from .base import Batch, Spec
from .kinds import WithPI
from .parts.monte_carlo import PITower


class TRAM(WithPI):
    """A tower with PI that trains the features, and a head without PI that predicts.

    Parameters
    ----------
    width : int
        Hidden units per layer of the tower that reads PI (the Pi-DUAL paper: 1024 on CIFAR, 2048 on ImageNet-PI).
    head_weight : float
        Weight of the loss of the head that predicts: in effect, a factor of its learning rate (the code base: 1).
    residual : bool
        Add the first hidden layer of the tower to the second (the code base: in its network for CIFAR only).
    random_pi : int
        Length of a random vector appended to every row's PI (plain TRAM: none).
    **pi
        Whether the hidden layers of the tower decay (`WithPI`).
    """

    title = "TRAM"
    reference = "Collier et al., ICML 2022, arXiv 2202.09244"

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        width: Count = 1024,
        head_weight: NotNegative = 1.0,
        residual: bool = True,
        random_pi: int = 0,
        **pi: Any,
    ):
        super().__init__(f, spec, **pi)
        self.head_weight, self.random_pi = head_weight, random_pi
        self.tower = PITower(self.head.in_features, spec, width, residual=residual, random_pi=random_pi)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        phi = self.features(batch.x)
        with_pi = batch.losses(self.tower(phi, batch.a))
        without = batch.losses(self.head(phi.detach()))  # the features must not learn what PI cannot explain
        return {"loss": batch.mean(with_pi + self.head_weight * without), "head_loss": batch.mean(without).detach()}
