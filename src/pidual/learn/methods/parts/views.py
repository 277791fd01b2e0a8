"""The same answer on two views of an input."""

from torch import Tensor
from torch.nn import functional as F

from ...batch import in_full_precision


def consistency(weak: Tensor, strong: Tensor, *, detach: bool = True) -> Tensor:
    """KL( softmax weak || softmax strong ) of every row of logits; the weak view is a fixed target if `detach`."""
    weak, strong = in_full_precision(weak), in_full_precision(strong)
    target = weak.log_softmax(1)
    target = target.detach() if detach else target
    return F.kl_div(strong.log_softmax(1), target, reduction="none", log_target=True).sum(1)
