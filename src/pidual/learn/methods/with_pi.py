"""WithPI: what all methods with networks of PI share."""

from typing import Any

from torch import nn

from ..nets import PILinear
from .base import Method, Spec
from .parts import PITower


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

    def first_layer(self, spec: Spec, width: int) -> PILinear:
        """The layer that reads PI and random PI; its gradients are sparse where it is large, unless it decays."""
        sparse = False if self.pi_weight_decay else None  # decay moves every row
        return PILinear(spec.cardinalities, spec.n_numbers + self.random_pi, width, sparse=sparse)

    def pi_networks(self) -> list[nn.Module]:
        """The networks that `pi_weight_decay` decides on: everything but f; of a tower only its hidden layers."""
        beside_f = [child for name, child in self.named_children() if name != "f"]
        return [part for child in beside_f for part in (child.hidden if isinstance(child, PITower) else [child])]

    def param_groups(self) -> list[dict[str, Any]]:
        """f; the networks of PI; and the table of a first layer whose gradients are sparse."""
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
