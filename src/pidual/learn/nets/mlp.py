"""Fully connected networks."""

import itertools

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from .base import Network, Standardize, glorot_linear


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
        width: int = 256,
        depth: int = 2,
        dropout: float = 0.0,
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
