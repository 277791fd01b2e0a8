"""Networks: each is `features(x)` followed by a linear `head`, so that f(x) = head(features(x)).

A network knows nothing of methods, labels or privileged information, with one exception: `PILinear`, the first
layer of every network that reads privileged information. A network takes the inputs as they are stored (uint8
images, float64 tables); its `Standardize` turns them into standardised float32 on the device they are on.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from ...errors import UsageError
from ...options import check_options
from .base import Network as Network
from .base import Standardize as Standardize
from .base import glorot_linear as glorot_linear
from .base import he_normal_ as he_normal_
from .libraries import LIBRARIES as LIBRARIES
from .libraries import build_backbone
from .mlp import MLP as MLP
from .mlp import PILinear as PILinear
from .mlp import Prior, Recalibrated
from .mlp import mlp as mlp
from .resnet import PreActResNet18, ResNet34, ResNet50, WideResNet
from .resnet import SmallCNN as SmallCNN

NETWORKS: dict[str, type[Network]] = {
    "mlp": MLP,
    "small_cnn": SmallCNN,
    "wrn_28_10": WideResNet,
    "resnet50": ResNet50,
    "resnet34": ResNet34,
    "preact_resnet18": PreActResNet18,
}
WITHOUT_X: dict[str, type[nn.Module]] = {"given": Recalibrated, "prior": Prior}  # in place of a network of x
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
STATISTICS: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "cifar10": ([255 * mean for mean in CIFAR10_MEAN], [255 * std for std in CIFAR10_STD]),
    "unit": ([0.0] * 3, [255.0] * 3),
}


def network_for(in_shape: Sequence[int]) -> str:
    """Return the name of the network for inputs of this shape: "small_cnn" for images (C, H, W), else "mlp"."""
    return "small_cnn" if len(in_shape) == 3 else "mlp"


def build_network(
    name: str,
    *,
    in_shape: Sequence[int],
    n_classes: int,
    standardize: Standardize | None = None,
    statistics: str | None = None,
    **options: Any,
) -> nn.Module:
    """Build the network called `name`, for inputs of shape `in_shape` (without the batch dimension).

    `name`: a key of NETWORKS, or "torchvision:NAME" or "timm:NAME" for a network of these libraries; a key of WITHOUT_X
        for inputs that are probabilities, or that there are none of.
    `in_shape`: (D,) for vectors, (C, H, W) for images.
    `n_classes`: number of classes.
    `standardize`: applied to the input first.
    `statistics` ("cifar10" or "unit", optional): standardise images of bytes by fixed numbers instead: by mean and
        standard deviation of CIFAR-10, as the paper's code base does on CIFAR-10 and CIFAR-100, or to [0, 1], as it
        does on ImageNet.
    `**options`: further arguments of the network, such as `width`.
    """
    if name in WITHOUT_X:
        check_options(f"network '{name}'", WITHOUT_X[name], options, taken=("n_classes",))
        return WITHOUT_X[name](n_classes)
    library, _, inner = name.partition(":")
    if name not in NETWORKS and not (library in LIBRARIES and inner):
        known = ", ".join([*NETWORKS, *(f"{library}:NAME" for library in LIBRARIES)])
        raise UsageError(f"There is no network '{name}'; choose one of {known}.")
    if name != "mlp" and len(in_shape) != 3:
        raise UsageError(f"Network '{name}' reads images of shape (C, H, W), not inputs of shape {tuple(in_shape)}.")
    if statistics is not None:
        standardize = _fixed_statistics(statistics, in_shape)
    if inner:
        return build_backbone(name, in_shape, n_classes, standardize, options)
    network = NETWORKS[name]
    size = {"in_dim": math.prod(in_shape)} if network is MLP else {"in_channels": in_shape[0]}
    check_options(f"network '{name}'", network, options, taken=(*size, "n_classes", "standardize"))
    return network(**size, n_classes=n_classes, standardize=standardize, **options)


def _fixed_statistics(name: str, in_shape: Sequence[int]) -> Standardize:
    if name not in STATISTICS:
        raise UsageError(f"There are no statistics '{name}'; choose one of {', '.join(STATISTICS)}.")
    if len(in_shape) != 3 or in_shape[0] != 3:
        raise UsageError(
            f"statistics={name} are for images of three colours, not for inputs of shape {tuple(in_shape)}."
        )
    return Standardize(*STATISTICS[name])
