"""pi_groups: which parameters of a method decay."""

from typing import Any

from torch import nn

from ...nets import PILinear


def pi_groups(method: nn.Module, first: PILinear, *, decay: bool) -> list[dict[str, Any]]:
    """f; everything else, which reads PI; and the table of the first layer where its gradients are sparse."""
    f = [parameter for name, parameter in method.named_parameters() if name.startswith("f.")]
    pi = [parameter for name, parameter in method.named_parameters() if not name.startswith("f.")]
    if first.sparse:
        pi = [parameter for parameter in pi if parameter is not first.table]
    table = [{"params": [first.table], "sparse": True}] if first.sparse else []
    return [{"params": f}, {"params": pi, **({} if decay else {"weight_decay": 0.0})}, *table]
