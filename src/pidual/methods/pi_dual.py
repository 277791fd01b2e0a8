"""Pi-DUAL: let the privileged information explain the wrong labels.

    h(x, a) = (1 - gamma(a)) * f(x) + gamma(a) * eps(a)      logits
    L       = CE(h(x, a), y_noisy)

Training fits y_noisy with h, end to end, nothing detached; prediction uses f alone, so `a` is not needed after
training. eps and gamma share their first layer. The gate gamma is one number per annotation, near 1 where the PI
alone explains the label.

Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
2310.06600.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ..batch import PI, Batch, Spec
from ..errors import UsageError
from ..nets import PILinear, mlp
from .base import Method

SPARSE_ABOVE = 2**23  # weights of the first PI layer beyond which only the rows a batch touches are updated


class PiDual(Method):
    """Prediction, noise and gate networks fitted together to the noisy labels.

    Parameters
    ----------
    f : nn.Module
        Prediction network, x -> logits of shape (B, K).
    spec : Spec
        Sizes of the training set: rows, classes, PI.
    width : int
        Hidden width of the noise and gate networks (the paper: 1024 or 2048).
    depth : int
        Linear layers in each of them, the shared first one included (the paper: 3).
    random_pi : int
        Length of the random vector appended to every row's PI (the paper: tuned over 4, 8, 12, 16; 30 on ImageNet-PI).
    gate_bias : float
        Initial bias of the gate's last layer; 0 begins with a gate near 1/2 (the paper does not say), -2 near 0.1.
    pi_weight_decay : bool
        Whether weight decay also applies to the noise and gate networks (the paper: no on CIFAR, yes on ImageNet-PI).
    """

    title = "Pi-DUAL"
    reference = "Wang et al., ICML 2024, arXiv 2310.06600"
    needs_pi = True
    scores = ("confidence", "gate")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        width: int = 1024,
        depth: int = 3,
        random_pi: int = 8,
        gate_bias: float = 0.0,
        pi_weight_decay: bool = False,
    ):
        super().__init__(f, spec)
        if width < 1 or depth < 2:
            raise UsageError(f"The noise and gate networks need width >= 1 and depth >= 2, not {width} and {depth}.")
        self.random_pi = random_pi
        self.pi_weight_decay = pi_weight_decay
        many = bool(sum(spec.cardinalities) * width > SPARSE_ABOVE) and not pi_weight_decay
        self.shared = PILinear(spec.cardinalities, spec.n_numbers + random_pi, width, sparse=many)
        self.eps = mlp(width, spec.n_classes, width=width, depth=depth - 2)
        self.gamma = mlp(width, 1, width=width, depth=depth - 2)
        nn.init.constant_(list(self.gamma.parameters())[-1], gate_bias)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        gamma, eps = self.explain(batch.a)
        h = (1 - gamma) * self.f(batch.x) + gamma * eps
        return {"loss": batch.mean(F.cross_entropy(h, batch.y_noisy, reduction="none")), "gate": gamma.detach().mean()}

    def explain(self, a: PI) -> tuple[Tensor, Tensor]:
        """Gate (B, 1) and noise logits (B, K) of encoded PI."""
        s = F.relu(self.shared(a.codes, a.numbers))
        return self.gamma(s).sigmoid(), self.eps(s)

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        gamma, eps = self.explain(batch.a)
        return {"gate": gamma[:, 0], "noise_label": eps.argmax(1)}

    def param_groups(self) -> list[dict[str, Any]]:
        pi = [*self.shared.parameters(), *self.eps.parameters(), *self.gamma.parameters()]
        table = [parameter for parameter in pi if self.shared.sparse and parameter is self.shared.table]
        decay = {} if self.pi_weight_decay else {"weight_decay": 0.0}
        return [
            {"params": list(self.f.parameters())},
            {"params": [parameter for parameter in pi if not table or parameter is not table[0]], **decay},
            *({"params": table, "sparse": True} for _ in table),
        ]
