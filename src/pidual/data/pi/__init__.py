"""PI as numbers: that of a table's columns (`columns`), and random PI, a function of seed and row (`random_pi`)."""

from .encoder import KINDS, EncodedPI, PIColumn, PIEncoder, guess_kind, quantity

__all__ = ["KINDS", "EncodedPI", "PIColumn", "PIEncoder", "guess_kind", "quantity"]
