"""How likely every given label is right, from a classifier's probabilities and the labels alone. No torch.

    z_i ~ softmax(s log p_i + b)                      the true class: s a sharpness, b a bias of each class
    l_i ~ T[z_i, .]                                   the given label: T says how classes are confused
    q_i(k)  proportional to  p_i(k)^s exp(b_k) T[k, l_i]^w                        the posterior

s, b and T maximise the likelihood of the labels of evenly spaced rows under weak priors (EM, with Newton steps for s
and b). All rows are then judged in one pass, a part at a time, so that a memory map of any length will do.

w is 1 for the consensus, and OWN_WEIGHT where the label itself is judged, as everywhere (`methods.held_out`): it is no
witness of itself, and the classifier was trained on labels of the same makers, and is misled where they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.probabilities import as_floats, check_rows, is_distribution
from ..files import release
from ..metrics import OWN_WEIGHT

LEAST = 1e-6  # probability
FIT_ROWS, FIT_NUMBERS = 20_000, 2**22  # rows that s, b and T are fitted to: not more than these, nor rows x classes
PART = 2**19  # numbers judged in one go
SAMPLED = 64  # rows sampled in one go
RELEASE = 32  # parts after which pages of a map are let go
ROUNDS, CLOSE = 60, 1e-3  # of EM, and the change of s, b and T below which it ends
PSEUDO = 10.0  # labels of each true class that the prior of T counts as
STRANGEST = 30.0  # s is at most this over log10 K, so that p^s does not vanish in float32

Codes = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Confusions:
    """What was learned about a classifier and of labels.

    Parameters
    ----------
    sharpness : float
        s.
    bias : array (K,)
        b.
    transitions : array (K, K)
        T: probability of each given label, by true class.
    """

    sharpness: float
    bias: NDArray[np.float64]
    transitions: NDArray[np.float64]

    def weights(self, w: float) -> Floats:
        """exp(b_k) T[k, l]^w, by given label l and class k."""
        raised: Floats = (self.transitions.T**w * np.exp(self.bias - self.bias.max())).astype(np.float32)
        return raised


@dataclass(frozen=True)
class Judged:
    """What is said about every row.

    Parameters
    ----------
    quality, full, unaided : array (N,)
        q of the given label, where it counts OWN_WEIGHT, in full, and not at all.
    predicted, consensus : int array (N,)
        Most likely class, by the classifier alone and by q.
    predicted_probability, consensus_quality, confidence : array (N,)
        Probabilities of these, and the classifier's of the given label.
    shuffled, shuffled_labels : arrays (N,)
        The classifier's probability of a random guess, and that guess: the given labels, shuffled among the rows.
    """

    quality: Floats
    full: Floats
    unaided: Floats
    predicted: Codes
    predicted_probability: Floats
    confidence: Floats
    consensus: Codes
    consensus_quality: Floats
    shuffled: Floats
    shuffled_labels: Codes

    @classmethod
    def empty(cls, labels: Codes) -> "Judged":
        """Place for rows with these labels."""
        n, other = len(labels), np.random.default_rng(0).permutation(labels)
        quality, full, unaided, probability, confidence, sure, moved = (np.zeros(n, np.float32) for _ in range(7))
        predicted, consensus = (np.zeros(n, np.int64) for _ in range(2))
        return cls(quality, full, unaided, predicted, probability, confidence, consensus, sure, moved, other)


def judge_labels(labels: Codes, probs: NDArray[Any], source: str = "pred_probs") -> Judged:
    """Judge one label of every row.

    Parameters
    ----------
    labels : int array (N,)
        Codes of the given labels, from 0 to K - 1.
    probs : array (N, K)
        Probabilities of the classes; a memory map is read in parts.
    source : str
        What messages call the probabilities.
    """
    return score(labels, probs, fit(labels, probs), source)


def fit(labels: Codes, probs: NDArray[Any]) -> Confusions:
    """s, b and T of evenly spaced rows; those that are not distributions are left to `score`, which refuses them."""
    n, k = probs.shape
    rows = np.unique(np.linspace(0, n - 1, min(n, FIT_ROWS, max(1, FIT_NUMBERS // k))).astype(np.int64))
    p = np.empty((len(rows), k), np.float32)
    for start in range(0, len(rows), SAMPLED):  # a page of a map may bring many others along
        p[start : start + SAMPLED] = as_floats(probs[rows[start : start + SAMPLED]])
        release(probs)
    usable = is_distribution(p)
    order = np.argsort(labels[rows], kind="stable")
    order = order[usable[order]]
    return expectation_maximisation(labels[rows][order], p[order])


def expectation_maximisation(y: Codes, p: Floats) -> Confusions:
    """s, b and T of rows that are sorted by label."""
    k = p.shape[1]
    log_p = np.log(np.maximum(p, LEAST))
    given, starts = np.unique(y, return_index=True)
    s, b, t = 1.0, np.zeros(k), np.full((k, k), 0.1 / (k - 1))
    np.fill_diagonal(t, 0.9)
    for _ in range(ROUNDS if len(y) else 0):
        f = softmax(np.float32(s) * log_p + b.astype(np.float32))
        q = f * t.T.astype(np.float32)[y]
        q /= q.sum(1, keepdims=True)
        counts = np.zeros((k, k))
        counts[:, given] = np.add.reduceat(q, starts, axis=0, dtype=np.float64).T
        new_t = with_prior(counts)
        new_s, new_b = newton_step(s, b, log_p, f, q)
        moved = max(abs(new_s - s), float(np.abs(new_b - b).max()), float(np.abs(new_t - t).max()))
        s, b, t = new_s, new_b, new_t
        if moved < CLOSE:
            break
    return Confusions(s, b, t)


def with_prior(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """T from how often each class was given each label, and PSEUDO more: half of them as often right as all are, half
    as often right as wrong, and every mistake equally likely."""
    k = len(counts)
    right = ((np.trace(counts) + PSEUDO / 2) / (counts.sum() + PSEUDO) + 0.5) / 2
    prior = np.full((k, k), PSEUDO * (1 - right) / (k - 1))
    np.fill_diagonal(prior, PSEUDO * right)
    t: NDArray[np.float64] = (counts + prior) / (counts.sum(1, keepdims=True) + PSEUDO)
    return t


def newton_step(s: float, b: NDArray[np.float64], log_p: Floats, f: Floats, q: Floats) -> tuple[float, Any]:
    """A step of s and of b towards the f most like q, each by its own curvature; priors are N(1, 1) and N(0, 1)."""
    k = f.shape[1]
    mean = np.einsum("ij,ij->i", f, log_p)
    spread = float(np.einsum("ij,ij,ij->", f, log_p, log_p, dtype=np.float64)) - float(np.square(mean).sum())
    slope = float(np.einsum("ij,ij->i", q, log_p).sum(dtype=np.float64)) - float(mean.sum(dtype=np.float64)) - (s - 1)
    said = f.sum(0, dtype=np.float64)
    curvature = said - np.einsum("ij,ij->j", f, f, dtype=np.float64) + 1
    step = (q.sum(0, dtype=np.float64) - said - b) / curvature / 2
    new_b = b + np.clip(step, -1, 1)
    most = min(20.0, STRANGEST / np.log10(k))
    return float(np.clip(s + np.clip(slope / (spread + 1), -1, 1), 0.05, most)), new_b - new_b.mean()


def softmax(z: Floats) -> Floats:
    """Of every row, in place."""
    z -= z.max(1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(1, keepdims=True)
    return z


def score(labels: Codes, probs: NDArray[Any], learned: Confusions, source: str = "pred_probs") -> Judged:
    """Check and judge all rows, a part at a time."""
    n, k = probs.shape
    found, raised = Judged.empty(labels), Power(learned.sharpness)
    own, full = learned.weights(OWN_WEIGHT), learned.weights(1.0)
    bias = np.exp(learned.bias - learned.bias.max()).astype(np.float32)
    step = max(1, PART // k)
    for number, start in enumerate(range(0, n, step)):
        part = slice(start, start + step)
        block, y = np.asarray(probs[part]), labels[part]
        rows = np.arange(len(y))
        p = as_floats(block)
        check_rows(p, start, source)
        found.predicted[part] = first = p.argmax(1)
        found.predicted_probability[part], found.confidence[part] = p[rows, first], p[rows, y]
        found.shuffled[part] = p[rows, found.shuffled_labels[part]]
        f = raised(block, p)
        mine = f[rows, y]
        found.unaided[part] = mine * bias[y] / (f @ bias)
        found.quality[part] = mine * own[y, y] / np.einsum("ij,ij->i", f, own[y])
        joint = f * full[y]
        total = joint.sum(1)
        found.full[part] = joint[rows, y] / total
        found.consensus[part] = best = joint.argmax(1)
        found.consensus_quality[part] = joint[rows, best] / total
        if number % RELEASE == RELEASE - 1:
            release(probs)
    for shares in (found.predicted_probability, found.confidence, found.unaided, found.quality):  # may be rounded up
        np.minimum(shares, 1, out=shares)
    return found


class Power:
    """p^s of some rows; of float16 by a table of all its values.

    Parameters
    ----------
    s : float
    """

    def __init__(self, s: float):
        self.s = np.float32(s)
        halves = as_floats(np.arange(1 << 16, dtype=np.uint16).view(np.float16))
        with np.errstate(invalid="ignore", over="ignore"):
            self.table = np.maximum(halves, np.float32(LEAST)) ** self.s

    def __call__(self, block: NDArray[Any], p: Floats) -> Floats:
        """`block` as it is, and as float32."""
        if block.dtype == np.float16:
            return self.table[block.view(np.uint16)]
        raised = np.maximum(p, np.float32(LEAST))
        np.log(raised, out=raised)
        raised *= self.s
        np.exp(raised, out=raised)
        return raised


def ranking_score(name: str, labels: Codes, probs: NDArray[Any], rows: Codes) -> NDArray[np.float64]:
    """cleanlab's scores of some rows, low = likely wrong.

    Parameters
    ----------
    name : "self_confidence", "normalized_margin" or "confidence_weighted_entropy"
        The last one up to a monotone function.
    labels, rows : int array (n,)
        Given labels, and of which rows of `probs` they are.
    """
    found = np.empty(len(rows))
    step = max(1, PART // probs.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        p = as_floats(probs[rows[part]]).astype(np.float64)
        own = p[np.arange(len(p)), labels[part]]
        if name == "self_confidence":
            found[part] = own
        elif name == "normalized_margin":
            p[np.arange(len(p)), labels[part]] = -1
            found[part] = own - p.max(1)
        else:
            entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
            found[part] = -entropy / np.maximum(own, LEAST)
    return found
