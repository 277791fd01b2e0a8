"""The first layer of every network that reads privileged information."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import UsageError

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
