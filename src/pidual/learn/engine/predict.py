"""A trained method applied to rows: chunk by chunk, each input once however many annotations it has."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ..batch import Batch, Lazy, Rows
from ..methods.base import Method
from ..nets import MLP

CHUNK = 1024
OWNERS: tuple[Any, ...] = (torch, Tensor, F)
PRODUCTS = {
    getattr(owner, name)
    for owner in OWNERS
    for name in ("matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear")
    if hasattr(owner, name)
}


@dataclass
class Scored:
    """Predictions for a chunk of items."""

    rows: NDArray[np.int64]  # (R,), positions of the annotations of these items, grouped by item
    items: NDArray[np.int64]  # (B,), the items, numbered as in `Rows.groups`
    item: NDArray[np.int64]  # (R,), which of these items each annotation is about
    input: NDArray[np.int64]  # (R,), which of the inputs each annotation is about; rows of an item may have several
    # (U, K), class probabilities of the inputs, by networks that have not seen them where there are such
    probabilities: NDArray[np.float32]
    columns: dict[str, NDArray[np.generic]]  # (R,), what else the method says about each annotation

    def of_items(self) -> NDArray[np.float64]:
        """Return the class probabilities of the items (B, K): the mean over their inputs."""
        pairs = np.unique(self.item * len(self.probabilities) + self.input)
        item, chosen = np.divmod(pairs, len(self.probabilities))
        first = np.flatnonzero(np.diff(item, prepend=-1))
        if len(first) == len(item):  # one input each
            return self.probabilities[chosen].astype(np.float64)
        sums: NDArray[np.float64] = np.add.reduceat(self.probabilities[chosen].astype(np.float64), first)
        return sums / np.diff(first, append=len(item))[:, None]


def predict_logits(method: Method, rows: Rows, x_rows: Tensor, fabric: Fabric) -> Tensor:
    """Return the logits of the given rows of x, in evaluation mode, on the CPU in float32."""
    return _logits_of(method, rows.take_x(x_rows), fabric)


def _logits_of(method: Method, x: Tensor, fabric: Fabric, fold: Tensor | None = None) -> Tensor:
    """Return the logits of these inputs, in the same way; in float64 where the method computes so.

    With `fold`, those of networks that have not seen the items of these folds, where there are such.
    """
    was_training = method.training
    if was_training:
        method.eval()
    with torch.inference_mode(), fabric.autocast():
        x = fabric.to_device(x)
        logits = (method.logits(x) if fold is None else method.unseen_logits(x, fabric.to_device(fold))).cpu()
    if was_training:
        method.train()
    return logits if logits.dtype == torch.float64 else logits.float()


def _on_device(method: Method, fabric: Fabric) -> Method:
    """Move the method to the device of a Fabric, if it is elsewhere: to ask all of its parts takes long."""
    first = next(method.parameters(), None)
    if first is not None and first.device == fabric.device:
        return method
    moved: Method = fabric.to_device(method)
    return moved


def evaluate(method: Method, rows: Rows, fabric: Fabric) -> tuple[float, float]:
    """Return the accuracy and cross-entropy against the given labels; the work is shared among the processes."""
    sums = torch.zeros(3, dtype=torch.float64)
    for index in torch.arange(fabric.global_rank, len(rows), fabric.world_size).split(CHUNK):
        x_rows, where = rows.x_row[index].unique(return_inverse=True)
        logits = predict_logits(method, rows, x_rows, fabric)[where]
        y = rows.y_noisy[index]
        loss = F.cross_entropy(logits, y, reduction="sum")
        sums += torch.stack(
            [(logits.argmax(1) == y).sum().double(), loss.double(), torch.tensor(len(y), dtype=torch.float64)]
        )
    correct, loss, count = fabric.all_reduce(sums, reduce_op="sum").tolist()
    return correct / count, loss / count


def predict_rows(method: Method, rows: Rows, fabric: Fabric) -> Tensor:
    """Return the logits of every row."""
    return torch.cat([*_chunks_of_logits(method, rows, fabric)])


def predict_labels(method: Method, rows: Rows, fabric: Fabric) -> NDArray[np.int64]:
    """Return the predicted class of every row."""
    return torch.cat([logits.argmax(1) for logits in _chunks_of_logits(method, rows, fabric)]).numpy()


def _chunks_of_logits(method: Method, rows: Rows, fabric: Fabric) -> Iterator[Tensor]:
    """Yield the logits of all rows, a chunk of them at a time."""
    for index in torch.arange(len(rows)).split(CHUNK):
        yield predict_logits(method, rows, rows.x_row[index], fabric)


def predict_probabilities(method: Method, x: Tensor | Lazy, fabric: Fabric) -> Iterator[NDArray[np.float64]]:
    """Yield class probabilities of every row of x, chunk by chunk; the method is moved to the Fabric's device.

    Our own networks on vectors compute in double: in single precision a row's last digits depend on the rows around it.
    """
    method = _on_device(method, fabric)
    in_double = isinstance(method.f, MLP) and fabric.device.type in ("cpu", "cuda")
    for start in range(0, len(x), CHUNK):
        stop = min(start + CHUNK, len(x))
        part = x[start:stop] if isinstance(x, Tensor) else torch.from_numpy(x.take(np.arange(start, stop)))
        with _InDouble() if in_double else contextlib.nullcontext():
            logits = _logits_of(method, part.double() if in_double else part, fabric)
        yield logits.double().softmax(1).numpy()


class _InDouble(TorchFunctionMode):
    """Computes products of matrices in double, whatever their numbers; what is made of them stays double."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, a product with its tensors in double."""
        if func in PRODUCTS:
            args = [value.double() if isinstance(value, Tensor) else value for value in args]
        return func(*args, **(kwargs or {}))


