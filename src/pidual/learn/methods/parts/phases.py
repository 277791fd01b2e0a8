"""What each epoch of a run is for, and how far something has grown in it."""

import math
from collections.abc import Mapping


def epoch_after(share: float, epochs: int) -> int:
    """The epoch, from 0, that begins when this share of the run is over."""
    return math.floor(share * epochs + 1e-6)


def growth(epoch: float, start: float, length: float) -> float:
    """From 0 at `start` linearly to 1 in `length` epochs, but at least one, and 1 after that."""
    return min(1.0, max(0.0, (epoch - start) / max(1.0, length)))


class Phases:
    """Phases one after the other, each a share of the run; what is left is the last one's.

    Each has at least one epoch, unless its share is 0. In a run of fewer epochs than phases, only the first and the
    last take place.

    Parameters
    ----------
    shares : mapping of str to float
        Names of all phases but the last, and their shares.
    last : str
    epochs : int
        Of the run.
    """

    def __init__(self, shares: Mapping[str, float], last: str, epochs: int):
        lengths = {name: max(1, int(share * epochs + 0.5)) if share else 0 for name, share in shares.items()}
        if epochs <= sum(length > 0 for length in lengths.values()):
            lengths = {name: length if name == next(iter(shares)) else 0 for name, length in lengths.items()}
        self.lengths, self.last = lengths, last

    def at(self, epoch: int) -> str:
        """The phase of an epoch."""
        for name, length in self.lengths.items():
            if epoch < length:
                return name
            epoch -= length
        return self.last

    def begins(self, epoch: int) -> bool:
        """Whether another phase begins in this epoch; the first one is there from the start."""
        return epoch > 0 and self.at(epoch) != self.at(epoch - 1)
