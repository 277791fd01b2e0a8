"""Pi-DUAL: let the privileged information explain the wrong labels.

    h(x, a) = (1 - gamma(a)) * f(x) + gamma(a) * eps(a)      logits
    L       = CE(h(x, a), y_noisy)

Training fits y_noisy with h, end to end, nothing detached; prediction uses f alone, so `a` is not needed after
training. eps and gamma share their first layer. The gate gamma is one number per annotation, near 1 where the PI
alone explains the label.

Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
2310.06600.
"""

from typing import Annotated, Any

from torch import Tensor, nn
from torch.nn import functional as F

from ...options import Count, at_least
from ..nets import PILinear, mlp
from .base import PI, Batch, Spec
from .kinds import WithPI


class NoiseAndGate(nn.Module):
    """Noise and gate network, and how they join f: what Pi-DUAL as a method and `PiDualLoss` share."""

    random_pi: int

    def make_networks(self, spec: Spec, width: int, depth: int, gate_bias: float, *, sparse: bool | None) -> None:
        """Make them for PI of these sizes, and random PI."""
        self.shared = PILinear(spec.cardinalities, spec.n_numbers + self.random_pi, width, sparse=sparse)
        self.eps = mlp(width, spec.n_classes, width=width, depth=depth - 2)
        self.gamma = mlp(width, 1, width=width, depth=depth - 2, last_bias=gate_bias)

    def join(self, f: Tensor, a: PI) -> tuple[Tensor, Tensor]:
        """Return h (B, K), and the gate (B, 1)."""
        gamma, eps = self.explain(a)
        return (1 - gamma) * f + gamma * eps, gamma

    def explain(self, a: PI) -> tuple[Tensor, Tensor]:
        """Return the gate (B, 1) and noise logits (B, K) of encoded PI."""
        s = F.relu(self.shared(*a))
        return self.gamma(s).sigmoid(), self.eps(s)


class PiDual(WithPI, NoiseAndGate):
    """Pi-DUAL as a method: prediction, noise and gate networks fitted together to the noisy labels.

    Parameters
    ----------
    width : int
        Units of each layer of noise and gate network (the paper: 1024 or 2048).
    depth : int
        Their layers, the first one shared (the paper: 3).
    random_pi : int
        Length of the random vector appended to every row's PI (the paper: tuned over 4, 8, 12, 16; 30 on ImageNet-PI).
    gate_bias : float
        Initial bias of the gate: 0 begins with a gate near 1/2 (the paper does not say), -2 near 0.1.
    **pi
        `pi_weight_decay`: whether the noise and gate networks decay.

    See Also
    --------
    PiDualClassifier : Trains it on arrays.
    PiDualLoss : The same equation for a loop of your own.

    References
    ----------
    Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
    2310.06600.

    Examples
    --------
    Its options are those of the classifier that begin with `method__`.

    >>> from pidual import PiDual, PiDualClassifier, make_crowd
    >>> crowd = make_crowd(100, answers_per_item=1)
    >>> model = PiDualClassifier(epochs=2, method__width=64, method__gate_bias=-2.0)
    >>> model = model.fit(crowd.x, crowd.frame["label"], crowd.frame[["annotator", "seconds"]])
    >>> isinstance(model.method_, PiDual), model.method_.scores
    (True, ('confidence', 'gate'))
    """

    title = "Pi-DUAL"
    reference = "Wang et al., ICML 2024, arXiv 2310.06600"
    scores = ("confidence", "gate")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        width: Count = 1024,
        depth: Annotated[int, at_least(2)] = 3,
        random_pi: int = 8,
        gate_bias: float = 0.0,
        **pi: Any,
    ):
        super().__init__(f, spec, **pi)
        self.random_pi = random_pi
        sparse = False if self.pi_weight_decay else None  # decay moves every row
        self.make_networks(spec, width, depth, gate_bias, sparse=sparse)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        h, gamma = self.join(self.f(batch.x), batch.a)
        return {"loss": batch.cross_entropy(h), "gate": gamma.detach().mean()}

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        gamma, eps = self.explain(batch.a)
        return {"gate": gamma[:, 0], "noise_label": eps.argmax(1)}
