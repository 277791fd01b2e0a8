"""Networks: each is `features(x)` followed by a linear `head`, so that f(x) = head(features(x)).

A network knows nothing of methods, labels or privileged information, with one exception: `PILinear`, the first
layer of every network that reads privileged information. A network takes the inputs as they are stored (uint8
images, float64 tables); its `Standardize` turns them into standardised float32 on the device they are on.
"""

import importlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from .errors import UsageError
from .options import check_options


class Standardize(nn.Module):
    """Inputs of any number type to float32, minus a mean, divided by a standard deviation.

    Parameters
    ----------
    mean, std : array-like of shape (D,)
        One value per feature for inputs of shape (B, D), one per channel for images of shape (B, D, H, W).
        A standard deviation of zero, or one that float32 cannot tell from zero beside its mean, counts as 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        super().__init__()
        mean_, std_ = np.atleast_1d(np.asarray(mean, np.float64)), np.atleast_1d(np.asarray(std, np.float64))
        constant = std_ <= 1e-7 * np.abs(mean_)
        self.register_buffer("mean", torch.as_tensor(mean_, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(np.where(constant, 1.0, std_), dtype=torch.float32))

    @classmethod
    def fit(cls, x: NDArray[Any], *, block_bytes: int = 1 << 26) -> "Standardize":
        """Means and standard deviations of `x` per column or channel, read in blocks so that a memory map stays one."""
        axes = (0, *range(2, x.ndim))
        rows = max(1, block_bytes // max(1, 8 * math.prod(x.shape[1:])))
        shift = np.asarray(x[:rows], np.float64).mean(axes, keepdims=True)  # guards the squares against cancellation
        total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        for start in range(0, len(x), rows):
            block = np.asarray(x[start : start + rows], np.float64) - shift
            total += block.sum(axes)
            squares += np.square(block).sum(axes)
        count = x.size / x.shape[1]
        mean = total / count
        return cls(shift.reshape(-1) + mean, np.sqrt(np.maximum(squares / count - mean**2, 0.0)))

    def forward(self, x: Shaped[Tensor, "B D *rest"]) -> Float[Tensor, "B D *rest"]:
        """`x` standardised, as float32."""
        shape = (-1,) + (1,) * (x.ndim - 2)
        return (x.to(torch.float32) - self.mean.view(shape)) / self.std.view(shape)


class Network(nn.Module):
    """Base of the prediction networks: standardise, `features`, `head`.

    Attributes
    ----------
    n_features : int
        Width D of `features(x)`.
    head : nn.Linear
        Features to logits.
    """

    def __init__(self, n_features: int, n_classes: int, standardize: Standardize | None) -> None:
        super().__init__()
        self.n_features = n_features
        self.standardize = standardize
        self.head = nn.Linear(n_features, n_classes)

    def prepare(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B ..."]:
        """`x` as standardised float32 (only cast when the network has no `Standardize`)."""
        if self.standardize is None:
            return x if x.is_floating_point() and x.dtype != torch.float64 else x.to(torch.float32)
        standardised: Tensor = self.standardize(x)
        return standardised

    def features(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B D"]:
        """What the head sees: one vector of `n_features` numbers per input."""
        raise NotImplementedError

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last layers before the head, for methods that train them anew; none where a network does not say."""
        return []

    def forward(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B K"]:
        """Logits."""
        logits: Tensor = self.head(self.features(x))
        return logits


def glorot_linear(in_dim: int, out_dim: int) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and zero biases."""
    layer = nn.Linear(in_dim, out_dim)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(in_dim: int, out_dim: int, *, width: int, depth: int) -> nn.Sequential:
    """`depth` hidden layers of `width` ReLU units, then a linear layer; Glorot-uniform weights, zero biases.

    depth=0 is one linear layer; depth=1 is linear, ReLU, linear.
    """
    sizes = [in_dim, *[width] * depth]
    hidden = [part for a, b in itertools.pairwise(sizes) for part in (glorot_linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, glorot_linear(sizes[-1], out_dim))


class MLP(Network):
    """Fully connected network for vectors (other shapes are flattened).

    Parameters
    ----------
    in_dim, n_classes : int
        Numbers per input; classes.
    width, depth : int
        Units per hidden layer and number of hidden layers; depth 0 is a linear classifier.
    dropout : float
        Share of the units of each hidden layer dropped while training.
    standardize : Standardize, optional
        Applied to the input first.
    """

    def __init__(
        self,
        in_dim: int,
        n_classes: int,
        *,
        width: int = 256,
        depth: int = 2,
        dropout: float = 0.0,
        standardize: Standardize | None = None,
    ) -> None:
        super().__init__(width if depth else in_dim, n_classes, standardize)
        self.head = glorot_linear(self.n_features, n_classes)
        sizes = [in_dim, *[width] * depth]
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(sizes):
            layers += [glorot_linear(a, b), nn.ReLU()] + ([nn.Dropout(dropout)] if dropout else [])
        self.hidden = nn.Sequential(*layers)

    def features(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B D"]:
        """The last hidden layer."""
        hidden: Tensor = self.hidden(self.prepare(x).flatten(1))
        return hidden

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last hidden layer; none at depth 0."""
        layers: list[nn.Module] = [layer for layer in self.hidden if isinstance(layer, nn.Linear)]
        return layers[-1:]


def _conv(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps (or divides by the stride) the image size; truncated He-normal weights."""
    conv = nn.Conv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False)
    he_normal_(conv.weight)
    return conv


def he_normal_(weight: Tensor) -> None:
    """He-normal by fan-in, truncated at two standard deviations and rescaled to keep the variance.

    Draws again what falls outside: twice as fast as `nn.init.trunc_normal_`, which inverts the error function.
    """
    if weight.is_meta:
        return
    std = math.sqrt(2.0 / weight[0].numel()) / 0.8796256610342398  # std of a unit normal cut at +-2
    with torch.no_grad():
        flat = weight.normal_().view(-1)
        while len(outside := (flat.abs() > 2).nonzero()[:, 0]):
            flat[outside] = torch.randn(len(outside), dtype=flat.dtype, device=flat.device)
        weight.mul_(std)


def _pooled(x: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
    """Global average pooling, for any image size."""
    return x.mean((2, 3))


class SmallCNN(Network):
    """Three convolution blocks for small images on a CPU; works from 8 x 8 to 96 x 96 and beyond.

    Parameters
    ----------
    n_classes, in_channels : int
        Classes; colour channels.
    width : int
        Channels of the first block; the second has twice, the third four times as many.
    convs : int
        3 x 3 convolutions per block, each followed by batch normalisation and ReLU; each block ends in 2 x 2 max
        pooling, the last in global average pooling.
    standardize : Standardize, optional
        Applied to the input first.
    """

    def __init__(
        self,
        n_classes: int,
        in_channels: int = 3,
        *,
        width: int = 32,
        convs: int = 1,
        standardize: Standardize | None = None,
    ) -> None:
        super().__init__(4 * width, n_classes, standardize)
        channels, blocks = in_channels, []
        for out in (width, 2 * width, 4 * width):
            layers: list[nn.Module] = []
            for _ in range(convs):
                layers += [_conv(channels, out, 3), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
                channels = out
            blocks.append(nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True)))
        self.blocks = nn.Sequential(*blocks)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Average over the image of the last block."""
        # channels last: a quarter less CPU time on 32 x 32. The weights stay contiguous, as safetensors wants them.
        return _pooled(self.blocks(self.prepare(x).contiguous(memory_format=torch.channels_last)))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last block."""
        return [self.blocks[-1]]


class _WideBlock(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv plus shortcut; where shapes differ the shortcut is a 1 x 1 conv of the raw input."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(in_channels), _conv(in_channels, out_channels, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(out_channels), _conv(out_channels, out_channels, 3)
        same = stride == 1 and in_channels == out_channels
        self.shortcut = nn.Identity() if same else _conv(in_channels, out_channels, 1, stride)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        result: Tensor = out + self.shortcut(x)
        return result


class WideResNet(Network):
    """Pre-activation wide residual network, WRN-28-10 by default, as in the experiments of the Pi-DUAL paper on CIFAR.

    No dropout, no convolution biases; truncated He-normal weights, also in the head, whose bias starts at zero.

    Parameters
    ----------
    n_classes, in_channels : int
        Classes; colour channels.
    depth : int
        Number of convolution layers on the main path plus the head: 6 n + 4.
    widen : int
        Channels are 16, 32 and 64 times this in the three groups.
    standardize : Standardize, optional
        Applied to the input first.
    """

    def __init__(
        self,
        n_classes: int,
        in_channels: int = 3,
        *,
        depth: int = 28,
        widen: int = 10,
        standardize: Standardize | None = None,
    ) -> None:
        if depth < 10 or (depth - 4) % 6:
            raise UsageError(f"WideResNet depth must be 6 n + 4 with n >= 1 (10, 16, 22, 28, ...), not {depth}")
        super().__init__(64 * widen, n_classes, standardize)
        self.reset_head()
        self.stem = _conv(in_channels, 16, 3)
        channels, blocks = 16, []
        for out, stride in ((16 * widen, 1), (32 * widen, 2), (64 * widen, 2)):
            for i in range((depth - 4) // 6):
                blocks.append(_WideBlock(channels, out, stride if i == 0 else 1))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(channels)

    def reset_head(self) -> None:
        """New weights of the head, as the network begins with."""
        he_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Average over the image after the last BN-ReLU."""
        return _pooled(F.relu(self.bn(self.blocks(self.stem(self.prepare(x))))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last of the three groups, and the batch normalisation after it."""
        return [*list(self.blocks)[-(len(self.blocks) // 3) :], self.bn]


class _Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride), 1 x 1 convolutions, each with batch normalisation, plus shortcut."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = _conv(in_channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _conv(width, out, 1), nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out:
            self.shortcut = nn.Sequential(_conv(in_channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


class ResNet50(Network):
    """ResNet-50, version 1.5 (the stride is on the 3 x 3 convolution); truncated He-normal weights.

    Parameters
    ----------
    n_classes, in_channels : int
        Classes; colour channels.
    standardize : Standardize, optional
        Applied to the input first.
    """

    def __init__(self, n_classes: int = 1000, in_channels: int = 3, *, standardize: Standardize | None = None) -> None:
        super().__init__(2048, n_classes, standardize)
        self.reset_head()
        stem_parts = (_conv(in_channels, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        self.stem = nn.Sequential(*stem_parts, nn.MaxPool2d(3, 2, padding=1))
        channels, blocks = 64, []
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(_Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)

    def reset_head(self) -> None:
        """New weights of the head, as the network begins with."""
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Average over the image of the last block."""
        return _pooled(self.blocks(self.stem(self.prepare(x))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last three blocks."""
        return list(self.blocks)[-3:]


class _BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalisation, plus shortcut (1 x 1 convolution and BN where shapes differ)."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(in_channels, out_channels, 3, stride), nn.BatchNorm2d(out_channels)
        self.conv2, self.bn2 = _conv(out_channels, out_channels, 3), nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(_conv(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class _PreActBlock(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv plus shortcut from after the first BN-ReLU, with a 1 x 1 conv where shapes differ."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(in_channels), _conv(in_channels, out_channels, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(out_channels), _conv(out_channels, out_channels, 3)
        same = stride == 1 and in_channels == out_channels
        self.shortcut = nn.Identity() if same else _conv(in_channels, out_channels, 1, stride)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        active = F.relu(self.bn1(x))
        result: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active)))) + self.shortcut(active)
        return result


class _SmallImageResNet(Network):
    """Stem of one 3 x 3 convolution with BN-ReLU and no pooling; four stages of 64, 128, 256 and 512 channels.

    Parameters
    ----------
    n_classes, in_channels : int
        Classes; colour channels.
    standardize : Standardize, optional
        Applied to the input first.
    """

    block: type[_BasicBlock] | type[_PreActBlock]
    counts: tuple[int, int, int, int]  # blocks in each stage

    def __init__(self, n_classes: int, in_channels: int = 3, *, standardize: Standardize | None = None) -> None:
        super().__init__(512, n_classes, standardize)
        self.stem = nn.Sequential(_conv(in_channels, 64, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        channels, blocks = 64, []
        for count, out, stride in zip(self.counts, (64, 128, 256, 512), (1, 2, 2, 2), strict=True):
            for i in range(count):
                blocks.append(self.block(channels, out, stride if i == 0 else 1))
                channels = out
        self.blocks = nn.Sequential(*blocks)

    def reset_head(self) -> None:
        """New weights of the head, as the network begins with: torch's own, as the authors of the methods have them."""
        self.head.reset_parameters()

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Average over the image of the last block."""
        return _pooled(self.blocks(self.stem(self.prepare(x))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The blocks of 512 channels."""
        return list(self.blocks)[-self.counts[-1] :]


class ResNet34(_SmallImageResNet):
    """ResNet-34 with the stem for CIFAR: 3 x 3 with stride 1, no max pooling; as ELR, CORES and PES use it."""

    block, counts = _BasicBlock, (3, 4, 6, 3)


class PreActResNet18(_SmallImageResNet):
    """PreAct ResNet-18 as DivideMix, ELR+ and PES(semi) use it.

    The stem ends in BN-ReLU, no BN-ReLU comes after the last block, and shortcuts have no batch normalisation.
    """

    block, counts = _PreActBlock, (2, 2, 2, 2)


class Backbone(Network):
    """A network of another library without its last layer, and a head of ours on top of it.

    Parameters
    ----------
    body : nn.Module
        Images to features of shape (B, D).
    n_features, n_classes : int
        D; classes.
    standardize : Standardize, optional
        Applied to the input first.
    """

    def __init__(self, body: nn.Module, n_features: int, n_classes: int, standardize: Standardize | None) -> None:
        super().__init__(n_features, n_classes, standardize)
        self.body = body

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """What the last layer of the other library's network would see."""
        features = self.body(self.prepare(x))
        if not isinstance(features, Tensor):  # Inception's networks
            raise UsageError(
                f"{type(self.body).__name__} has auxiliary outputs, which are not supported; "
                "build it without them (network.aux_logits=false)."
            )
        return features


class Recalibrated(nn.Module):
    """Probabilities that are given, as sure of themselves as answers ask for: softmax(temperature * log p + bias).

    It begins with the probabilities as they are.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.zeros(1, 1))
        self.bias = nn.Parameter(torch.zeros(1, n_classes))

    def forward(self, p: Shaped[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Logits."""
        return log_probabilities(p) * self.log_temperature.exp() + self.bias


class Prior(nn.Module):
    """How frequent each class is, whatever the input: what is left of a network where there is no x.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, n_classes))

    def forward(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B K"]:
        """Logits."""
        return self.bias.expand(len(x), -1)


def log_probabilities(p: Shaped[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """Logarithms of probabilities of any number type; 0 counts as LEAST."""
    return p.to(torch.float32).clamp(min=LEAST).log()


class PILinear(nn.Module):
    """First layer of every network on privileged information: a linear layer on one-hot codes and numbers.

    The same function as `nn.Linear` on the concatenation of the one-hot vectors of all code columns and the numbers,
    initialised as that layer would be (Glorot uniform on its full width), without ever building a one-hot vector: the
    cost of a step does not grow with the number of categories, apart from the dense gradient of `table`, which
    `sparse=True` avoids.

    Parameters
    ----------
    cardinalities : sequence of int
        Number of categories of each code column; may be empty.
    n_numbers : int
        Number of numeric columns; may be 0. With nothing at all the layer returns its bias.
    width : int
        Output width.
    sparse : bool
        Give `table` sparse gradients, for very many categories and an optimizer that takes them.
    """

    offsets: Tensor
    sizes: Tensor

    def __init__(self, cardinalities: Sequence[int], n_numbers: int, width: int, *, sparse: bool = False) -> None:
        super().__init__()
        sizes = torch.tensor(list(cardinalities), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", sizes.cumsum(0) - sizes, persistent=False)
        self.n_categories, self.n_numbers, self.width, self.sparse = int(sizes.sum()), n_numbers, width, sparse
        self.table = nn.Parameter(torch.empty(self.n_categories, width))
        self.dense = nn.Parameter(torch.empty(n_numbers, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot uniform on the width of the one-hot layer this stands for; zero bias."""
        bound = math.sqrt(6.0 / (self.n_categories + self.n_numbers + self.width))
        with torch.no_grad():
            self.table.uniform_(-bound, bound)
            self.dense.uniform_(-bound, bound)
            self.bias.zero_()

    def forward(self, codes: Int[Tensor, "B C"], numbers: Float[Tensor, "B M"]) -> Float[Tensor, "B W"]:
        """The layer's output; a code that is no category of its column (-1: unknown) contributes nothing."""
        out = torch.addmm(self.bias, numbers.to(self.dense.dtype), self.dense)
        if self.n_categories == 0:
            return out + self.table.sum()  # zero; an empty table stays in the graph, as several processes ask for
        known = (codes >= 0) & (codes < self.sizes)
        index = torch.where(known, codes + self.offsets, 0)
        return out + F.embedding_bag(
            index, self.table, mode="sum", per_sample_weights=known.to(self.table.dtype), sparse=self.sparse
        )

    def extra_repr(self) -> str:
        """Sizes, for printing."""
        return f"categories={self.sizes.tolist()}, numbers={self.n_numbers}, width={self.width}, sparse={self.sparse}"


NETWORKS: dict[str, type[Network]] = {
    "mlp": MLP,
    "small_cnn": SmallCNN,
    "wrn_28_10": WideResNet,
    "resnet50": ResNet50,
    "resnet34": ResNet34,
    "preact_resnet18": PreActResNet18,
}
WITHOUT_X: dict[str, type[nn.Module]] = {"given": Recalibrated, "prior": Prior}  # in the place of a network of x
LEAST = 1e-8  # of a probability that is given
LIBRARIES = ("torchvision", "timm")  # further networks, by the name they have there: "timm:vit_tiny_patch16_224"
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
STATISTICS: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "cifar10": ([255 * mean for mean in CIFAR10_MEAN], [255 * std for std in CIFAR10_STD]),
    "unit": ([0.0] * 3, [255.0] * 3),
}


def network_for(in_shape: Sequence[int]) -> str:
    """Name of the network for inputs of this shape: "small_cnn" for images (C, H, W), "mlp" for everything else."""
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
    """The network called `name`, for inputs of shape `in_shape` (without the batch dimension).

    Parameters
    ----------
    name : str
        A key of NETWORKS, or "torchvision:NAME" or "timm:NAME" for a network of these libraries; a key of WITHOUT_X
        for inputs that are probabilities, or that there are none of.
    in_shape : sequence of int
        (D,) for vectors, (C, H, W) for images.
    n_classes : int
        Number of classes.
    standardize : Standardize, optional
        Applied to the input first.
    statistics : "cifar10" or "unit", optional
        Standardise images of bytes by fixed numbers instead: by mean and standard deviation of CIFAR-10, as the paper's
        code base does on CIFAR-10 and CIFAR-100, or to [0, 1], as it does on ImageNet.
    **options
        Further arguments of the network, such as `width`.
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
        build = _from_torchvision if library == "torchvision" else _from_timm
        body, n_features = build(name, inner, in_shape, options)
        return Backbone(body, n_features, n_classes, standardize)
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


# --- networks of other libraries ---


def _from_torchvision(name: str, inner: str, in_shape: Sequence[int], options: dict[str, Any]) -> tuple[nn.Module, int]:
    """A network of torchvision without its last linear layer, and that layer's width."""
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
    """A network of timm without its classifier, and the width of what it then returns."""
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
    """A network made by a library, which is imported only when it is asked for: it may not fit the torch there is."""
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
            f"{library} cannot build '{inner}' ({error}); `{module}.list_models()` names what there is."
        ) from error
    return body
