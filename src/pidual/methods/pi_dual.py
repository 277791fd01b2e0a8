"""Pi-DUAL: let the privileged information explain the wrong labels.

    h(x, a) = (1 - gamma(a)) * f(x) + gamma(a) * eps(a)      logits
    L       = CE(h(x, a), y_noisy)

Training fits y_noisy with h, end to end, nothing detached; prediction uses f alone, so `a` is not needed after
training. eps and gamma share their first layer. The gate gamma is one number per annotation, near 1 where the PI
alone explains the label.

Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
2310.06600.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..batch import PI, Batch, Spec
from ..errors import UsageError
from ..nets import PILinear, mlp
from .base import Method
from .parts.networks import split_network
from .parts.ranges import check_range
from .pi_edits import PIEdits

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
    use_gate : bool
        Ablation: False leaves the gate out, h = f(x) + eps(a) (our reading; the paper gives no formula).
    use_noise : bool
        Ablation: False leaves the noise network out, h = (1 - gamma(a)) f(x) (our reading): a gated row is uniform.
    gate_on : "logits" or "probabilities"
        Ablation: mix probabilities, p = (1 - gamma) softmax f + gamma softmax eps.
    only_random_pi : bool
        Ablation: hide everything from the noise and gate networks but the random PI.
    noise_input : "pi" or "x_and_pi"
        Ablation: the noise network also sees features(x), beside the first layer's output, and trains them (our
        reading; the paper does not say how x enters).
    tram_loss : float
        Ablation: weight of TRAM's second term, CE(head(sg(features(x))), y_noisy), which trains f's head alone (our
        reading of the stop-gradient; 1 is TRAM's weight).
    corrupt_pi : float
        Ablation: share of the training rows whose PI is replaced by random values; random PI stays.
    leave_out : str or sequence of str
        Ablation: PI columns hidden from the noise and gate networks.
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
        use_gate: bool = True,
        use_noise: bool = True,
        gate_on: str = "logits",
        only_random_pi: bool = False,
        noise_input: str = "pi",
        tram_loss: float = 0.0,
        corrupt_pi: float = 0.0,
        leave_out: str | Sequence[str] = (),
    ):
        super().__init__(f, spec)
        if gate_on not in ("logits", "probabilities"):
            raise UsageError(f"gate_on must be logits or probabilities, not '{gate_on}'.")
        if noise_input not in ("pi", "x_and_pi"):
            raise UsageError(f"noise_input must be pi or x_and_pi, not '{noise_input}'.")
        if only_random_pi and not random_pi:
            raise UsageError("only_random_pi needs a random_pi of length 1 or more.")
        self.random_pi, self.pi_weight_decay = random_pi, pi_weight_decay
        self.gate_on, self.sees_x, self.tram_loss = gate_on, noise_input == "x_and_pi", tram_loss
        self.check(width, depth, use_gate, use_noise)
        left_out = leave_out if isinstance(leave_out, str) else tuple(leave_out)
        self.edits = PIEdits(spec, leave_out=left_out, everything=only_random_pi, corrupt=corrupt_pi)
        many = bool(sum(spec.cardinalities) * width > SPARSE_ABOVE) and not pi_weight_decay
        self.shared = PILinear(self.edits.cardinalities, self.edits.n_numbers + random_pi, width, sparse=many)
        seen = width + (split_network(f)[1].in_features if self.sees_x else 0)
        self.eps = mlp(seen, spec.n_classes, width=width, depth=depth - 2) if use_noise else None
        self.gamma = mlp(width, 1, width=width, depth=depth - 2) if use_gate else None
        if self.gamma is not None:
            nn.init.constant_(list(self.gamma.parameters())[-1], gate_bias)

    def check(self, width: int, depth: int, use_gate: bool, use_noise: bool) -> None:
        """Refuse options that cannot be, or not together."""
        if width < 1 or depth < 2:
            raise UsageError(f"The noise and gate networks need width >= 1 and depth >= 2, not {width} and {depth}.")
        if not (use_gate or use_noise):
            raise UsageError("Without gate and noise network Pi-DUAL is cross-entropy; use method ce.")
        if self.gate_on == "probabilities" and not (use_gate and use_noise):
            raise UsageError("gate_on=probabilities needs both the gate and the noise network.")
        if self.sees_x and not use_noise:
            raise UsageError("noise_input=x_and_pi needs the noise network.")
        check_range("tram_loss", self.tram_loss, 0)
        check_range("random_pi", self.random_pi, 0)
        if self.sees_x or self.tram_loss:
            split_network(self.f)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        phi = split_network(self.f)[0](batch.x) if self.sees_x or self.tram_loss else None
        f = self.f(batch.x) if phi is None else split_network(self.f)[1](phi)
        h, logs = self.mix(f, batch, phi)
        losses = F.cross_entropy(h, batch.y_noisy, reduction="none")
        if phi is not None and self.tram_loss:
            head = split_network(self.f)[1](phi.detach())  # the features learn from h alone
            losses = losses + self.tram_loss * F.cross_entropy(head, batch.y_noisy, reduction="none")
        return {"loss": batch.mean(losses), **logs}

    def mix(self, f: Tensor, batch: Batch, phi: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """h (B, K), or what an ablation puts in its place, and the mean gate to log."""
        g, eps = self.explain(self.edits(batch.a, batch.index), phi)
        if g is None or eps is None:
            return self.mix_without(f, g, eps)
        gamma = g.sigmoid()
        logs = {"gate": gamma.detach().mean()}
        if self.gate_on == "probabilities":  # log p, of which the softmax is p
            return torch.logaddexp(F.logsigmoid(-g) + f.log_softmax(1), F.logsigmoid(g) + eps.log_softmax(1)), logs
        return (1 - gamma) * f + gamma * eps, logs

    def mix_without(self, f: Tensor, g: Tensor | None, eps: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        """h without the noise network, or without the gate."""
        if g is not None:
            return (1 - g.sigmoid()) * f, {"gate": g.detach().sigmoid().mean()}
        assert eps is not None
        return f + eps, {}

    def explain(self, a: PI, phi: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
        """Logit of the gate (B, 1) and noise logits (B, K) of encoded PI; None for a network that is left out."""
        s = F.relu(self.shared(a.codes, a.numbers))
        g = None if self.gamma is None else self.gamma(s)
        if self.eps is None:
            return g, None
        return g, self.eps(s if phi is None or not self.sees_x else torch.cat([phi, s], 1))

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        if self.sees_x:  # the noise network cannot be asked without x
            s = F.relu(self.shared(*self.edits(batch.a, batch.index)))
            return {} if self.gamma is None else {"gate": self.gamma(s).sigmoid()[:, 0]}
        g, eps = self.explain(self.edits(batch.a, batch.index))
        columns = {} if g is None else {"gate": g.sigmoid()[:, 0]}
        return columns if eps is None else columns | {"noise_label": eps.argmax(1)}

    def param_groups(self) -> list[dict[str, Any]]:
        pi = [p for name, p in self.named_parameters() if not name.startswith("f.")]
        table = [parameter for parameter in pi if self.shared.sparse and parameter is self.shared.table]
        decay = {} if self.pi_weight_decay else {"weight_decay": 0.0}
        return [
            {"params": list(self.f.parameters())},
            {"params": [parameter for parameter in pi if not table or parameter is not table[0]], **decay},
            *({"params": table, "sparse": True} for _ in table),
        ]
