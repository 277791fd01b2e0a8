"""PiDualLoss: Pi-DUAL in any PyTorch training loop."""

import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from ..data.pi.random_pi import random_pi as draw_random_pi
from ..errors import DataWarning, UsageError
from ..learn.batch import PI, Spec, in_full_precision
from ..learn.methods.pi_dual import NoiseAndGate
from ..options import Count, at_least, check_values, one_of

IGNORED = -100  # the label that cross_entropy leaves out
SURE_ROWS, FAR, WIDE, NARROW = 32, 3.0, 10.0, 0.01  # rows, mean and deviation by which numbers are not standardised


class PiDualLoss(NoiseAndGate):
    """Pi-DUAL as the loss of a training loop of your own, in place of cross-entropy; predict with your network alone.

    The same equation as `PiDual`. The noise and gate networks are parameters of the loss: give them to the optimizer
    with those of your network (the paper does not decay them on CIFAR), and save them if you mean to go on training.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    codes : sequence of int
        Number of categories of each categorical column of PI, such as [n_annotators].
    numbers : int
        How many numeric columns PI has; give them with mean 0 and standard deviation 1.
    random_pi : int
        Length of the random PI of each row, which is drawn from its index; 0 for none. The paper tunes it over 4, 8,
        12 and 16. It must be long enough for the noise network to memorise what PI does not explain.
    n_rows : int, optional
        Number of rows trained on: an index that is not below it is refused.
    width : int
        Units of each layer of the noise and the gate network.
    depth : int
        Their layers; the first one is shared.
    gate_bias : float
        Initial bias of the gate: 0 begins with a gate near 1/2, -2 near 0.1.
    seed : int
        Seed of the random PI. It is saved with the weights.
    reduction : "mean" or "none"
        Whether `forward` returns the mean of the losses, or that of each row.

    See Also
    --------
    PiDual : The same as a method, which `PiDualClassifier` and `fit_table` train.

    References
    ----------
    Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
    2310.06600.

    Examples
    --------
    One step of a loop; a batch gives the rows of `x`, `y` and of each part of `pi`.

    >>> import torch
    >>> from pidual import PiDualLoss, make_crowd
    >>> crowd = make_crowd(100, answers_per_item=1)
    >>> x, y = torch.tensor(crowd.x), torch.tensor(crowd.frame["label"].to_numpy())
    >>> who = torch.tensor(crowd.frame["annotator"].cat.codes.to_numpy())
    >>> pi = {"codes": who, "index": torch.arange(100)}
    >>> f, loss = torch.nn.Linear(10, 4), PiDualLoss(n_classes=4, codes=[30], n_rows=100)
    >>> loss(f(x), y, **pi).backward()  # then a step of an optimizer of the parameters of both
    >>> loss.gate(**pi).shape
    torch.Size([100])
    """

    seed: Tensor

    def __init__(
        self,
        n_classes: int,
        *,
        codes: Sequence[int] = (),
        numbers: int = 0,
        random_pi: int = 8,
        n_rows: Annotated[int | None, at_least(1)] = None,
        width: Count = 1024,
        depth: Annotated[int, at_least(2)] = 3,
        gate_bias: float = 0.0,
        seed: int = 0,
        reduction: Annotated[str, one_of("mean", "none")] = "mean",
    ):
        super().__init__()
        check_values(PiDualLoss, {name: value for name, value in locals().items() if name != "codes"})
        if not isinstance(codes, Sequence) or not all(isinstance(size, int) and size > 0 for size in codes):
            raise UsageError(f"codes must be a list of the sizes of its columns, such as [12] people, not {codes!r}.")
        self.n_classes, self.numbers, self.random_pi, self.n_rows = n_classes, numbers, random_pi, n_rows
        self.reduction, self._warned = reduction, False
        self.register_buffer("seed", torch.tensor(seed))  # so that weights that are read get the random PI they know
        self.make_networks(Spec(n_rows or 0, n_classes, tuple(codes), numbers), width, depth, gate_bias, sparse=False)

    def forward(
        self,
        logits: Tensor,
        y: Int[Tensor, " B"],
        *,
        codes: Tensor | None = None,
        numbers: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Tensor:
        """Return the cross-entropy of the given labels y under f's logits joined with PI.

        Parameters
        ----------
        logits : tensor (B, n_classes)
            What your network f says about the inputs.
        y : int tensor (B,)
            Given labels; rows with -100 are left out of the mean, as in cross_entropy. If all are, the loss and its
            gradient are 0.
        codes : int tensor (B, C), or (B,) for a single column
            Categories from 0; -1 where not known.
        numbers : tensor (B, M), or (B,) for a single column
            Numeric columns.
        index : int tensor (B,)
            Position of each row in the training set, the same in every epoch; for the random PI.
        """
        if logits.ndim != 2 or logits.shape[1] != self.n_classes:
            raise UsageError(f"The logits must have shape (rows, {self.n_classes}), not {tuple(logits.shape)}.")
        h, _ = self.join(logits, self.encode(len(logits), codes, numbers, index))
        h = in_full_precision(h)
        if self.reduction == "none" or y.is_floating_point():
            return F.cross_entropy(h, y, reduction=self.reduction)
        return F.cross_entropy(h, y, reduction="sum") / (y != IGNORED).sum().clamp(min=1)

    @torch.no_grad()
    def gate(
        self, *, codes: Tensor | None = None, numbers: Tensor | None = None, index: Tensor | None = None
    ) -> Float[Tensor, " B"]:
        """Return the gate of each row, in [0, 1]: high where PI explains its label, which then looks wrong."""
        given = next((column for column in (codes, numbers, index) if column is not None), None)
        return self.explain(self.encode(0 if given is None else len(given), codes, numbers, index))[0][:, 0]

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # random PI is drawn in NumPy
    def encode(self, n: int, codes: Tensor | None, numbers: Tensor | None, index: Tensor | None) -> PI:
        """Return the PI of n rows with their random PI, on the device of the networks."""
        device, sizes = self.shared.bias.device, self.shared.sizes
        codes = _columns("codes", codes, n, len(sizes), torch.int64).to(device)
        wrong = (codes < -1) | (codes >= sizes)
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            raise UsageError(
                f"codes, row {row} of the batch, column {column}: {int(codes[row, column])} is not a category; they "
                f"are 0 to {int(sizes[column]) - 1}, or -1 where not known."
            )
        numbers = _columns("numbers", numbers, n, self.numbers, self.shared.bias.dtype).to(device)
        self._check_numbers(numbers)
        if not self.random_pi:
            return PI(codes, numbers)
        if index is None:
            raise UsageError(f"index is missing: random_pi={self.random_pi} needs each row's position among all rows.")
        rows = _columns("index", index, n, 1, torch.int64)[:, 0].cpu().numpy()
        if len(rows) and (rows.min() < 0 or rows.max() >= (self.n_rows or rows.max() + 1)):
            raise UsageError(
                f"index has values from {rows.min()} to {rows.max()}, and rows count from 0 to n_rows - 1"
                + ("." if self.n_rows is None else f" = {self.n_rows - 1}.")
            )
        drawn = torch.from_numpy(draw_random_pi(int(self.seed), rows, self.random_pi))
        return PI(codes, torch.cat([numbers, drawn.to(numbers)], 1))

    def _check_numbers(self, numbers: Tensor) -> None:
        """Refuse numbers that are not finite, and warn once of a batch that is surely not standardised."""
        if not numbers.isfinite().all():
            row, column = (~numbers.isfinite()).nonzero()[0].tolist()
            raise UsageError(
                f"numbers, row {row} of the batch, column {column}: {float(numbers[row, column])} is not a finite "
                "number; give 0, the mean, where it is not known."
            )
        if self._warned or len(numbers) < SURE_ROWS or not numbers.shape[1]:
            return
        deviation, mean = torch.std_mean(numbers.detach().float(), 0)
        far = (mean.abs() > FAR) | (deviation > WIDE) | ((deviation > 0) & (deviation < NARROW))
        if far.any():
            self._warned, column = True, int(far.nonzero()[0])
            warnings.warn(
                f"numbers, column {column}: this batch has mean {mean[column]:.3g} and standard deviation "
                f"{deviation[column]:.3g}; bring each column to mean 0 and standard deviation 1 over all rows (times: "
                "their logarithm).",
                DataWarning,
                stacklevel=2,
            )


def _columns(name: str, values: Any, n: int, width: int, dtype: torch.dtype) -> Tensor:
    """Return values as a tensor (n, width)."""
    if values is None and not width:
        return torch.zeros(n, 0, dtype=dtype)
    if values is None:
        raise UsageError(f"{name} is missing: the loss was made for {width} of them per row.")
    found = torch.as_tensor(values)
    found = found[:, None] if found.ndim == 1 and width == 1 else found
    if found.shape != (n, width) or (not dtype.is_floating_point and found.is_floating_point()):
        kind = "floating-point" if dtype.is_floating_point else "whole"
        raise UsageError(
            f"{name} must be {kind} numbers of shape ({n}, {width}) for this batch, not {found.dtype} of shape "
            f"{tuple(found.shape)}."
        )
    return found.to(dtype)
