"""TRAM++: TRAM with a random vector per row among its PI, which lets the tower memorise wrong labels in the features'
place.

    L = CE(tower(phi(x), [a; r_i]), y_noisy) + w * CE(head(sg(phi(x))), y_noisy)

r_i ~ N(0, I) is drawn once per row and never changes. Prediction uses f(x) = head(phi(x)).

Ortiz-Jimenez et al., "When does privileged information explain away label noise?", ICML 2023, arXiv 2303.01806.
"""

from typing import Any

from torch import nn

from ...options import NotNegative
from .base import Spec
from .tram import TRAM


class TRAMPlusPlus(TRAM):
    """TRAM with random PI.

    Parameters
    ----------
    head_weight : float
        Weight of the loss of the head that predicts (the paper tunes over 0.1 and 0.5 on CIFAR; 0.5 on ImageNet-PI).
    random_pi : int
        Length of the random vector of every row (the paper tunes over 8, 14, 28 on CIFAR; 30 on ImageNet-PI).
    **options
        Those of TRAM; `width` is tuned over 512 to 4096 on CIFAR and 2048 on ImageNet-PI in the Pi-DUAL paper.
    """

    title = "TRAM++"
    reference = "Ortiz-Jimenez et al., ICML 2023, arXiv 2303.01806"

    def __init__(self, f: nn.Module, spec: Spec, *, head_weight: NotNegative = 0.5, random_pi: int = 8, **options: Any):
        super().__init__(f, spec, head_weight=head_weight, random_pi=random_pi, **options)
