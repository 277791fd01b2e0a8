"""Random privileged information: a function of (seed, row id), not a stored matrix.

Pi-DUAL gives every annotation a fixed random vector, so that the noise network can tell apart rows whose other PI is
the same. Here entry j of row i is the inverse normal distribution function of a hash of (seed, i, j): the same
numbers after shuffling, resuming, splitting or on any number of processes, with nothing to store.

The hash is the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) on a counter.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

_MAX_LENGTH = 4096
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def random_pi(seed: int, rows: ArrayLike, length: int) -> NDArray[np.float32]:
    """Draw standard normal vectors of the given row ids.

    `seed`: another seed gives unrelated vectors.
    `rows` (n,): row ids, in any order, repeats allowed.
    `length`: entries per row, at most 4096. A longer vector begins with the shorter one.

    Returns
    -------
    array of float32, shape (n, length)
    """
    if not 0 <= length <= _MAX_LENGTH:
        raise ValueError(f"random PI length must be between 0 and {_MAX_LENGTH}, not {length}")
    ids = np.asarray(rows, dtype=np.uint64)
    key = _scramble(_scramble(np.array([seed % 2**64], dtype=np.uint64)) ^ np.uint64(_GOLDEN))
    counter = np.add.outer(ids * np.uint64(_MAX_LENGTH), np.arange(1, length + 1, dtype=np.uint64))
    bits = _scramble(key + counter * _GOLDEN)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform), dtype=np.float32)


def _scramble(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply SplitMix64's output function, a bijection of the 64-bit integers."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def derive_seed(*parts: int) -> int:
    """Derive one 63-bit seed from several integers, so that (seed, epoch, step) can start a generator."""
    z = 0
    for part in parts:
        z = ((z ^ (part % 2**64)) * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        z ^= z >> 31
    return z >> 1
