"""Correct what answers state, by items of known class: from 20 such items on, what is stated is what is true.

    S_i(k) = g L_i(k) + c_k + w_x X_i(k) + sum_j w_{a_ij} E_ij(k),        P(z_i = k) = softmax_k S_i
    L = log p0,  X = log f,  E_ij(k) = log P(l_ij | k, a_ij)                 each without its mean over the classes

p0 is the posterior of all answers, by a fit that has not seen that a class is known. g says how sharp it should be, c
which classes it favours, w_x what inputs count, w_a whose answers count for more or less. They are logistic regression
with normal priors around no change; eight widths of the priors are weighted by their evidence (Laplace).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...metrics import OWN_WEIGHT

LEAST_GOLD = 20  # items of known class from which on something is said
SD_SHARPNESS, SD_INPUTS = 0.35, 0.3
SD_CLASSES, SD_ANNOTATORS = (0.25, 1.0), (0.0, 0.03, 0.1, 0.3)
LEAST_ANSWERS, MOST_ANNOTATORS = 5, 500  # answers to gold that an annotator needs for a weight, and weights at the most
LEAST = 1e-4  # probability; with more than ten classes, a tenth of a percent in all
ROUNDS, GAIN = 30, 1e-6
CHUNK = 2**21  # numbers of a design that are worked out at once
NEGLIGIBLE = 1e-4  # weight of a fit that is left out
FOLDS = 5

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Evidence:
    """What is known about n items without any known class.

    Parameters
    ----------
    log_p0 : array (n, K)
        Log posterior of each item by all of its answers.
    log_f : array (n, K), optional
        Log-probabilities by the input; None where there is none.
    item, annotator : int arrays (R,)
        Number of the item of each answer, and of who gave it, -1 where that is not known.
    log_answer : array (R, K)
        log P(l | k, a) of each answer, times its weight.
    """

    log_p0: Floats
    log_f: Floats | None
    item: Ints
    annotator: Ints
    log_answer: Floats

    @classmethod
    def of(cls, log_p0: Floats, log_f: Floats | None, item: Ints, annotator: Ints, log_answer: Floats) -> "Evidence":
        """Make evidence of logarithms as they come: no probability is too small, and classes have mean 0."""
        least = np.log(min(LEAST, 10 * LEAST / log_p0.shape[1]))
        clipped = [None if each is None else centred(np.maximum(each, least)) for each in (log_p0, log_f)]
        assert clipped[0] is not None
        return cls(clipped[0], clipped[1], np.asarray(item), np.asarray(annotator), centred(log_answer))

    def take(self, items: Ints) -> "Evidence":
        """Return the evidence of some items, which get new numbers in this order."""
        number = np.full(len(self.log_p0), -1)
        number[items] = np.arange(len(items))
        rows = np.flatnonzero(number[self.item] >= 0)
        log_f = None if self.log_f is None else self.log_f[items]
        return Evidence(self.log_p0[items], log_f, number[self.item[rows]], self.annotator[rows], self.log_answer[rows])


@dataclass(frozen=True)
class Calibrator:
    """A mixture of F fits, the most likely ones.

    Parameters
    ----------
    share : array (F,)
        Weight of each.
    sharpness, inputs : arrays (F,)
        g and w_x.
    classes : array (F, K)
        c.
    annotators : array (F, A)
        w, 0 for those with too few answers to gold.
    """

    share: Floats
    sharpness: Floats
    inputs: Floats
    classes: Floats
    annotators: Floats

    @classmethod
    def fit(cls, gold: Evidence, truth: Ints, n_annotators: int) -> "Calibrator":
        """Learn from items of known class.

        Parameters
        ----------
        gold : Evidence
        truth : int array (n,)
            Their classes.
        n_annotators : int
        """
        k, counts = gold.log_p0.shape[1], np.bincount(gold.annotator[gold.annotator >= 0], minlength=n_annotators)
        most = np.argsort(-counts, kind="stable")[:MOST_ANNOTATORS]
        people = np.sort(most[counts[most] >= LEAST_ANSWERS])
        with_x, fits, evidence = gold.log_f is not None, list[Floats](), list[float]()
        plain, full = (_Design.of(gold, truth, each, n_annotators) for each in (people[:0], people))
        widths = SD_ANNOTATORS if len(people) else SD_ANNOTATORS[:1]
        for sd_c, sd_w in product(SD_CLASSES, widths):
            design = full if sd_w else plain
            sds = np.full(design.size, sd_w)
            sds[: k + 1 + with_x] = [sd_c] * k + [SD_SHARPNESS] + [SD_INPUTS] * with_x
            start = fits[-len(widths)] if sd_c > SD_CLASSES[0] else fits[-1] if sd_w else None
            theta, found = _newton(design, sds**-2.0, start)
            fits.append(theta)
            evidence.append(found)
        weight = np.exp(np.array(evidence) - max(evidence))
        kept = np.flatnonzero(weight / weight.sum() > NEGLIGIBLE)
        annotators = np.zeros((len(kept), n_annotators))
        for row, number in zip(annotators, kept, strict=True):
            own = fits[number][k + 1 + with_x :]
            row[people[: len(own)]] = own
        head = np.stack([fits[number][: k + 1 + with_x] for number in kept])
        inputs = head[:, k + 1] if with_x else np.zeros(len(kept))
        return cls(weight[kept] / weight[kept].sum(), head[:, k], inputs, head[:, :k], annotators)

    def __call__(self, items: Evidence) -> Floats:
        """Return the calibrated posterior of items (n, K), as of items whose class is not known."""
        return np.asarray(sum(share * softmax(s) for share, s, _ in self._scores(items)))

    def quality(self, items: Evidence, label: Ints, power: Floats) -> Floats:
        """Return how likely each answer is right where it counts half itself (R,): to rank answers, not to count them.

        Parameters
        ----------
        items : Evidence
        label : int array (R,)
        power : array (R,)
            What each answer counts in p0: tau b of its item.
        """
        rows, found = np.arange(len(label)), np.zeros(len(label))
        for number, (share, s, w) in enumerate(self._scores(items)):
            own = (1 - OWN_WEIGHT) * (self.sharpness[number] * power + w)
            found += share * softmax(s[items.item] - own[:, None] * items.log_answer)[rows, label]
        return found

    def votes(self, votes: float) -> float:
        """Return what answers that counted as so many votes count as after all."""
        return float(self.share @ self.sharpness) * votes

    def _scores(self, items: Evidence) -> Iterator[tuple[float, Floats, Floats]]:
        """Yield the weight of each fit, S of all items, and w of each answer."""
        for share, g, w_x, c, w in zip(
            self.share, self.sharpness, self.inputs, self.classes, self.annotators, strict=True
        ):
            s, own = g * items.log_p0 + c, np.append(w, 0.0)[items.annotator]
            if items.log_f is not None:
                s += w_x * items.log_f
            used = np.flatnonzero(own)
            np.add.at(s, items.item[used], own[used, None] * items.log_answer[used])
            yield float(share), s, own


def held_out(gold: Evidence, truth: Ints, n_annotators: int) -> Floats:
    """Return the posterior of each gold item by a calibrator that has not seen its fold, one of five (n, K)."""
    fold, p = np.random.default_rng(0).permutation(len(truth)) % FOLDS, np.empty_like(gold.log_p0)
    for number in range(FOLDS):
        unseen, seen = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        p[unseen] = Calibrator.fit(gold.take(seen), truth[seen], n_annotators)(gold.take(unseen))
    return p


def with_known(p: Floats, items: Ints, truth: Ints) -> Floats:
    """Return the posterior with what is known put in: these items are of these classes."""
    known = np.array(p)
    known[items] = np.eye(p.shape[1])[truth]
    return known


@dataclass(frozen=True)
class _Design:
    """Derivatives of S by all numbers but c, of some items at a time: their place, columns, and values (b, K, M)."""

    parts: list[tuple[slice, Ints, Floats]]
    truth: Ints
    k: int
    size: int

    @classmethod
    def of(cls, gold: Evidence, truth: Ints, people: Ints, n_annotators: int) -> "_Design":
        (n, k), shared = gold.log_p0.shape, [each for each in (gold.log_p0, gold.log_f) if each is not None]
        column = np.full(n_annotators + 1, -1)
        column[people] = np.arange(len(people))
        rows = np.flatnonzero(column[gold.annotator] >= 0)
        rows = rows[np.argsort(gold.item[rows], kind="stable")]
        item, who, parts = gold.item[rows], column[gold.annotator[rows]], []
        step = max(1, CHUNK // (k * (len(shared) + len(people))))
        for first in range(0, n, step):
            items, (start, stop) = slice(first, min(first + step, n)), np.searchsorted(item, (first, first + step))
            used, code = np.unique(who[start:stop], return_inverse=True)
            values = np.zeros((len(shared) + len(used), items.stop - first, k))
            values[: len(shared)] = [each[items] for each in shared]
            np.add.at(values, (len(shared) + code, item[start:stop] - first), gold.log_answer[rows[start:stop]])
            columns = k + np.concatenate([np.arange(len(shared)), len(shared) + used])
            parts.append((items, columns, np.ascontiguousarray(values.transpose(1, 2, 0))))
        return cls(parts, truth, k, k + len(shared) + len(people))

    def slopes(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Return the log-likelihood, its derivative, and minus the matrix of its second derivatives."""
        k, value, slope, curvature = self.k, 0.0, np.zeros(self.size), np.zeros((self.size, self.size))
        for items, columns, f in self.parts:
            s, rows, z = theta[:k] + f @ theta[columns], np.arange(len(f)), self.truth[items]
            p = softmax(s)
            value += float(np.log(np.maximum(p[rows, z], 1e-300)).sum())
            mean = (p[:, None] @ f)[:, 0]
            root = np.sqrt(p)
            away = root[:, :, None] * (f - mean[:, None])
            flat = away.reshape(-1, len(columns))
            slope[:k] += np.bincount(z, minlength=k) - p.sum(0)
            slope[columns] += (f[rows, z] - mean).sum(0)
            curvature[:k, :k] += np.diag(p.sum(0)) - p.T @ p
            cross = np.einsum("nk,nkm->km", root, away)
            curvature[:k, columns] += cross
            curvature[columns, :k] += cross.T
            curvature[np.ix_(columns, columns)] += flat.T @ flat
        return value, slope, curvature


