"""Parts that closed_form_choices.py puts in the place of the closed form's own: other targets, losses and landmarks."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from scipy.cluster.vq import kmeans2

from pidual.learn.answers.minimise import minimise
from pidual.learn.answers.model import log_softmax
from pidual.learn.closed_form import kernels, ridge
from pidual.learn.closed_form.ridge import Ridge, Setting


class Damped(Ridge):
    """Targets half old, half new."""

    def fit(self, q, evidence):
        self.q = (q + getattr(self, "q", q)) / 2
        return super().fit(self.q, evidence)


class Hard(Ridge):
    """The most likely class as the target."""

    def fit(self, q, evidence):
        return super().fit(np.eye(q.shape[1])[q.argmax(1)], evidence)


class Certain(Ridge):
    """Items weighted by how certain their class is, from 0.05 to 1."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.parts = parts

    def fit(self, q, evidence):
        entropy = -(q * np.log(np.maximum(q, 1e-12))).sum(1) / np.log(q.shape[1])
        x, weight, *rest = self.parts
        return Ridge(x, weight * np.maximum(1 - entropy, 0.05), *rest).fit(q, evidence)


class Logistic(Ridge):
    """The heaviest kernel fitted by a logistic loss, three ridges, with five folds in place of leaving one out."""

    def fit(self, q, evidence):
        _, made = super().fit(q, evidence)
        log_mean, n = made.log_mean, len(q)
        block = max((each.block for each in made.settings), key=lambda block: share_of(block, made.settings))
        u = np.asarray(block.scaled(slice(None)), np.float64) / np.sqrt(self.weight)[:, None]
        fold, found, settings = np.random.default_rng(0).permutation(n) % 5, [], []
        for factor in (0.003, 0.03, 0.3):
            penalty, p = (factor * block.squares.mean() / block.squares)[:, None], np.empty_like(q)
            for number in range(5):
                seen = fold != number
                theta = logistic(u[seen], q[seen], log_mean, penalty)
                p[~seen] = np.exp(log_softmax(log_mean + u[~seen] @ theta))
            found.append(0.99 * p + 0.01 / len(log_mean))
            coefficients = block.directions.astype(np.float64) @ logistic(u, q, log_mean, penalty)
            settings.append(Fixed(block, 0, 1.0, 1.0, coefficients))
        likely = np.exp(evidence - evidence.max(1, keepdims=True))
        weights = ridge.stack(np.stack([(p * likely).sum(1) for p in found]), self.weight)
        settings = [replace(each, weight=float(v)) for each, v in zip(settings, weights, strict=True)]
        return np.einsum("m,mnk->nk", weights, np.stack(found)), replace(made, settings=settings)


class Fixed(Setting):
    """A setting whose loadings are its coefficients."""

    coefficients = property(lambda self: self.loadings)


def share_of(block, settings):
    """The weight of a kernel."""
    return sum(each.weight for each in settings if each.block is block)


def logistic(u, q, log_mean, penalty):
    """Coefficients of a logistic regression on soft targets."""

    def loss(flat):
        theta = flat.reshape(u.shape[1], -1)
        log_p = log_softmax(log_mean + u @ theta)
        slope = penalty * theta - u.T @ (q - np.exp(log_p))
        return 0.5 * float((penalty * theta**2).sum()) - float((q * log_p).sum()), slope.ravel()

    bend = np.repeat(penalty + 0.1, q.shape[1], axis=1).ravel()
    return minimise(loss, np.zeros(bend.shape), bend, steps=150, tolerance=1e-9).reshape(u.shape[1], -1)


class Chosen(Ridge):
    """Landmarks chosen by what a subclass does, in place of evenly drawn ones; of few inputs, all."""

    def __init__(self, x, weight=None, kinds=kernels.KERNELS, processes=ridge.ALONE):
        if len(x) <= kernels.LANDMARKS:
            super().__init__(x, weight, kinds, processes)
            return
        landmarks, fit = self.choose(np.asarray(x[:], np.float64), weight, kinds), kernels.Features.fit
        with patch.object(
            kernels.Features, "fit", lambda kernel, scale, _, dtype: fit(kernel, scale, landmarks, dtype)
        ):
            super().__init__(x, weight, kinds, processes)
        self.landmarks = landmarks


class KMeans(Chosen):
    """The centres of k-means."""

    def choose(self, x, weight, kinds):
        start = x[np.random.default_rng(0).permutation(len(x))[: kernels.LANDMARKS]]
        return kmeans2(x, start, iter=10, minit="matrix")[0]


class Leverage(Chosen):
    """Drawn by their leverage in the first kernel, at a middle ridge."""

    def choose(self, x, weight, kinds):
        h = np.maximum(Ridge(x, weight, kinds[:1]).blocks[0].h[:, 4].astype(np.float64), 0)
        return x[np.random.default_rng(0).choice(len(x), kernels.LANDMARKS, replace=False, p=h / h.sum())]
