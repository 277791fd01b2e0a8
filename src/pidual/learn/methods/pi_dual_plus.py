"""Pi-DUAL+: Pi-DUAL with smoothed labels, and an f that answers the same on a strongly augmented view.

    L = CE_smooth(h(x, a), y_noisy) + lam * KL( sg(softmax f(x)) || softmax f(strong x) )

h as in Pi-DUAL. The second term touches f only. `WithStrongView` has the two views; of images the strong one is UDA's
of CIFAR-10: two random operations of fifteen at random levels, each with probability 0.5, then Cutout 16, before crop
and flip. Prediction uses f.

Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
2310.06600, appendix. The paper names "UDA augmentation" without its policy: this is the one in UDA's released code
(google-research/uda, image/randaugment/policies.py; Xie et al., NeurIPS 2020, arXiv 1904.12848). Nor does it say
whether the first argument is detached; UDA, SOP+ and CORES* detach it.
"""

from typing import Annotated, Any

from torch import Tensor, nn

from ...options import NotNegative, Share, one_of
from ..nets.augment import STRONG_POLICIES
from .base import Batch, Spec
from .kinds import WithStrongView
from .pi_dual import PiDual


class PiDualPlus(WithStrongView, PiDual):
    """Pi-DUAL with label smoothing and consistency.

    Parameters
    ----------
    smoothing : float
        Label smoothing: the share of a label that is spread over all classes (the paper tunes over 0 and 0.4).
    lam : float
        Weight of the term that makes f predict the same on both views (the paper tunes over 0.5 and 1).
    detach : bool
        Use the prediction on the weak view as a fixed target, without gradient (our reading).
    strong_policy : "uda" or "autoaugment"
        How images are strongly augmented: uda as UDA does, autoaugment as SOP+ and CORES* do.
    **options
        Those of Pi-DUAL; random PI of length 4 or 8 in the paper.
    """

    title = "Pi-DUAL+"

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        smoothing: Share = 0.4,
        lam: NotNegative = 1.0,
        detach: bool = True,
        strong_policy: Annotated[str, one_of(*STRONG_POLICIES)] = "uda",
        **options: Any,
    ):
        super().__init__(f, spec, **options)
        self.smoothing, self.lam, self.detach, self.strong_policy = smoothing, lam, detach, strong_policy

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        f, _, kl = self.on_both_views(batch, detach=self.detach)
        h, gamma = self.join(f, batch.a)
        loss = batch.mean(batch.losses(h, label_smoothing=self.smoothing) + self.lam * kl)
        return {"loss": loss, "consistency": batch.mean(kl).detach(), "gate": gamma.detach().mean()}
