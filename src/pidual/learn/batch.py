"""What one training step sees (Batch), the sizes a method is built from (Spec), and the rows both come from (Rows).

The clean label is not a field of any of them: training cannot leak it. No PI is a PI of zero width, never None.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import DTypeLike
from torch import Tensor
from torch.nn import functional as F

from ..data.pi import EncodedPI
from ..data.pi.random_pi import random_pi

KEPT_RANDOM = 2**24  # numbers of random PI that are kept, 64 MB


class PI(NamedTuple):
    """Encoded privileged information: a code per categorical column (-1: unknown), and numbers."""

    codes: Int[Tensor, "R C"]
    numbers: Float[Tensor, "R M"]


class Batch(NamedTuple):
    """R annotations of B inputs.

    In a batch of annotations every annotation has an input of its own, so that R = B. In a batch of items
    (`Method.by_item`) an item's input is there once, with all of its annotations, one after the other.
    """

    index: Int[Tensor, " R"]  # type: ignore[assignment]  # hides tuple.index; position in the training set, 0 .. n_train - 1
    views: tuple[Tensor, ...]  # the B inputs; more than one where a method asks for several augmented views
    y_noisy: Int[Tensor, " R"]
    a: PI
    weight: Float[Tensor, " R"]  # 1 on average
    item: Int[Tensor, " R"]  # the input that each annotation is about, 0 .. B - 1
    fold: Int[Tensor, " B"]  # of the item that each input belongs to
    truth: Int[Tensor, " B"] | None = None  # class of the item where it is known, else -1; None where none is
    vote: Int[Tensor, " R"] | None = None  # rows with the same number count as one answer; None where none repeats

    @classmethod
    def of_rows(
        cls,
        index: Tensor,
        views: tuple[Tensor, ...],
        y_noisy: Tensor,
        a: PI,
        weight: Tensor,
        fold: Tensor | None = None,
    ) -> "Batch":
        """Make a batch of annotations, each with an input of its own."""
        fold = torch.zeros_like(index) if fold is None else fold
        return cls(index, views, y_noisy, a, weight, torch.arange(len(index), device=index.device), fold)

    @property
    def x(self) -> Tensor:
        """Return the first view."""
        return self.views[0]

    @property
    def starts(self) -> Bool[Tensor, " R"]:
        """Return whether each annotation is the first one of its input."""
        return self.item.diff(prepend=self.item.new_full((1,), -1)) > 0

    def mean(self, losses: Float[Tensor, " R"]) -> Float[Tensor, ""]:
        """Return the weighted mean of a value per annotation, for batches of annotations."""
        return (losses * self.weight).mean()

    def losses(
        self, logits: Float[Tensor, "R K"], targets: Float[Tensor, "R K"] | None = None, *, label_smoothing: float = 0.0
    ) -> Float[Tensor, " R"]:
        """Return the cross-entropy of every given label, or of other targets, in full precision."""
        wanted = self.y_noisy if targets is None else targets
        return F.cross_entropy(in_full_precision(logits), wanted, reduction="none", label_smoothing=label_smoothing)

    def cross_entropy(self, logits: Float[Tensor, "R K"]) -> Float[Tensor, ""]:
        """Return the weighted mean of the cross-entropy of the given labels, for batches of annotations."""
        return self.mean(self.losses(logits))


def in_full_precision(values: Tensor) -> Tensor:
    """Return values of at least 32 bits."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


@dataclass(frozen=True)
class Spec:
    """Sizes a method is built from."""

    n_train: int  # annotations trained on
    n_classes: int  # classes
    cardinalities: tuple[int, ...] = ()  # number of codes of each categorical PI column
    n_numbers: int = 0  # numeric PI columns, without random PI
    epochs: int = 100  # passes over the training set; phases of a method are shares of it
    code_names: tuple[str, ...] = ()  # PI column that each code comes from, where that is known
    number_names: tuple[str, ...] = ()  # the same of each number
    n_items: int = 0  # items trained on; 0 where that is not known

    @property
    def n_annotators(self) -> int:
        """Return the number of annotators with a code of their own; 0 where annotators are not known."""
        return 0 if self.annotator_column is None else self.cardinalities[self.annotator_column]

    @property
    def annotator_column(self) -> int | None:
        """Return which code of PI is the annotator; None where annotators are not known."""
        return self.code_names.index("annotator") if "annotator" in self.code_names else None

    @property
    def pi_dim(self) -> int:
        """Return the width of the PI as a dense vector, without random PI."""
        return sum(self.cardinalities) + self.n_numbers


