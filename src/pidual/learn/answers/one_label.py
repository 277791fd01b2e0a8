"""One answer to each item and no PI: the answer model with one table P for all, beside probabilities p that are given.

    z_i ~ f_i = softmax(s log p_i + c),    P(l | k) = softmax_l( (b + skill) [l = k] + T[k, l] + v_l )

This is the model of `model` with one context, and the posterior of `posterior` with one vote an item: q_i(k)
proportional to f_i(k) P(l_i | k)^w, where w is 1, or OWN_WEIGHT where the label itself is judged, or 0. As there is one
table, T has a number for every pair of classes, or, where there are more pairs than rows, for those that occur.
All is worked out in single precision, in parts that stay in the processor's cache.

Where a label and the classifier contradict each other, either may be to blame. A skill that is held near b says that it
is the label, and a loose T that a class is confused with few others.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from ...metrics import OWN_WEIGHT
from .model import BASE_SKILL, log_softmax

LEAST = 1e-6  # probability
PRECISION = {"log_sharpness": 1.0, "skill": 30.0, "bias": 1.0, "favourites": 1.0, "confusions": 0.3}
RIGHT = 1.0  # precision of T[k, k]
OCCURS = 0.1  # expected labels, from which a pair of classes occurs
STEPS, TOLERANCE, MEMORY = 25, 1e-6, 12  # of L-BFGS
START = 0.9  # share of right labels
CACHED = 2**16  # numbers of a part
STRANGEST = 30.0  # s is at most this over log10 K, so that p^s does not vanish in single precision

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class Said(NamedTuple):
    """What is said about rows."""

    quality: Singles  # (n,), q of the given label, where it counts OWN_WEIGHT
    full: Singles  # where it counts in full
    unaided: Singles  # and where it does not count
    consensus: Codes  # (n,), most likely class by q
    consensus_quality: Singles  # and its probability


@dataclass(frozen=True)
class OneLabel:
    """Fitted numbers."""

    sharpness: float  # s
    bias: Floats  # (K,), c
    log_p: Floats  # (K, K), log P(l | k), by class k and label l

    @cached_property
    def weights(self) -> list[Singles]:
        """Return exp(c_k) P(l | k)^w by label and class, up to a factor, where w is OWN_WEIGHT, 1 and 0."""
        prior = self.bias - self.bias.max()
        return [np.exp(w * self.log_p.T + prior).astype(np.float32) for w in (OWN_WEIGHT, 1.0, 0.0)]

    @cached_property
    def halves(self) -> Singles:
        """Return p^s of every float16, by its bits."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.power(np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32))

    def power(self, p: NDArray[np.floating[Any]]) -> Singles:
        """Return p^s."""
        if p.dtype == np.float16:
            return np.asarray(self.halves[p.view(np.uint16)])
        raised: Singles = np.maximum(p, np.float32(LEAST), dtype=np.float32)
        np.log(raised, out=raised)
        raised *= np.float32(self.sharpness)
        np.exp(raised, out=raised)
        return raised

    def __call__(self, labels: Codes, p: NDArray[np.floating[Any]]) -> Said:
        """Judge rows with these labels (n,) and probabilities (n, K)."""
        f, rows, (own, full, plain) = self.power(p), np.arange(len(labels)), self.weights
        mine = f[rows, labels]
        quality = mine * own[labels, labels] / np.einsum("ij,ij->i", f, own[labels])
        unaided = mine * plain[0, labels] / (f @ plain[0])
        f *= full[labels]
        total, best = f @ np.ones_like(plain[0]), f.argmax(1)
        shares = (quality, f[rows, labels] / total, unaided, f[rows, best] / total)
        quality, right, unaided, sure = (np.minimum(share, 1) for share in shares)  # may be rounded up
        return Said(quality, right, unaided, best, sure)


