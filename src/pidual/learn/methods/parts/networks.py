"""Networks beside f: a second one, layers with new weights, a moving average."""

import copy
import math
from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor, nn

from ....errors import UsageError
from ...nets import NETWORKS, he_normal_


def split_network(f: nn.Module) -> tuple[Callable[[Tensor], Tensor], nn.Linear]:
    """Return `features` and `head` of a network whose logits are head(features(x)), for methods that see them apart."""
    features, head = getattr(f, "features", None), getattr(f, "head", None)
    if not (callable(features) and isinstance(head, nn.Linear)):
        raise UsageError(
            f"This method needs a network whose logits are head(features(x)), with a linear `head`; "
            f"{type(f).__name__} has none. Give it both, or use another method."
        )
    return features, head


def reinitialise(module: nn.Module) -> None:
    """Draw new weights: He-normal convolutions, Glorot-uniform linear layers, zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            he_normal_(part.weight)
        elif isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
        elif callable(reset := getattr(part, "reset_parameters", None)):
            reset()
        if isinstance(part, nn.Conv2d | nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def classifier(f: nn.Module) -> nn.Module | None:
    """Return `head` of a network, or else its last linear layer, or else its last convolution."""
    if isinstance(head := getattr(f, "head", None), nn.Module):
        return head
    for kind in (nn.Linear, nn.modules.conv._ConvNd):
        if layers := [module for module in f.modules() if isinstance(module, kind)]:
            return layers[-1]
    return None


def last_stage(f: nn.Module, head: nn.Module) -> list[nn.Module]:
    """Return `last_stage` of a network, or else its last child with parameters that does not hold the classifier."""
    if (stage := getattr(f, "last_stage", None)) is not None:
        return list(stage)
    before = (child for child in f.children() if head not in child.modules())
    return [child for child in before if next(child.parameters(), None) is not None][-1:]


def fresh_copy(f: nn.Module) -> nn.Module:
    """Make a network of the same shape with weights of its own, and the head as the network says (`reset_head`)."""
    copied = copy.deepcopy(f)
    reinitialise(copied)
    if callable(reset := getattr(copied, "reset_head", None)):
        reset()
    return copied


def second_network(f: nn.Module, given: nn.Module | None, *, beside: bool = True) -> nn.Module:
    """Return the second network of a method that trains two: the one given, or else one made from f.

    A network of `pidual.learn.nets` begins with weights drawn at random, and so does its copy. Any other may have been
    trained before: its copy keeps all weights. Two networks that are trained `beside` each other must not begin as
    equals: where they would, the second one's classifier gets new weights.
    """
    if given is None and type(f) in NETWORKS.values():
        return fresh_copy(f)
    second = copy.deepcopy(f) if given is None else given
    if beside and _same_weights(f, second):
        last = classifier(second)
        if last is None:
            raise UsageError(
                f"This method trains two networks, which must not begin as equals; {type(f).__name__} has no linear "
                "layer to draw again. Give a callable that makes a different one each time."
            )
        reinitialise(last)
    return second


def first_network(f: nn.Module, given: nn.Module | None) -> nn.Module:
    """Return the network of a first stage, which is trained before f: the one given, or else one made from f."""
    return second_network(f, given, beside=False)


def _same_weights(f: nn.Module, g: nn.Module) -> bool:
    """Return whether two networks have parameters, all equal; those without values (on meta) are not."""
    pairs = list(zip(f.parameters(), g.parameters(), strict=False))
    return bool(pairs) and all(not one.is_meta and torch.equal(one, two) for one, two in pairs)


def log_mean_softmax(*logits: Tensor) -> Tensor:
    """Return The log of the mean of softmaxes, from their logits."""
    log_p = [each.to(torch.promote_types(each.dtype, torch.float32)).log_softmax(1) for each in logits]
    return reduce(torch.logaddexp, log_p) - math.log(len(log_p))


def update_average(average: nn.Module, network: nn.Module, alpha: float) -> None:
    """Move the parameters of `average` to alpha * average + (1 - alpha) * network; buffers stay."""
    with torch.no_grad():
        for mean, value in zip(average.parameters(), network.parameters(), strict=True):
            mean.lerp_(value, 1 - alpha)
