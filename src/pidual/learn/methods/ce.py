"""Cross-entropy: fit the noisy labels as if they were clean.

    L = CE(f(x), y_noisy)

Prediction uses f. The baseline every other method is compared with; it needs early stopping, or f memorises the wrong
labels.
"""

from torch import Tensor

from .base import Batch, Method


class CE(Method):
    """Plain cross-entropy on the given labels; it has no options."""

    title = "Cross-entropy"
    reference = "The usual baseline"

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": batch.cross_entropy(self.f(batch.x))}