def _newton(design: _Design, precision: Floats, start: Floats | None) -> tuple[Floats, float]:
    """Return the most likely numbers, and the log evidence of their priors, by Newton's steps, halved until they gain."""
    mean = np.zeros(design.size)
    mean[design.k] = 1.0  # g
    theta = mean.copy()
    if start is not None:
        theta[: len(start)] = start

    def posterior(theta: Floats) -> tuple[float, Floats, Floats]:
        value, slope, curvature = design.slopes(theta)
        off = theta - mean
        return value - 0.5 * float(precision @ off**2), slope - precision * off, curvature + np.diag(precision)

    value, slope, curvature = posterior(theta)
    for _ in range(ROUNDS):
        step, size = np.linalg.solve(curvature, slope), 1.0
        new = posterior(theta + step)
        while new[0] < value and size > GAIN:
            size /= 2
            new = posterior(theta + size * step)
        gain = new[0] - value
        if gain < 0:
            break
        theta, (value, slope, curvature) = theta + size * step, new
        if gain < GAIN:
            break
    log_determinant = float(np.linalg.slogdet(curvature)[1])
    return theta, value + 0.5 * float(np.log(precision).sum()) - 0.5 * log_determinant


def centred(log_p: Floats) -> Floats:
    """Return logarithms without their mean over the classes."""
    return np.asarray(log_p - log_p.mean(1, keepdims=True))


def softmax(s: Floats) -> Floats:
    """Return probabilities of the classes (n, K)."""
    p = np.exp(s - s.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))
