"""Fully connected networks, the first layer of those that read PI, and what stands for a network without x."""

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import UsageError
from ...options import Count, Share
from .base import Network, Standardize, glorot_linear

SPARSE_ABOVE = 2**24  # numbers of a table beyond which only rows of a batch are updated; the paper's are all


class PILinear(nn.Module):
    """First layer of every network on privileged information: a linear layer on one-hot codes and numbers.

    The same function as `nn.Linear` on the concatenation of the one-hot vectors of all code columns and the numbers,
    initialised as that layer would be (Glorot uniform on its full width), without ever building a one-hot vector: the
    cost of a step does not grow with the number of categories, apart from the dense gradient of `table`, which
    `sparse=True` avoids.

    `cardinalities`: number of categories of each code column; may be empty.
    `n_numbers`: number of numeric columns; may be 0. With nothing at all the layer returns its bias.
    `width`: output width.
    `sparse`: give `table` sparse gradients, for very many categories and an optimizer that takes them; None does so
        where it has more than `SPARSE_ABOVE` numbers.
    """

    offsets: Tensor
    sizes: Tensor

    def __init__(
        self, cardinalities: Sequence[int], n_numbers: int, width: int, *, sparse: bool | None = False
    ) -> None:
        super().__init__()
        sizes = torch.tensor(list(cardinalities), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", sizes.cumsum(0) - sizes, persistent=False)
        self.n_categories, self.n_numbers, self.width = int(sizes.sum()), n_numbers, width
        self.sparse = self.n_categories * width > SPARSE_ABOVE if sparse is None else sparse
        self.table = nn.Parameter(torch.empty(self.n_categories, width))
        self.dense = nn.Parameter(torch.empty(n_numbers, width))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Glorot-uniform weights on the width of the one-hot layer this stands for; zero bias."""
        bound = math.sqrt(6.0 / (self.n_categories + self.n_numbers + self.width))
        with torch.no_grad():
            self.table.uniform_(-bound, bound)
            self.dense.uniform_(-bound, bound)
            self.bias.zero_()

    def forward(self, codes: Int[Tensor, "B C"], numbers: Float[Tensor, "B M"]) -> Float[Tensor, "B W"]:
        """Return the layer's output; a code that is not a category of its column (-1: unknown) contributes nothing."""
        if (codes.shape[1], numbers.shape[1]) != (len(self.sizes), self.n_numbers):
            raise UsageError(
                f"The PI of a row has {codes.shape[1]} codes and {numbers.shape[1]} numbers, and the network was made "
                f"for {len(self.sizes)} and {self.n_numbers}, random PI among them; pass those, or set random_pi=0."
            )
        out = torch.addmm(self.bias, numbers.to(self.dense.dtype), self.dense)
        if self.n_categories == 0:
            return out + self.table.sum()  # zero; an empty table stays in the graph, as several processes ask for
        known = (codes >= 0) & (codes < self.sizes)
        index = torch.where(known, codes + self.offsets, 0)
        return out + F.embedding_bag(
            index, self.table, mode="sum", per_sample_weights=known.to(self.table.dtype), sparse=self.sparse
        )


def mlp(in_dim: int, out_dim: int, *, width: int, depth: int, last_bias: float = 0.0) -> nn.Sequential:
    """Make `depth` hidden layers of `width` ReLU units, then a linear layer; Glorot-uniform weights, zero biases.

    depth=0 is one linear layer; depth=1 is linear, ReLU, linear. The biases of the last one may begin elsewhere.
    """
    hidden = _hidden_layers(in_dim, width, depth)
    last = glorot_linear(width if depth else in_dim, out_dim)
    nn.init.constant_(last.bias, last_bias)
    return nn.Sequential(*hidden, last)


def _hidden_layers(in_dim: int, width: int, depth: int, dropout: float = 0.0) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise([in_dim, *[width] * depth]):
        layers += [glorot_linear(a, b), nn.ReLU()] + ([nn.Dropout(dropout)] if dropout else [])
    return layers


class MLP(Network):
    """Fully connected network for vectors (other shapes are flattened).

    Parameters
    ----------
    width, depth : int
        `depth` hidden layers of `width` units each; depth 0 is a linear classifier.
    dropout : float
        Share of the units of each hidden layer that is dropped at random while training; 0 drops none.
    """

    def __init__(
        self,
        in_dim: int,
        n_classes: int,
        *,
        width: Count = 256,
        depth: int = 2,
        dropout: Share = 0.0,
        standardize: Standardize | None = None,
    ) -> None:
        super().__init__(width if depth else in_dim, n_classes, standardize)
        self.head = glorot_linear(self.n_features, n_classes)
        self.hidden = nn.Sequential(*_hidden_layers(in_dim, width, depth, dropout))

    def features(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B D"]:
        """Return the last hidden layer."""
        hidden: Tensor = self.hidden(self.prepare(x).flatten(1))
        return hidden

    @property
    def last_stage(self) -> list[nn.Module]:
        """Return the last hidden layer; none at depth 0."""
        layers: list[nn.Module] = [layer for layer in self.hidden if isinstance(layer, nn.Linear)]
        return layers[-1:]


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
