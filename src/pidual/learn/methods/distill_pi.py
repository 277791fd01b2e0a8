"""Distillation-PI, generalised distillation: a teacher that sees the PI explains the labels to an f that does not.

    first    CE(g(x, a), y_noisy)                                                          teacher g
    then     L = (1 - lam) CE(f(x), y_noisy) + lam CE(f(x), softmax(g(x, a) / T))          student f

The teacher is AFM's network: features of x and a PI tower. It is frozen and in evaluation mode while f, which begins
with fresh weights, learns; it sees the same augmented input as f, and the row's own PI. There is no temperature on f,
and no factor T^2. Prediction uses f.

Lopez-Paz et al., "Unifying distillation and privileged information", ICLR 2016, arXiv 1511.03643. Their teacher sees
the PI alone; that of the Pi-DUAL paper's code base, and ours, sees x as well.
"""

from torch import Tensor, nn

from ...options import Count, Positive, Share
from .afm import AFM
from .base import Batch, Method, Spec
from .parts.networks import first_network


class DistillPI(Method):
    """A student of a teacher with PI.

    Parameters
    ----------
    lam : float
        Share of the teacher's answers in the loss; 0 is cross-entropy on the given labels (the code base: 0.5).
    temperature : float
        Divides the teacher's logits: above 1, its answers are softer (the code base: 1 on CIFAR, 3 on ImageNet).
    draws : int
        Number of PI vectors that the teacher's validation accuracy, which chooses its epoch, is averaged over (ours;
        the code base keeps the last epoch).
    width, pi_weight_decay
        Hidden units of the teacher's tower, and whether it has weight decay, as in AFM.
    """

    title = "Distillation-PI"
    reference = "Lopez-Paz et al., ICLR 2016, arXiv 1511.03643"
    needs_pi = True
    stages = 2
    before: AFM

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        lam: Share = 0.5,
        temperature: Positive = 1.0,
        width: Count = 1024,
        draws: Count = 100,
        pi_weight_decay: bool = False,
    ):
        super().__init__(f, spec)
        self.lam, self.temperature = lam, temperature
        self.before = AFM(first_network(f, second), spec, width=width, draws=draws, pi_weight_decay=pi_weight_decay)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.f(batch.x)
        taught = (self.before.with_pi(batch).float() / self.temperature).softmax(1).detach()
        soft = batch.losses(logits, taught)
        loss = batch.mean((1 - self.lam) * batch.losses(logits) + self.lam * soft)
        return {"loss": loss, "soft": batch.mean(soft).detach()}
