"""What one more answer to an item is worth: by how much it is expected to lower the error of the item's posterior.

    error(p)   = 1 - sum_k p_k^2                                    the Brier score that p expects of itself
    gain(p, C) = sum_l (sum_k p_k^2 C_kl^2) / (sum_k p_k C_kl) - sum_k p_k^2

p is the posterior of an item, C_kl the probability that an annotator answers l to an item of class k; after the answer
l the posterior is p_k C_kl / sum_k p_k C_kl. The gain is never below 0, and 0 for somebody whose answer says nothing.
The share of items whose most likely class is right would not do: one answer of somebody middling overturns nothing, and
would be worth nothing, where two are worth much.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NUMBERS = 1 << 22  # held at once
EVEN = 0.1  # of wrong answers that may be any class, however the crowd confuses classes


def gains(p: Floats, confusions: Floats) -> Floats:
    """Compute the gain of an answer to each item by each annotator (N, A).

    `p` (N, K): posteriors of the items.
    `confusions` (A, K, K): P(answer l | class k) of the annotators, in row k and column l.
    """
    people, k, _ = confusions.shape
    flat = confusions.transpose(1, 0, 2).reshape(k, people * k)
    found = np.empty((len(p), people))
    size = max(1, NUMBERS // (people * k))
    for start in range(0, len(p), size):
        part = p[start : start + size]
        squares, sums = np.square(part) @ np.square(flat), part @ flat
        after = np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)
        found[start : start + size] = after.reshape(-1, people, k).sum(2) - np.square(part).sum(1)[:, None]
    return np.maximum(found, 0.0)


def gains_among_many(p: Floats, accuracy: Floats, elsewhere: Floats, n_classes: int) -> Floats:
    """Compute the same for items of which only the likeliest classes are known; wrong answers may be any other class.

    `p` (N, T): probabilities of the likeliest classes of each item; the rest is shared evenly by all other classes.
    `accuracy` (N, A, T): how often annotators are right on these classes.
    `elsewhere` (A,): how often they are right on the others.
    `n_classes`: K, more than T.
    """
    n_others = n_classes - p.shape[1]
    rest = np.maximum(1 - p.sum(1), 0.0)[:, None] / n_others  # of each other class
    wrong, wrong_elsewhere = (1 - accuracy) / (n_classes - 1), (1 - elsewhere) / (n_classes - 1)
    p = p[:, None, :]
    # Sums over all classes of p C and of its square as if no answer were right, then what it is of the class itself.
    sums = (p * wrong).sum(2) + n_others * rest * wrong_elsewhere
    squares = np.square(p * wrong).sum(2) + n_others * np.square(rest * wrong_elsewhere)
    own = _ratio(squares[..., None] + p**2 * (accuracy**2 - wrong**2), sums[..., None] + p * (accuracy - wrong)).sum(2)
    other = _ratio(squares + rest**2 * (elsewhere**2 - wrong_elsewhere**2), sums + rest * (elsewhere - wrong_elsewhere))
    before = np.square(p).sum(2) + n_others * np.square(rest)
    found: Floats = np.maximum(own + n_others * other - before, 0.0)
    return found


def _ratio(squares: Floats, sums: Floats) -> Floats:
    found: Floats = np.divide(squares, sums, out=np.zeros(np.broadcast(squares, sums).shape), where=sums > 0)
    return found


def confusion_matrices(accuracy: Floats, transitions: Floats | None) -> Floats:
    """Return P(answer l | class k) of annotators who are right this often (A, K); wrong answers are those of the crowd.

    `accuracy` (A, K).
    `transitions` (K, K): P(given | true) of the whole crowd; without it, and for a tenth in any case, wrong answers may
        be any class.
    """
    k = accuracy.shape[1]
    even = (1 - np.eye(k)) / (k - 1)
    spread = even
    if transitions is not None:
        off = np.where(np.eye(k, dtype=bool), 0.0, transitions)
        total = off.sum(1, keepdims=True)
        shares = np.divide(off, total, out=even.copy(), where=total > 0)
        spread = (1 - EVEN) * shares + EVEN * even
    found: Floats = (1 - accuracy)[:, :, None] * spread + accuracy[:, :, None] * np.eye(k)
    return found


def assign(gain: Floats, limit: int | None = None) -> tuple[NDArray[np.int64], Floats]:
    """Assign an annotator to each item, and return the gain; the last column is for anybody, as often as needed.

    `gain` (N, A + 1): -inf where somebody may not answer an item.
    `limit`: items for each annotator at most: an annotator who has more keeps those where the gain is largest.
    """
    gain = gain.copy()
    rows, last = np.arange(len(gain)), gain.shape[1] - 1
    while True:
        who = gain.argmax(1)
        best = gain[rows, who]
        if limit is None:
            return who, best
        order = np.lexsort((-best, who))
        starts = np.searchsorted(who[order], np.arange(last + 2))
        place = np.empty(len(who), np.int64)
        place[order] = rows - starts[who[order]]
        over = (place >= limit) & (who < last)
        if not over.any():
            return who, best
        gain[rows[over], who[over]] = -np.inf
