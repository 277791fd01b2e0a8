"""What `fit` is given, checked and brought into the form that networks take: X, y, weights, a module."""

import hashlib
import numbers
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight
from torch import nn

from ..errors import DataError, UsageError
from ..errors.messages import quoted


def as_input(X: NDArray[Any], *, allow_nan: bool = False) -> NDArray[Any]:
    """Return X as the networks take it: uint8 as it is, everything else as float32."""
    with np.errstate(over="ignore"):
        x = X if X.dtype == np.uint8 else X.astype(np.float32, copy=False)
    if x.dtype != np.uint8 and (np.isinf(x) if allow_nan else ~np.isfinite(x)).any():
        raise DataError("X has values too large for float32 or infinity; scale it first.")
    return np.ascontiguousarray(x) if x.flags.writeable else x.copy()


def distinct_rows(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the different rows of x in the order they come in, and for every row the number of the one it equals."""
    flat = x.reshape(len(x), -1)
    digests: pd.Series[Any] = pd.Series([hashlib.blake2b(row.data, digest_size=16).digest() for row in flat])
    items = np.asarray(digests.factorize()[0], np.int64)
    first = np.flatnonzero(~digests.duplicated().to_numpy())
    return (x if len(first) == len(x) else x[first]), items


def check_network(network: nn.Module, x: torch.Tensor, n_classes: int) -> None:
    """Raise a UsageError unless the network answers x with logits of the right shape."""
    network.eval()
    try:
        with torch.no_grad():
            logits = network(x)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"The module cannot read X, which it gets as {str(x.dtype).removeprefix('torch.')} of shape "
            f"(B, {', '.join(map(str, x.shape[1:]))}): {error}"
        ) from error
    network.train()
    if not isinstance(logits, torch.Tensor):
        raise UsageError(f"The module must return a tensor of logits, not {type(logits).__name__}.")
    if logits.shape != (len(x), n_classes):
        raise UsageError(
            f"The module returns shape {tuple(logits.shape)} to {len(x)} inputs; it must give one logit for each "
            f"of the {n_classes} classes, shape {(len(x), n_classes)}."
        )
    if (logits >= 0).all() and torch.allclose(logits.sum(1), torch.ones(()).to(logits), atol=1e-3):
        raise UsageError("The module returns probabilities; it must return logits: remove its softmax.")


def row_index(X: Any, y: Any) -> pd.Index | None:
    """Return the index of X, or else of y, where they are from pandas."""
    for rows in (X, y):
        if isinstance(rows, pd.DataFrame | pd.Series):
            return rows.index
    return None


def draw_seed(random_state: Any) -> int:
    """Return the seed of a fit: an int as it is, else drawn from the generator."""
    generator = check_random_state(random_state)
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(generator.randint(2**31 - 1))


def check_weight(sample_weight: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    """Scale weights to a mean of 1 over the rows that have one above 0."""
    weight = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    if not (weight > 0).any():
        raise DataError("sample_weight is 0 for every row, so there is nothing to learn from.")
    return np.asarray(weight / weight[weight > 0].mean())


def check_two_classes(codes: NDArray[np.integer[Any]], classes: NDArray[Any]) -> None:
    """Refuse labels that leave nothing to tell apart."""
    if len(found := np.unique(codes)) < 2:
        of = "" if len(classes) == 1 else ", where sample_weight is not 0"
        raise DataError(
            f"y has one class only ({quoted(classes[found[0]])}){of}; a classifier needs at least 2 classes."
        )


def check_complete(y: Any) -> None:
    """Raise for the first label that is missing."""
    labels = np.asarray(y)
    missing = np.flatnonzero(pd.isna(labels))
    if labels.ndim == 1 and len(missing):
        more = f" and in {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"y is missing in row {missing[0]} (counted from 0){more}; leave such rows out.")