@runtime_checkable
class Lazy(Protocol):
    """Inputs read when they are needed, such as a large folder of images."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of all inputs together."""

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the inputs of the given rows."""


@runtime_checkable
class LazyCrops(Lazy, Protocol):
    """Images of any size, random parts of which can be read."""

    def crops(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return V random crops of each image (V, len(rows), C, H, W), by draws (V, len(rows), 4) in [0, 1)."""


class Mapped:
    """Rows of a memory map that is only read."""

    def __init__(self, array: np.memmap):
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the array."""
        return self._array.shape

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the given rows."""
        return np.asarray(self._array[rows])


@dataclass(frozen=True)
class Groups:
    """Annotations grouped by item; items are numbered by their codes in ascending order."""

    # (N,), positions of the annotations: those of the first item in their order, those of the second, and so on
    order: Tensor
    starts: Tensor  # (G + 1,), where the annotations of each of the G items begin in `order`, and the end

    @classmethod
    def of(cls, codes: np.ndarray) -> "Groups":
        """Group equal codes."""
        order = np.argsort(codes, kind="stable")
        grouped = codes[order]
        first = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]])[: len(codes)])
        return cls(torch.from_numpy(order), torch.from_numpy(np.append(first, len(codes))))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def first(self, groups: Tensor) -> Tensor:
        """Return the position of the first annotation of each of these items."""
        return self.order.index_select(0, self.starts.index_select(0, groups))

    def members(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of all annotations of these items, and which of the items each is about."""
        starts = self.starts.index_select(0, groups)
        counts = self.starts.index_select(0, groups + 1) - starts
        which = torch.repeat_interleave(counts)
        shift = starts - (counts.cumsum(0) - counts)  # from a place in the batch to one in `order`
        return self.order.index_select(0, torch.arange(len(which)) + shift.index_select(0, which)), which


@dataclass(frozen=True)
class Rows:
    """Annotations ready for selection by index: the input is stored once, annotations point at it."""

    x: Tensor | Lazy  # one row per input
    x_row: Tensor  # (N,), row of x of each annotation
    y_noisy: Tensor  # (N,), given label
    codes: Tensor  # (N, C), encoded PI
    numbers: Tensor  # (N, M)
    weight: Tensor  # (N,), sample weight, 1 on average
    row_id: Tensor  # (N,), row in the annotation table; random PI is a function of it
    item: Tensor  # (N,), code of the item that each annotation is about
    fold: Tensor  # (N,), fold that this item is in; the same for all of an item's annotations
    pi_seed: int  # seed of the random PI
    # (N,), class of this item where it is known, else -1; the same for all of an item's annotations
    truth: Tensor | None = None
    # (N,), number of the vote that each annotation belongs to: those of one vote, all about one item, count as one
    # answer. None where each is a vote of its own
    vote: Tensor | None = None

    @classmethod
    def build(
        cls,
        x: np.ndarray | Lazy,
        x_row: np.ndarray,
        y_noisy: np.ndarray,
        pi: EncodedPI | None = None,
        weight: np.ndarray | None = None,
        pi_seed: int = 0,
        item: np.ndarray | None = None,
        fold: np.ndarray | None = None,
        truth: np.ndarray | None = None,
        vote: np.ndarray | None = None,
    ) -> "Rows":
        """Make rows of plain arrays; nothing large is copied.

        Without `item`, annotations of one row of x are about one item; without `fold`, all items are in fold 0.
        """
        n = len(x_row)
        rows = as_tensor(x_row, np.int64)
        pi = pi or EncodedPI(np.zeros((n, 0), np.int32), np.zeros((n, 0), np.float32))
        return cls(
            as_storage(x),
            rows,
            as_tensor(y_noisy, np.int64),
            as_tensor(pi.codes, np.int32),
            as_tensor(pi.numbers, np.float32),
            torch.ones(1).expand(n) if weight is None else as_tensor(weight, np.float32),
            torch.arange(n),
            rows if item is None else as_tensor(item, np.int64),
            torch.zeros(1, dtype=torch.int64).expand(n) if fold is None else as_tensor(fold, np.int64),
            pi_seed,
            None if truth is None else as_tensor(truth, np.int64),
            None if vote is None else as_tensor(vote, np.int64),
        )

    def __len__(self) -> int:
        return len(self.x_row)

    def subset(self, rows: np.ndarray | Tensor) -> "Rows":
        """Select these rows alone, in this order."""
        rows = torch.as_tensor(rows)
        columns: dict[str, Any] = {
            name: value[rows] for name, value in vars(self).items() if name != "x" and isinstance(value, Tensor)
        }
        return replace(self, **columns)

    def weighted_by_vote(self) -> "Rows":
        """Let the rows of a vote share its weight; their mean weight stays as it is."""
        if self.vote is None:
            return self
        number, count = self.vote.unique(return_inverse=True, return_counts=True)[1:]
        weight = self.weight / count[number]
        return replace(self, weight=weight * (self.weight.mean() / weight.mean()))

    def take_x(self, x_rows: Tensor) -> Tensor:
        """Return the inputs of the given rows of x."""
        if isinstance(self.x, Tensor):
            return self.x.index_select(0, x_rows)
        return torch.from_numpy(self.x.take(x_rows.numpy()))

    def take_crops(self, x_rows: Tensor, draws: Tensor) -> tuple[Tensor, ...]:
        """Return random crops of the given rows of x, which must be LazyCrops: as many as there are draws (V, B, 4)."""
        assert isinstance(self.x, LazyCrops)
        return tuple(torch.from_numpy(self.x.crops(x_rows.numpy(), draws.numpy())))

    def random_pi(self, index: Tensor, length: int) -> Tensor:
        """Return random PI of the rows at these positions; of few rows it is worked out once, for all."""
        if len(self) * length > KEPT_RANDOM:
            return torch.from_numpy(random_pi(self.pi_seed, self.row_id[index].numpy(), length))
        if length not in self._kept_random:
            self._kept_random[length] = torch.from_numpy(random_pi(self.pi_seed, self.row_id.numpy(), length))
        return self._kept_random[length].index_select(0, index)

    @cached_property
    def _kept_random(self) -> dict[int, Tensor]:
        return {}

    @cached_property
    def groups(self) -> Groups:
        """Return the annotations grouped by item."""
        return Groups.of(self.item.numpy())

    def select(
        self, index: Tensor, *, item: Tensor | None = None, random: Tensor | None = None, with_x: bool = True
    ) -> Batch:
        """Select the rows at these positions as a Batch; `random` is their random PI, appended to the numbers.

        `item` numbers the items that they are about, 0, 1, ... with an item's rows together: a batch of items, which
        has the input of the first row of each. Without it every row has an input of its own.
        """
        first = index if item is None else index[item.diff(prepend=item.new_full((1,), -1)) > 0]
        numbers = self.numbers.index_select(0, index)
        if random is not None:
            numbers = torch.cat([numbers, random], dim=1)
        return Batch(
            index,
            (self.take_x(self.x_row.index_select(0, first)),) if with_x else (),
            self.y_noisy.index_select(0, index),
            PI(self.codes.index_select(0, index), numbers),
            self.weight.index_select(0, index),
            torch.arange(len(index)) if item is None else item,
            self.fold.index_select(0, first),
            None if self.truth is None else self.truth.index_select(0, first),
            None if self.vote is None else self.vote.index_select(0, index),
        )


def as_storage(x: np.ndarray | Lazy) -> Tensor | Lazy:
    """Return x as `Rows` holds it; nothing large is copied."""
    if isinstance(x, np.memmap) and not x.flags.writeable:
        return Mapped(x)
    return as_tensor(x, x.dtype) if isinstance(x, np.ndarray) else x


def as_tensor(array: np.ndarray, dtype: DTypeLike) -> Tensor:
    """Return a tensor that shares the memory of the array, unless that is read-only or runs backwards."""
    array = np.asarray(array, dtype)
    shares = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if shares else array.copy())
