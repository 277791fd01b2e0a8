"""WeakAndStrong: what all methods share that show f two views of every input, one of them strongly augmented.

For images the strong view is AutoAugment's CIFAR-10 policy, then crop and flip, then Cutout 16 (`strong_policy` names
another). Other inputs have no strong augmentation, and the two passes differ by dropout alone.
"""

from torch import Tensor, cat

from .base import Batch, Method
from .parts import consistency


class WeakAndStrong(Method):
    """A method whose f answers on a weak and on a strong view."""

    n_views = 2
    strong_views = 1

    def on_both_views(self, batch: Batch, *, detach: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """f's logits on the weak and on the strong view, and KL( softmax weak || softmax strong ) of every row.

        Both views go through f in one concatenated batch, so that batch normalisation sees them together. In the KL
        the weak view is a fixed target if `detach`.
        """
        weak, strong = self.f(cat(batch.views)).chunk(2)
        return weak, strong, consistency(weak, strong, detach=detach)
