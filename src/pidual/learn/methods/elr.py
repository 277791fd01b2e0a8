"""ELR, early-learning regularisation: do not move away from what was predicted early, when f fits the clean labels.

    t_i <- beta t_i + (1 - beta) p_i / |p_i|_1          p = softmax f(x), clamped; no gradient
    L   =  CE(f(x), y_noisy) + lam * log(1 - <t_i, p_i>)

Training keeps one target vector t per row, which begins at zero and already contains the present prediction when the
loss is computed. Prediction uses f.

Liu et al., "Early-learning regularization prevents memorization of noisy labels", NeurIPS 2020, arXiv 2007.00151.
"""

from typing import Any

from torch import Tensor, nn

from ...options import NotNegative, Share
from .base import Batch, Spec
from .kinds import WithMemory

TINY = 1e-4


class ELR(WithMemory):
    """Cross-entropy with a pull towards the row's own earlier predictions.

    Parameters
    ----------
    beta : float
        Weight of earlier predictions in a row's target (authors, CIFAR-10: 0.7; the paper tunes over 0.5, 0.7, 0.9).
    lam : float
        Strength of the pull towards that target (authors, CIFAR-10: 3; the paper tunes over 1, 3, 7).
    **memory
        Where the targets are kept (`WithMemory`).
    """

    title = "ELR"
    reference = "Liu et al., NeurIPS 2020, arXiv 2007.00151"
    per_row_state = "target probabilities (K)"
    scores = ("confidence", "target_disagreement")

    def __init__(self, f: nn.Module, spec: Spec, *, beta: Share = 0.7, lam: NotNegative = 3.0, **memory: Any):
        super().__init__(f, spec, **memory)
        self.beta, self.lam = beta, lam
        self.targets = self.remember(spec.n_classes)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.f(batch.x)
        p = logits.float().softmax(1).clamp(TINY, 1 - TINY)
        t = self.beta * self.targets[batch.index] + (1 - self.beta) * (p / p.sum(1, keepdim=True)).detach()
        self.targets.update(batch.index, t)
        pull = (1 - (t * p).sum(1)).log()
        return {"loss": batch.mean(batch.losses(logits) + self.lam * pull), "pull": batch.mean(pull).detach()}

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return 1 - t[given label], t scaled to sum 1: the authors call a label wrong where t peaks elsewhere."""
        t = self.targets[batch.index]
        return {"target_disagreement": 1 - (t / t.sum(1, keepdim=True)).gather(1, batch.y_noisy[:, None])[:, 0]}
