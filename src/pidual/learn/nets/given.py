"""What stands for a network where there is no x to read: given probabilities, or a class prior."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

LEAST = 1e-8  # of a probability that is given


class Recalibrated(nn.Module):
    """Probabilities that are given, as sure of themselves as answers ask for: softmax(temperature * log p + bias).

    It begins with the probabilities as they are.
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.zeros(1, 1))
        self.bias = nn.Parameter(torch.zeros(1, n_classes))

    def forward(self, p: Shaped[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the logits."""
        return p.to(torch.float32).clamp(min=LEAST).log() * self.log_temperature.exp() + self.bias


class Prior(nn.Module):
    """How frequent each class is, whatever the input: what is left of a network where there is no x."""

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, n_classes))

    def forward(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B K"]:
        """Return the logits."""
        return self.bias.expand(len(x), -1)
