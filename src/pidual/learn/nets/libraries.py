"""Networks of other libraries, which are imported only when they are asked for."""

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from ...errors import UsageError
from .base import Network, Standardize

LIBRARIES = ("torchvision", "timm")  # a network has the name it has there: "timm:vit_tiny_patch16_224"


class _Backbone(Network):
    """A network of another library without its last layer, and a head of ours on top of it.

    `body`: images to features of shape (B, D).
    `n_features`: d.
    """

    def __init__(self, body: nn.Module, n_features: int, n_classes: int, standardize: Standardize | None) -> None:
        super().__init__(n_features, n_classes, standardize)
        self.body = body

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Return what the last layer of the other library's network would see."""
        features = self.body(self.prepare(x))
        if not isinstance(features, Tensor):  # Inception's networks
            raise UsageError(
                f"{type(self.body).__name__} has auxiliary outputs, which are not supported; "
                "build it without them (network.aux_logits=false)."
            )
        return features


def build_backbone(
    name: str, in_shape: Sequence[int], n_classes: int, standardize: Standardize | None, options: dict[str, Any]
) -> _Backbone:
    """Build the network called "torchvision:NAME" or "timm:NAME", with a head of ours."""
    library, _, inner = name.partition(":")
    build = _from_torchvision if library == "torchvision" else _from_timm
    body, n_features = build(name, inner, in_shape, options)
    return _Backbone(body, n_features, n_classes, standardize)


def _from_torchvision(name: str, inner: str, in_shape: Sequence[int], options: dict[str, Any]) -> tuple[nn.Module, int]:
    """Build a network of torchvision without its last linear layer, and return that layer's width."""
    if in_shape[0] != 3:
        raise UsageError(f"Network '{name}' reads images of three colours, not {in_shape[0]}.")
    body = _make(name, "torchvision.models", "get_model", inner, options)
    for attribute in ("fc", "classifier", "heads", "head"):
        last = getattr(body, attribute, None)
        if isinstance(last, nn.Linear):
            setattr(body, attribute, nn.Identity())
            return body, last.in_features
        if isinstance(last, nn.Sequential) and isinstance(last[-1], nn.Linear):
            linear, last[-1] = last[-1], nn.Identity()
            return body, linear.in_features
    raise UsageError(f"Network '{name}' does not end in a linear layer fc, classifier or head; choose another.")


def _from_timm(name: str, inner: str, in_shape: Sequence[int], options: dict[str, Any]) -> tuple[nn.Module, int]:
    """Build a network of timm without its classifier, and return the width of what it then gives."""
    body = _make(name, "timm", "create_model", inner, options, num_classes=0, in_chans=in_shape[0])
    try:
        with torch.no_grad():
            shape = tuple(body.eval()(torch.zeros(1, *in_shape)).shape)
    except (AssertionError, RuntimeError, ValueError) as error:
        raise UsageError(f"Network '{name}' cannot read images of shape {tuple(in_shape)} ({error}).") from error
    if len(shape) != 2:
        raise UsageError(f"Network '{name}' gives features of shape {shape[1:]}, not one vector; choose another.")
    return body.train(), shape[1]


def _make(name: str, module: str, function: str, inner: str, options: dict[str, Any], **fixed: Any) -> nn.Module:
    """Have a library make a network; it is imported only when asked for, as it may not fit the torch there is."""
    library = module.partition(".")[0]
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"Network '{name}' needs {library}, which cannot be imported ({error}); install a {library} that fits the "
            "installed torch, for instance by `pip install 'pidual[vision]'`."
        ) from error
    try:
        body: nn.Module = make(inner, **fixed, **options)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise UsageError(
            f"{library} cannot build '{inner}' ({error}); `{module}.list_models()` lists its networks."
        ) from error
    return body
