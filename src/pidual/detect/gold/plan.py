"""Which items to have checked, and how wide intervals will be.

Intervals (`estimates`) hold where every item is as likely as any other to be checked; a calibrator learns most from
items spread over what is stated. Both at once is a systematic sample: all items in the order of stated confidence, cut
into N equal stretches, and one item of each at the same random place. Items chosen among the worst alone teach a
calibrator more, but then shares of all items cannot be told from them without bias: they are gold for learning, not
for intervals.
"""

import numpy as np
from numpy.typing import NDArray

from .estimates import estimate_mean

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def choose_items(confidence: NDArray[np.floating], n: int, *, checked: Ints | None = None, seed: int = 0) -> Ints:
    """Choose n items to check, evenly over stated confidence and all with the same probability.

    If the items that are checked already were chosen like this too, all of them together are a random sample again.

    `confidence` (N,): probability of the consensus of each item, as stated.
    `n`: all items that are left, if there are no more.
    `checked`: items that are left out.

    Returns
    -------
    int array (n,)
        In random order, so that the first of them are a random sample too.
    """
    rng, left = np.random.default_rng(seed), np.ones(len(confidence), bool)
    if checked is not None:
        left[checked] = False
    items = rng.permutation(np.flatnonzero(left))  # equal confidences in random order
    items, n = items[np.argsort(confidence[items], kind="stable")], min(n, len(items))
    places = np.floor((np.arange(n) + rng.random()) * (len(items) / max(1, n))).astype(np.int64)
    return np.asarray(rng.permutation(items[places]))


def expected_half_widths(p0: Floats, item: Ints, label: Ints, n: int) -> tuple[float, float, Floats]:
    """Return half the width of the intervals to expect of n random gold items, before any class is known.

    `p0` (N, K): posterior of all items.
    `item`, `label` (R,): number of the item of each answer, and code of its label.

    Returns
    -------
    float, float, array (K,)
        Of the share of wrong answers, the accuracy of the consensus, and the share of each class.
    """
    size, k = p0.shape
    answers, said = np.bincount(item, minlength=size), p0[item, label]
    first, order = np.bincount(item, said, size), np.argsort(item * k + label, kind="stable")
    key, start, count = np.unique((item * k + label)[order], return_index=True, return_counts=True)
    second = np.bincount(key // k, count**2 * said[order][start], size)  # mean square of the number of right answers
    n, variance = min(n, size), float((second - first**2).mean()) / answers.mean() ** 2
    best, *shares = (
        _half_width(float(p.mean()), float((p * (1 - p)).mean()), n, size, rest=number == 0)
        for number, p in enumerate([p0.max(1), *p0.T])
    )
    return _half_width(float(1 - said.mean()), variance, n, size), best, np.array(shares)


def _half_width(mean: float, variance: float, n: int, n_items: int, *, rest: bool = False) -> float:
    """Return half the width of the interval of a mean where gold is as it is expected to be."""
    z = np.linspace(-1, 1, n)
    y = mean + z * np.sqrt(variance * (n - 1) / (z @ z))
    found = estimate_mean(y, np.zeros(n), mean, n_items, rest=rest)
    return (found.high - found.low) / 2
