"""Epochs of a run, and how far something has grown in them."""

import math


def epoch_after(share: float, epochs: int) -> int:
    """The epoch, from 0, that begins when this share of the run is over."""
    return math.floor(share * epochs + 1e-6)


def growth(epoch: float, start: float, length: float) -> float:
    """From 0 at `start` linearly to 1 in `length` epochs, but at least one, and 1 after that."""
    return min(1.0, max(0.0, (epoch - start) / max(1.0, length)))