def fit_one_label(labels: Codes, p: Singles) -> OneLabel:
    """Fit s, c, skill, v and T to labels (n,) and probabilities (n, K), by L-BFGS on numbers of equal curvature."""
    n, k = p.shape
    order = np.argsort(labels, kind="stable")
    labels, p = labels[order], p[order]
    expected = np.zeros((k, k))  # classes of each label, if p is right
    _add_by_label(expected, labels, p)
    expected = expected.T
    pairs = np.flatnonzero((expected >= OCCURS) | np.eye(k, dtype=bool) | (k * k <= n))
    logs = np.log(np.maximum(p, np.float32(LEAST)))
    logs -= logs.max(1, keepdims=True)
    sizes = (1, 1, k, k, len(pairs))
    precision = np.repeat(list(PRECISION.values()), sizes)
    precision[2 + 2 * k :][pairs % (k + 1) == 0] = RIGHT
    asked = expected.sum(1, keepdims=True)
    spread = expected * (1 - expected / np.maximum(asked, LEAST))
    parts = [[n, np.trace(spread)], asked[:, 0], spread.sum(0), spread.flat[pairs]]
    scale = 1 / np.sqrt(precision + np.concatenate(parts))
    start, most = np.zeros(len(scale)), np.full(len(scale), np.inf)
    most[0] = np.log(min(20.0, STRANGEST / np.log10(k)))
    confused = np.log((expected + 1) / (asked * (1 - START) / (k - 1) + 1))
    np.fill_diagonal(confused, np.log(START / (1 - START) * (k - 1)) - BASE_SKILL)
    start[2 + 2 * k :] = confused.flat[pairs]

    def made(flat: Floats) -> OneLabel:
        log_s, skill, bias, favourites, confusions = np.split(flat, np.cumsum(sizes)[:-1])
        logits = np.zeros((k, k))
        logits.flat[pairs] = confusions
        logits += favourites + np.diag(np.full(k, BASE_SKILL + skill[0]))
        return OneLabel(float(np.exp(log_s[0])), bias, log_softmax(logits))

    def objective(scaled: Floats) -> tuple[float, Floats]:
        flat = scale * scaled
        model = made(flat)
        value, by_s, by_bias, more = likelihood(model, labels, logs)
        slope = np.concatenate([[model.sharpness * by_s, np.trace(more)], by_bias, more.sum(0), more.flat[pairs]])
        return 0.5 * float(precision @ flat**2) - value, scale * (precision * flat - slope)

    how = {"maxiter": STEPS, "maxcor": MEMORY, "ftol": TOLERANCE, "gtol": 1e-3}
    bounds = Bounds(-np.inf, most / scale)
    return made(scale * minimize(objective, start / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=how).x)


def _add_by_label(sums: Floats, labels: Codes, values: Singles) -> None:
    """Add rows (n, K) of labels in ascending order to the sums (K, K) of their labels."""
    first = np.flatnonzero(np.diff(labels, prepend=-1))
    sums[labels[first]] += np.add.reduceat(values, first)


def likelihood(model: OneLabel, labels: Codes, logs: Singles) -> tuple[float, float, Floats, Floats]:
    """Return the log-likelihood of labels, and its derivative by s, by c, and by the logits (K, K) of P.

    Labels are in ascending order; `logs` are log p, up to a number for each row.
    """
    k = logs.shape[1]
    s, bias, p = np.float32(model.sharpness), model.bias.astype(np.float32), np.exp(model.log_p.T).astype(np.float32)
    value, by_s, prior, said, ones = 0.0, 0.0, np.zeros(k), np.zeros((k, k)), np.ones(k, np.float32)
    step = max(1, CACHED // k)
    for part in (slice(start, start + step) for start in range(0, len(labels), step)):
        some, given = logs[part], labels[part]
        f = s * some
        f += bias
        np.exp(f, out=f)
        q = f * p[given]
        of_f, of_q = 1 / (f @ ones), 1 / (q @ ones)
        q *= of_q[:, None]
        value += float(np.log(of_f / of_q).sum(dtype=np.float64))
        by_s += float(np.vdot(q, some)) - float(of_f @ np.einsum("ij,ij->i", f, some))
        prior += of_f @ f
        _add_by_label(said, given, q)
    asked = said.sum(0)  # expected items of each class
    return value, by_s, asked - prior, said.T - asked[:, None] * np.exp(model.log_p)
