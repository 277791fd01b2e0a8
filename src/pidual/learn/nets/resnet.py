"""Residual networks: ResNet-50 for large images, ResNet-34 and PreAct ResNet-18 for small ones."""

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from .base import Network, Standardize
from .layers import conv, pooled


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride), 1 x 1 convolutions, each with batch normalisation, plus shortcut."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = conv(in_channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, out, 1), nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out:
            self.shortcut = nn.Sequential(conv(in_channels, out, 1, stride), nn.BatchNorm2d(out))

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
        stem_parts = (conv(in_channels, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        self.stem = nn.Sequential(*stem_parts, nn.MaxPool2d(3, 2, padding=1))
        channels, blocks = 64, []
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)

    def reset_head(self) -> None:
        """New weights of the head, as the network begins with."""
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Average over the image of the last block."""
        return pooled(self.blocks(self.stem(self.prepare(x))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last three blocks."""
        return list(self.blocks)[-3:]


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalisation, plus shortcut (1 x 1 convolution and BN where shapes differ)."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(in_channels, out_channels, 3, stride), nn.BatchNorm2d(out_channels)
        self.conv2, self.bn2 = conv(out_channels, out_channels, 3), nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(conv(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class PreActBlock(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv plus shortcut from after the first BN-ReLU, with a 1 x 1 conv where shapes differ."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(in_channels), conv(in_channels, out_channels, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(out_channels), conv(out_channels, out_channels, 3)
        same = stride == 1 and in_channels == out_channels
        self.shortcut = nn.Identity() if same else conv(in_channels, out_channels, 1, stride)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C2 H2 W2"]:
        active = F.relu(self.bn1(x))
        result: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active)))) + self.shortcut(active)
        return result


class SmallImageResNet(Network):
    """Stem of one 3 x 3 convolution with BN-ReLU and no pooling; four stages of 64, 128, 256 and 512 channels.

    Parameters
    ----------
    n_classes, in_channels : int
        Classes; colour channels.
    standardize : Standardize, optional
        Applied to the input first.
    """

    block: type[BasicBlock] | type[PreActBlock]
    counts: tuple[int, int, int, int]  # blocks in each stage

    def __init__(self, n_classes: int, in_channels: int = 3, *, standardize: Standardize | None = None) -> None:
        super().__init__(512, n_classes, standardize)
        self.stem = nn.Sequential(conv(in_channels, 64, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
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
        return pooled(self.blocks(self.stem(self.prepare(x))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The blocks of 512 channels."""
        return list(self.blocks)[-self.counts[-1] :]


class ResNet34(SmallImageResNet):
    """ResNet-34 with the stem for CIFAR: 3 x 3 with stride 1, no max pooling; as ELR, CORES and PES use it."""

    block, counts = BasicBlock, (3, 4, 6, 3)


class PreActResNet18(SmallImageResNet):
    """PreAct ResNet-18 as DivideMix, ELR+ and PES(semi) use it.

    The stem ends in BN-ReLU, no BN-ReLU comes after the last block, and shortcuts have no batch normalisation.
    """

    block, counts = PreActBlock, (2, 2, 2, 2)
