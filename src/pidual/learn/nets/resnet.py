"""Convolutional networks: a small one for a CPU; ResNet-50 for large images; ResNet-34, PreAct ResNet-18 and wide ones
for small images.
"""

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import UsageError
from ...options import Count
from .base import Network, Standardize, conv, he_normal_, pooled


def shortcut(in_channels: int, out_channels: int, stride: int, *, norm: bool = True) -> nn.Module:
    """Return what leads past a block: nothing, or a 1 x 1 convolution where shapes differ, with BN if `norm`."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    past = conv(in_channels, out_channels, 1, stride)
    return nn.Sequential(past, nn.BatchNorm2d(out_channels)) if norm else past


class _Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride), 1 x 1 convolutions to 4 x width channels, each with BN, plus shortcut."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(in_channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.shortcut = shortcut(in_channels, 4 * width, stride)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalisation, plus shortcut."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(in_channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.shortcut = shortcut(in_channels, width, stride)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class PreActBlock(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv plus shortcut from after the first BN-ReLU."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(in_channels), conv(in_channels, width, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), conv(width, width, 3)
        self.shortcut = shortcut(in_channels, width, stride, norm=False)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        active = F.relu(self.bn1(x))
        result: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active)))) + self.shortcut(active)
        return result


class WideBlock(PreActBlock):
    """The same, with the shortcut from the raw input."""

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        result: Tensor = out + self.shortcut(x)
        return result


class ResNet(Network):
    """A stem, blocks, and the average over the image."""

    stem: nn.Module
    blocks: nn.Sequential

    def stack(
        self, block: Callable[[int, int, int], nn.Module], channels: int, stages: Iterable[tuple[int, int, int]]
    ) -> None:
        """Add blocks: of each stage, its width, how many, and the stride of the first."""
        blocks = []
        for width, count, stride in stages:
            for i in range(count):
                blocks.append(block(channels, width, stride if i == 0 else 1))
                channels = 4 * width if block is _Bottleneck else width
        self.blocks, self.last_blocks = nn.Sequential(*blocks), count

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Return the average over the image of the last block."""
        return pooled(self.blocks(self.stem(self.prepare(x))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """Return the blocks of the last stage."""
        return list(self.blocks)[-self.last_blocks :]


class ResNet50(ResNet):
    """ResNet-50, version 1.5 (the stride is on the 3 x 3 convolution); truncated He-normal weights."""

    def __init__(self, n_classes: int = 1000, in_channels: int = 3, *, standardize: Standardize | None = None) -> None:
        super().__init__(2048, n_classes, standardize)
        self.reset_head()
        stem_parts = (conv(in_channels, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        self.stem = nn.Sequential(*stem_parts, nn.MaxPool2d(3, 2, padding=1))
        self.stack(_Bottleneck, 64, ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)))

    def reset_head(self) -> None:
        """Draw new weights of the head, as the network begins with."""
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)


class _SmallImageResNet(ResNet):
    """Stem of one 3 x 3 convolution with BN-ReLU and no pooling; four stages of 64, 128, 256 and 512 channels."""

    block: type[BasicBlock] | type[PreActBlock]
    counts: tuple[int, int, int, int]  # blocks in each stage

    def __init__(self, n_classes: int, in_channels: int = 3, *, standardize: Standardize | None = None) -> None:
        super().__init__(512, n_classes, standardize)
        self.stem = nn.Sequential(conv(in_channels, 64, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        self.stack(self.block, 64, zip((64, 128, 256, 512), self.counts, (1, 2, 2, 2), strict=True))

    def reset_head(self) -> None:
        """Draw new weights of the head: torch's own, as the authors of the methods have them."""
        self.head.reset_parameters()


class ResNet34(_SmallImageResNet):
    """ResNet-34 with the stem for CIFAR: 3 x 3 with stride 1, no max pooling; as ELR, CORES and PES use it."""

    block, counts = BasicBlock, (3, 4, 6, 3)


class PreActResNet18(_SmallImageResNet):
    """PreAct ResNet-18 as DivideMix, ELR+ and PES(semi) use it.

    The stem ends in BN-ReLU, no BN-ReLU comes after the last block, and shortcuts have no batch normalisation.
    """

    block, counts = PreActBlock, (2, 2, 2, 2)


class WideResNet(ResNet):
    """Pre-activation wide residual network, WRN-28-10 by default, as in the experiments of the Pi-DUAL paper on CIFAR.

    No dropout, no convolution biases; truncated He-normal weights, also in the head, whose bias starts at zero.

    Parameters
    ----------
    depth : int
        Number of layers, which must be 6 n + 4: the convolutions on the main path and the head.
    widen : int
        Factor of the width: the three groups have 16, 32 and 64 times this many channels.
    """

    def __init__(
        self,
        n_classes: int,
        in_channels: int = 3,
        *,
        depth: Count = 28,
        widen: Count = 10,
        standardize: Standardize | None = None,
    ) -> None:
        if depth < 10 or (depth - 4) % 6:
            raise UsageError(f"WideResNet depth must be 6 n + 4 with n >= 1 (10, 16, 22, 28, ...), not {depth}")
        super().__init__(64 * widen, n_classes, standardize)
        self.reset_head()
        self.stem = conv(in_channels, 16, 3)
        count = (depth - 4) // 6
        self.stack(WideBlock, 16, ((16 * widen, count, 1), (32 * widen, count, 2), (64 * widen, count, 2)))
        self.bn = nn.BatchNorm2d(64 * widen)

    def reset_head(self) -> None:
        """Draw new weights of the head, as the network begins with."""
        he_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Return the average over the image after the last BN-ReLU."""
        return pooled(F.relu(self.bn(self.blocks(self.stem(self.prepare(x))))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """Return the last of the three groups, and the batch normalisation after it."""
        return [*super().last_stage, self.bn]


class SmallCNN(Network):
    """Three convolution blocks for small images on a CPU; works from 8 x 8 to 96 x 96 and beyond.

    Parameters
    ----------
    width : int
        Channels of the first block; the second has twice, the third four times as many.
    convs : int
        Number of 3 x 3 convolutions per block, each with batch normalisation and ReLU. A block ends in 2 x 2 max
        pooling, the last in global average pooling.
    """

    def __init__(
        self,
        n_classes: int,
        in_channels: int = 3,
        *,
        width: Count = 32,
        convs: Count = 1,
        standardize: Standardize | None = None,
    ) -> None:
        super().__init__(4 * width, n_classes, standardize)
        channels, blocks = in_channels, []
        for out in (width, 2 * width, 4 * width):
            layers: list[nn.Module] = []
            for _ in range(convs):
                layers += [conv(channels, out, 3), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
                channels = out
            blocks.append(nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True)))
        self.blocks = nn.Sequential(*blocks)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Return the average over the image of the last block."""
        # channels last: a quarter less CPU time on 32 x 32. The weights stay contiguous, as safetensors needs them.
        return pooled(self.blocks(self.prepare(x).contiguous(memory_format=torch.channels_last)))

    @property
    def last_stage(self) -> list[nn.Module]:
        """Return the last block."""
        return [self.blocks[-1]]
