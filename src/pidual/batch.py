"""What one training step sees (Batch), the sizes a method is built from (Spec), and the rows both come from (Rows).

The clean label is not a field of any of them: training cannot leak it. No PI is a PI of zero width, never None.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import DTypeLike
from torch import Tensor

from .encode import EncodedPI
from .random_pi import random_pi


class PI(NamedTuple):
    """Encoded privileged information: a code per categorical column (-1: unknown), and numbers."""

    codes: Int[Tensor, "B C"]
    numbers: Float[Tensor, "B M"]


class Batch(NamedTuple):
    """B annotations."""

    index: Int[Tensor, " B"]  # type: ignore[assignment]  # hides tuple.index; position in the training set, 0 .. n_train - 1
    views: tuple[Tensor, ...]  # the inputs; more than one where a method asks for several augmented views
    y_noisy: Int[Tensor, " B"]
    a: PI
    weight: Float[Tensor, " B"]  # 1 on average

    @property
    def x(self) -> Tensor:
        """The first view."""
        return self.views[0]

    def mean(self, losses: Float[Tensor, " B"]) -> Float[Tensor, ""]:
        """Weighted mean of a value per row."""
        return (losses * self.weight).mean()


@dataclass(frozen=True)
class Spec:
    """Sizes a method is built from.

    Parameters
    ----------
    n_train : int
        Annotations trained on.
    n_classes : int
        Classes.
    cardinalities : tuple of int
        Number of codes of each categorical PI column.
    n_numbers : int
        Numeric PI columns, without random PI.
    epochs : int
        Passes over the training set; phases of a method are shares of it.
    code_names, number_names : tuple of str
        PI column that each code and each number comes from, where that is known.
    """

    n_train: int
    n_classes: int
    cardinalities: tuple[int, ...] = ()
    n_numbers: int = 0
    epochs: int = 100
    code_names: tuple[str, ...] = ()
    number_names: tuple[str, ...] = ()

    @property
    def pi_dim(self) -> int:
        """Width of the PI as a dense vector, without random PI."""
        return sum(self.cardinalities) + self.n_numbers


@runtime_checkable
class Lazy(Protocol):
    """Inputs read when they are needed, such as a large folder of images."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all inputs together."""

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The inputs of the given rows."""


@runtime_checkable
class LazyCrops(Lazy, Protocol):
    """Images of any size, random parts of which can be read."""

    def crops(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """V random crops of each of the given images (V, len(rows), C, H, W), by draws (V, len(rows), 4) in [0, 1)."""


@dataclass(frozen=True)
class Rows:
    """Annotations ready for selection by index: the input is stored once, annotations point at it.

    Parameters
    ----------
    x : array, memory map, or lazy inputs
        One row per input.
    x_row : int tensor (N,)
        Row of x of each annotation.
    y_noisy : int tensor (N,)
        Given label.
    codes, numbers : tensors (N, C) and (N, M)
        Encoded PI.
    weight : float tensor (N,)
        Sample weight, 1 on average.
    row_id : int tensor (N,)
        Row in the annotation table; random PI is a function of it.
    pi_seed : int
        Seed of the random PI.
    """

    x: Tensor | Lazy
    x_row: Tensor
    y_noisy: Tensor
    codes: Tensor
    numbers: Tensor
    weight: Tensor
    row_id: Tensor
    pi_seed: int

    @classmethod
    def build(
        cls,
        x: np.ndarray | Lazy,
        x_row: np.ndarray,
        y_noisy: np.ndarray,
        pi: EncodedPI | None = None,
        weight: np.ndarray | None = None,
        pi_seed: int = 0,
    ) -> "Rows":
        """Rows of plain arrays; nothing large is copied."""
        n = len(x_row)
        pi = pi or EncodedPI(np.zeros((n, 0), np.int32), np.zeros((n, 0), np.float32))
        return cls(
            writable(x, x.dtype) if isinstance(x, np.ndarray) else x,
            writable(x_row, np.int64),
            writable(y_noisy, np.int64),
            writable(pi.codes, np.int32),
            writable(pi.numbers, np.float32),
            torch.ones(n) if weight is None else writable(weight, np.float32),
            torch.arange(n),
            pi_seed,
        )

    def __len__(self) -> int:
        return len(self.x_row)

    def subset(self, rows: np.ndarray | Tensor) -> "Rows":
        """These rows alone, in this order."""
        rows = torch.as_tensor(rows)
        names = ("x_row", "y_noisy", "codes", "numbers", "weight", "row_id")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def take_x(self, x_rows: Tensor) -> Tensor:
        """Inputs of the given rows of x."""
        if isinstance(self.x, Tensor):
            return self.x.index_select(0, x_rows)
        return torch.from_numpy(self.x.take(x_rows.numpy()))

    def take_crops(self, x_rows: Tensor, draws: Tensor) -> tuple[Tensor, ...]:
        """Random crops of the given rows of x, which must be LazyCrops: as many as there are draws (V, B, 4)."""
        assert isinstance(self.x, LazyCrops)
        return tuple(torch.from_numpy(self.x.crops(x_rows.numpy(), draws.numpy())))

    def random_pi(self, index: Tensor, length: int) -> Tensor:
        """Random PI of the rows at these positions."""
        return torch.from_numpy(random_pi(self.pi_seed, self.row_id[index].numpy(), length))

    def select(self, index: Tensor, *, random: Tensor | None = None, with_x: bool = True) -> Batch:
        """The rows at these positions as a Batch; `random` is their random PI, appended to the numbers."""
        numbers = self.numbers.index_select(0, index)
        return Batch(
            index,
            (self.take_x(self.x_row.index_select(0, index)),) if with_x else (),
            self.y_noisy.index_select(0, index),
            PI(
                self.codes.index_select(0, index),
                numbers if random is None else torch.cat([numbers, random], dim=1),
            ),
            self.weight.index_select(0, index),
        )

    def spec(self, n_classes: int, cardinalities: Sequence[int] = ()) -> Spec:
        """Sizes of a training set made of these rows."""
        return Spec(len(self), n_classes, tuple(cardinalities), self.numbers.shape[1])


def writable(array: np.ndarray, dtype: DTypeLike) -> Tensor:
    """A tensor that shares the memory of the array, unless that cannot be written to, which torch does not allow."""
    array = np.asarray(array, dtype)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