def score_rows(
    method: Method, rows: Rows, fabric: Fabric, trained: NDArray[np.bool_] | None = None
) -> Iterator[Scored]:
    """Yield predictions for every annotation, grouped by item, a chunk of items at a time.

    `trained` says which rows the method was trained on, in this order (all by default): it may remember them.
    """
    trained = np.ones(len(rows), bool) if trained is None else trained
    position = torch.from_numpy(np.where(trained, np.cumsum(trained) - 1, -1))
    for chunk in torch.arange(len(rows.groups)).split(CHUNK):
        index, item = rows.groups.members(chunk)
        x_rows, where = rows.x_row[index].unique(return_inverse=True)
        fold = torch.zeros_like(x_rows).scatter_(0, where, rows.fold[index])  # of equal inputs it is the same
        logits = _logits_of(method, rows.take_x(x_rows), fabric, fold)
        columns = [
            per_row(method, rows, part, position[part], logits[inputs], fabric)
            for part, inputs in zip(index.split(8 * CHUNK), where.split(8 * CHUNK), strict=True)
        ]
        yield Scored(
            index.numpy(),
            chunk.numpy(),
            item.numpy(),
            where.numpy(),
            logits.softmax(1).numpy(),
            {name: torch.cat([part[name] for part in columns]).numpy() for name in columns[0]},
        )


def per_row(
    method: Method, rows: Rows, index: Tensor, position: Tensor, logits: Tensor, fabric: Fabric
) -> dict[str, Tensor]:
    """Return the method's own values for these annotations, whose places among the training rows are `position`."""
    random = rows.random_pi(index, method.random_pi) if method.random_pi else None
    batch = fabric.to_device(rows.select(index, random=random, with_x=False)._replace(index=position))
    with torch.inference_mode():
        values = method.per_row(batch, fabric.to_device(logits))
    return {name: value.cpu() for name, value in values.items()}


def scan_rows(
    method: Method,
    function: Callable[[Batch], Tensor],
    rows: Rows,
    fabric: Fabric,
    *,
    with_x: bool = True,
    augment: Callable[[Tensor, int], tuple[Tensor, ...]] | None = None,
) -> Tensor:
    """Evaluate a function of the batch on all rows in order, by item if the method is, without gradient.

    `augment` makes the views of a chunk of inputs, given the position of its first row.
    """
    was_training = method.training
    method.eval()
    parts, size = [], CHUNK if with_x else 64 * CHUNK
    with torch.no_grad(), fabric.autocast():
        for units in torch.arange(len(rows.groups) if method.by_item else len(rows)).split(size):
            index, item = rows.groups.members(units) if method.by_item else (units, None)
            random = rows.random_pi(index, method.random_pi) if method.random_pi else None
            batch = fabric.to_device(rows.select(index, item=item, random=random, with_x=with_x))
            if augment is not None:
                batch = batch._replace(views=augment(batch.x, int(index[0])))
            parts.append(function(batch).cpu())
    method.train(was_training)
    return torch.cat(parts)
