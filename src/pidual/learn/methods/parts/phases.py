"""Epochs of a run, and how far something has grown in them."""

import math


def epoch_after(share: float, epochs: int) -> int:
    """Return the epoch, from 0, that begins when this share of the run is over."""
    return math.floor(share * epochs + 1e-6)


def growth(epoch: float, start: float, length: float) -> float:
    """Return a number that grows from 0 at `start` to 1 in `length` epochs, at least one, and stays 1."""
    return min(1.0, max(0.0, (epoch - start) / max(1.0, length)))
