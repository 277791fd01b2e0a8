"""Wide residual networks, WRN-28-10 among them."""

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import UsageError
from .base import Network, Standardize
from .layers import conv, he_normal_, pooled
from .resnet import PreActBlock


class WideBlock(PreActBlock):
    """BN-ReLU-conv-BN-ReLU-conv plus shortcut; where shapes differ the shortcut is a 1 x 1 conv of the raw input."""

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
        Number of layers, which must be 6 n + 4: the convolutions on the main path and the head.
    widen : int
        Factor of the width: the three groups have 16, 32 and 64 times this many channels.
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
        self.stem = conv(in_channels, 16, 3)
        channels, blocks = 16, []
        for out, stride in ((16 * widen, 1), (32 * widen, 2), (64 * widen, 2)):
            for i in range((depth - 4) // 6):
                blocks.append(WideBlock(channels, out, stride if i == 0 else 1))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(channels)

    def reset_head(self) -> None:
        """New weights of the head, as the network begins with."""
        he_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Shaped[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Average over the image after the last BN-ReLU."""
        return pooled(F.relu(self.bn(self.blocks(self.stem(self.prepare(x))))))

    @property
    def last_stage(self) -> list[nn.Module]:
        """The last of the three groups, and the batch normalisation after it."""
        return [*list(self.blocks)[-(len(self.blocks) // 3) :], self.bn]
