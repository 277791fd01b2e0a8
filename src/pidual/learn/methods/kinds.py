"""Kinds of methods: with networks of PI, with numbers of every row, with a strongly augmented view."""

from typing import Any

from torch import Tensor, cat, nn
from torch.nn import functional as F

from ..batch import in_full_precision
from ..nets import PILinear
from .base import Batch, Method, Spec
from .parts.memory import SampleMemory
from .parts.monte_carlo import PITower


class WithPI(Method):
    """A method with networks of PI beside f.

    Parameters
    ----------
    pi_weight_decay : bool
        Apply weight decay to networks of PI too; in a tower, to its hidden layers (the papers: no on CIFAR, yes on
        ImageNet-PI).
    """

    needs_pi = True

    def __init__(self, f: nn.Module, spec: Spec, *, pi_weight_decay: bool = False):
        super().__init__(f, spec)
        self.pi_weight_decay = pi_weight_decay

    def pi_networks(self) -> list[nn.Module]:
        """Return the networks that `pi_weight_decay` decides on: all but f; of a tower only its hidden layers."""
        beside_f = [child for name, child in self.named_children() if name != "f"]
        return [part for child in beside_f for part in (child.hidden if isinstance(child, PITower) else [child])]

    def param_groups(self) -> list[dict[str, Any]]:
        """Return f; the networks of PI; and the table of a first layer whose gradients are sparse."""
        networks = self.pi_networks()
        layers = [layer for network in networks for layer in network.modules() if isinstance(layer, PILinear)]
        tables = [layer.table for layer in layers if layer.sparse]
        of_pi = {id(p): p for network in networks for p in network.parameters()}
        others = [p for p in self.parameters() if p.requires_grad and id(p) not in of_pi]
        for table in tables:
            del of_pi[id(table)]
        decay: dict[str, Any] = {} if self.pi_weight_decay else {"weight_decay": 0.0}
        return [
            {"params": others},
            {"params": [*of_pi.values()], **decay},
            *({"params": [table], "sparse": True} for table in tables),
        ]


class WithMemory(Method):
    """A method with a memory of every training row.

    Parameters
    ----------
    memory : "auto", "memory" or "disk"
        Where the numbers of each row are stored: "memory", "disk", or "auto", which is disk above a gigabyte.
    """

    def __init__(self, f: nn.Module, spec: Spec, *, memory: str = "auto"):
        super().__init__(f, spec)
        self._rows, self._where = spec.n_train, memory

    def remember(self, width: int, std: float = 0.0) -> SampleMemory:
        """Remember so many numbers of every row, which begin at 0 or normal with this standard deviation."""
        return SampleMemory(self._rows, width, std=std, where=self._where)


class WithStrongView(Method):
    """A method whose f answers on a weak and on a strong view.

    For images the strong view is AutoAugment's CIFAR-10 policy, then crop and flip, then Cutout 16 (`strong_policy`
    names another). Other inputs have no strong augmentation, and the two passes differ by dropout alone.
    """

    n_views = 2
    strong_views = 1

    def on_both_views(self, batch: Batch, *, detach: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Return f's logits on the weak and on the strong view, and KL( softmax weak || softmax strong ) of every row.

        Both views go through f in one concatenated batch, so that batch normalisation sees them together. In the KL
        the weak view is a fixed target if `detach`.
        """
        weak, strong = self.f(cat(batch.views)).chunk(2)
        log_weak, log_strong = (in_full_precision(logits).log_softmax(1) for logits in (weak, strong))
        target = log_weak.detach() if detach else log_weak
        return weak, strong, F.kl_div(log_strong, target, reduction="none", log_target=True).sum(1)
