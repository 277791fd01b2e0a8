"""Correct what answers state by items of known class (gold): 20 of them, and what is stated is nearly what is true.

    S_i(k) = g L_i(k) + c_k + w_x X_i(k) + sum_j w_{a_ij} E_ij(k),        P(z_i = k) = softmax_k S_i
    L = log p0,  X = log f,  E_ij(k) = log P(l_ij | k, a_ij)                 each without its mean over the classes

p0 is the posterior by all answers, and of gold items too by a fit as if their class were not known. g says how sharp it
should be, c which classes it favours, w_x what inputs count, w_a whose answers count more or less. That is logistic
regression with normal priors around no change; eight widths of priors are weighted by their evidence (Laplace).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...metrics import OWN_WEIGHT

LEAST_GOLD = 20  # items of known class from which on something is said
SD_SHARPNESS, SD_INPUTS = 0.35, 0.3
SD_CLASSES, SD_ANNOTATORS = (0.25, 1.0), (1e-5, 0.03, 0.1, 0.3)  # the first of annotators is as good as 0
LEAST_ANSWERS, MOST_ANNOTATORS = 5, 500  # answers to gold that an annotator needs for a weight, and weights at the most
LEAST = 1e-4  # probability; a tenth of a percent in all, where there are more than ten classes
ROUNDS, GAIN = 30, 1e-6  # of Newton's method, and what a step must gain
CHUNK = 2**21  # numbers of a design that are worked out at once
NEGLIGIBLE = 1e-4  # weight of a fit that is left out
FOLDS = 5

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Part = tuple[Ints, Ints, Floats]  # some items: their classes (b,), columns (M,), and values there (b, K, M)


@dataclass(frozen=True)
class Evidence:
    """What is known about n items without any known class: L, X and E."""

    # log_p0, log_f: (n, K)
    log_p0: Floats
    log_f: Floats
    # item, annotator: (R,), number of the item of each answer, and of who gave it, -1 where that is not known
    item: Ints
    annotator: Ints
    log_answer: Floats  # (R, K)

    @classmethod
    def of(cls, log_p0: Floats, log_f: Floats | None, item: Ints, annotator: Ints, log_answer: Floats) -> "Evidence":
        """Make evidence of logarithms as they come; log_f is None without inputs."""
        least = np.log(min(LEAST, 10 * LEAST / log_p0.shape[1]))
        x = np.zeros(log_p0.shape) if log_f is None else _centred(np.maximum(log_f, least))
        return cls(_centred(np.maximum(log_p0, least)), x, item, annotator, _centred(log_answer))

    @classmethod
    def joined(cls, parts: "Sequence[Evidence]") -> "Evidence":
        """Return the evidence of the items of all parts, in this order."""
        first = np.cumsum([0, *(len(part.log_p0) for part in parts)])
        item = np.concatenate([part.item + start for part, start in zip(parts, first[:-1], strict=True)])
        p0, f, who, answers = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("log_p0", "log_f", "annotator", "log_answer")
        )
        return cls(p0, f, item, who, answers)

    def take(self, items: Ints) -> "Evidence":
        """Return the evidence of some items, which get new numbers in this order."""
        number = np.full(len(self.log_p0), -1)
        number[items] = np.arange(len(items))
        rows = np.flatnonzero(number[self.item] >= 0)
        answers = number[self.item[rows]], self.annotator[rows], self.log_answer[rows]
        return Evidence(self.log_p0[items], self.log_f[items], *answers)


@dataclass(frozen=True)
class Calibrator:
    """A mixture of F fits."""

    share: Floats  # (F,), weight of each
    numbers: Floats  # (F, K + 2 + A), c, g, w_x and w of each; w is 0 for annotators with too few answers to gold
    n_classes: int  # K

    @classmethod
    def fit(cls, gold: Evidence, truth: Ints, n_annotators: int) -> "Calibrator":
        """Learn from items, and their classes (n,)."""
        k, counts = gold.log_p0.shape[1], np.bincount(gold.annotator + 1, minlength=n_annotators + 1)[1:]
        most = np.argsort(-counts, kind="stable")[:MOST_ANNOTATORS]
        people = np.sort(most[counts[most] >= LEAST_ANSWERS])
        columns = np.append(np.arange(k + 2), k + 2 + people)
        parts = list(_design(gold, truth, people, n_annotators))
        fits, evidence = list[Floats](), list[float]()
        for sd_w, sd_c in product(SD_ANNOTATORS, SD_CLASSES):  # each begins with the one before
            sds = np.array([sd_c] * k + [SD_SHARPNESS, SD_INPUTS] + [sd_w] * len(people))
            theta, found = _newton(parts, k, sds**-2.0, fits[-1] if fits else None)
            fits.append(theta)
            evidence.append(found)
        share, numbers = np.exp(np.array(evidence) - max(evidence)), np.zeros((len(fits), k + 2 + n_annotators))
        numbers[:, columns] = fits
        kept = share > NEGLIGIBLE * share.sum()
        return cls(share[kept] / share[kept].sum(), numbers[kept], k)

    @property
    def sharpness(self) -> float:
        """Return the mean of g: answers that counted as some votes count as so many times these."""
        return float(self.share @ self.numbers[:, self.n_classes])

    def __call__(self, items: Evidence) -> Floats:
        """Return the posterior of items (n, K), as if none of their classes were known."""
        found = np.zeros(items.log_p0.shape)
        for share, s, _, _ in self._scores(items):
            found += share * _softmax(s)
        return found

    def quality(self, items: Evidence, label: Ints, power: Floats, own: Floats | None = None) -> Floats:
        """Return how likely each answer is right where it counts half itself (R,): a ranking, not to be averaged.

        `label` (R,).
        `power` (R,): what each answer counts in p0: tau b of its item.
        `own` (R, K): what of E is left out where an answer is judged; by default the half of its own.
        """
        found, rows = np.zeros(len(label)), np.arange(len(label))
        own = (1 - OWN_WEIGHT) * items.log_answer if own is None else own
        for share, s, g, w in self._scores(items):
            found += share * _softmax(s[items.item] - (g * power + w)[:, None] * own)[rows, label]
        return found

    def _scores(self, items: Evidence) -> Iterator[tuple[float, Floats, float, Floats]]:
        """Yield the weight of each fit, S of all items, g, and w of each answer."""
        from scipy.sparse import csr_array

        (n, k), answers = items.log_p0.shape, np.arange(len(items.item))
        for share, numbers in zip(self.share, self.numbers, strict=True):
            c, (g, w_x), w = numbers[:k], numbers[k : k + 2], np.append(numbers[k + 2 :], 0.0)[items.annotator]
            said = csr_array((w, (items.item, answers)), (n, len(answers))) @ items.log_answer
            yield float(share), g * items.log_p0 + c + w_x * items.log_f + said, float(g), w


def held_out(gold: Evidence, truth: Ints, n_annotators: int) -> Floats:
    """Return the posterior of each gold item by a calibrator that has not seen its fold, one of five (n, K)."""
    fold, p = np.random.default_rng(0).permutation(len(truth)) % FOLDS, np.empty(gold.log_p0.shape)
    for number in range(FOLDS):
        unseen, seen = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        p[unseen] = Calibrator.fit(gold.take(seen), truth[seen], n_annotators)(gold.take(unseen))
    return p


def _design(gold: Evidence, truth: Ints, people: Ints, n_annotators: int) -> Iterator[Part]:
    """Yield the derivatives of S by g, w_x and w, of some items at a time, by the annotators who answer there."""
    (n, k), column = gold.log_p0.shape, np.full(n_annotators + 1, -1)
    column[people] = np.arange(len(people))
    rows = np.flatnonzero(column[gold.annotator] >= 0)
    rows = rows[np.argsort(gold.item[rows], kind="stable")]
    item, who, step = gold.item[rows], column[gold.annotator[rows]], max(1, CHUNK // (k * (2 + len(people))))
    for first in range(0, n, step):
        items, some = slice(first, first + step), slice(*np.searchsorted(item, (first, first + step)))
        used, code = np.unique(who[some], return_inverse=True)
        values = np.zeros((len(truth[items]), 2 + len(used), k))
        values[:, 0], values[:, 1] = gold.log_p0[items], gold.log_f[items]
        np.add.at(values, (item[some] - first, 2 + code), gold.log_answer[rows[some]])
        yield truth[items], k + np.append([0, 1], 2 + used), np.ascontiguousarray(values.transpose(0, 2, 1))


def _slopes(parts: list[Part], k: int, theta: Floats) -> tuple[float, Floats, Floats]:
    """Return the log-likelihood, its derivative, and minus the matrix of its second derivatives."""
    value, slope, curvature = 0.0, np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
    for z, columns, f in parts:
        p, rows, m = _softmax(theta[:k] + f @ theta[columns]), np.arange(len(f)), len(columns)
        value += float(np.log(np.maximum(p[rows, z], 1e-300)).sum())
        mean, root = (p[:, None] @ f)[:, 0], np.sqrt(p)
        away = root[:, :, None] * (f - mean[:, None])
        slope[:k] += np.bincount(z, minlength=k) - p.sum(0)
        slope[columns] += (f[rows, z] - mean).sum(0)
        cross = np.einsum("nk,nkm->km", root, away)
        curvature[:k, :k] += np.diag(p.sum(0)) - p.T @ p
        curvature[:k, columns] += cross
        curvature[columns, :k] += cross.T
        curvature[np.ix_(columns, columns)] += away.reshape(-1, m).T @ away.reshape(-1, m)
    return value, slope, curvature


def _newton(parts: list[Part], k: int, precision: Floats, start: Floats | None) -> tuple[Floats, float]:
    """Return the most likely numbers, and the log evidence of their priors; a step that gains nothing is halved."""
    mean = np.zeros(len(precision))
    mean[k] = 1.0  # g

    def posterior(theta: Floats) -> tuple[float, Floats, Floats]:
        value, slope, curvature = _slopes(parts, k, theta)
        off = theta - mean
        return value - 0.5 * float(precision @ off**2), slope - precision * off, curvature + np.diag(precision)

    theta = mean if start is None else start
    value, slope, curvature = posterior(theta)
    for _ in range(ROUNDS):
        step = np.linalg.solve(curvature, slope)
        if slope @ step < GAIN:  # twice what it gains, close to the top
            break
        new = posterior(theta + step)
        while new[0] < value:
            step = step / 2
            new = posterior(theta + step)
        theta, (value, slope, curvature) = theta + step, new
    return theta, value + 0.5 * float(np.log(precision).sum() - np.linalg.slogdet(curvature)[1])


def _centred(log_p: Floats) -> Floats:
    """Return logarithms without their mean over the classes."""
    return np.asarray(log_p - log_p.mean(1, keepdims=True))


def _softmax(s: Floats) -> Floats:
    """Return probabilities of the classes (n, K)."""
    p = np.exp(s - s.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))
