"""Kernel ridge regression on soft targets, with the prediction of every item by the fit without it.

    T = q - mean q,   F = U (shrink * U' T),   h_i = sum_j U_ij^2 shrink_j + 1/n,   shrink = S^2 / (S^2 + lam)
    G_i = (F_i - h_i T_i) / (1 - h_i)                            what the fit without item i says about i
    p_i = softmax(log mean q + beta G_i), mixed with 1% of the uniform

U S V' is the singular value decomposition of the centred features. Items with the same input are one row of weight w,
left out together: F, T and U of such a row have a factor sqrt(w), and its h has w / n.

A *setting* is a kernel and a ridge lam. Its sharpness beta maximises the likelihood of the answers, and so do the
weights of all settings: no clean label is needed, and an item's own answers are judged by fits without it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ..answers.model import log_softmax
from .kernels import KERNELS, LANDMARKS, Array, Features, Kernel, Precision, Scale

RIDGES = 10 ** np.linspace(-2.5, 2.5, 9)  # times the mean of S^2
SHARPNESS = (1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 9.0, 13.0, 18.0, 25.0)
UNIFORM = 0.01
STACKING_STEPS, KEPT = 60, 12
LEAST = 1e-3  # of 1 - h
NEGLIGIBLE: dict[Precision, float] = {
    np.float64: 1e-9,
    np.float32: 1e-7,
}  # part of the largest S^2, below which a direction is left out
SINGLE = 2000  # inputs from which features are worked out in single precision
DECIDING = 5000  # items whose answers decide
PART = 2**13  # inputs whose features are worked out at once
CACHED = 2**28  # numbers of U that are kept; beyond, they are worked out anew in each round

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class Block:
    """One kernel on all inputs, factorised.

    Parameters
    ----------
    features : Features
    x : array (n, d)
        Different inputs; may be a memory map.
    weight : array (n,)
        Items that have each.
    """

    features: Features
    x: Array
    weight: Floats
    mean: Floats = field(init=False)
    directions: Floats = field(init=False)  # V / S
    squares: Floats = field(init=False)  # S^2
    kept: list[Floats] | None = None

    def __post_init__(self) -> None:
        keep = len(self.x) * self.features.size <= CACHED
        total, gram, kept = np.zeros(self.features.size), np.zeros((self.features.size,) * 2), []
        for rows in parts(len(self.x)):
            phi = self.features(self.x[rows])
            weighted = self.weight[rows, None].astype(phi.dtype) * phi
            total += weighted.sum(0, dtype=np.float64)
            gram += weighted.T @ phi
            kept += [phi] if keep else []
        n = self.weight.sum()
        self.mean = total / n
        squares, vectors = eigh(gram - n * np.outer(self.mean, self.mean), driver="evd", check_finite=False)
        used = squares > NEGLIGIBLE[self.features.dtype] * max(squares[-1], 1e-300)
        self.squares = squares[used]
        self.directions = vectors[:, used] / np.sqrt(self.squares)
        if keep:
            self.kept = [self.scaled(rows, phi) for rows, phi in zip(parts(len(self.x)), kept, strict=True)]

    def scaled(self, rows: slice | Ints, phi: Floats | None = None) -> Floats:
        """Return rows of U."""
        phi = self.features(self.x[rows]) if phi is None else phi
        phi -= self.mean.astype(phi.dtype)
        phi *= np.sqrt(self.weight[rows, None]).astype(phi.dtype)
        return np.asarray(phi @ self.directions.astype(phi.dtype))

    def all_scaled(self) -> Iterator[tuple[slice, Floats]]:
        """Yield U, some rows at a time."""
        for number, rows in enumerate(parts(len(self.x))):
            yield rows, self.scaled(rows) if self.kept is None else self.kept[number]

    def some_scaled(self, rows: Ints) -> Floats:
        """Return these rows of U."""
        if self.kept is None:
            return self.scaled(rows)
        inside = ((part, rows[(rows >= at.start) & (rows < at.stop)] - at.start) for at, part in self.all_scaled())
        return np.concatenate([part[at] for part, at in inside])

    @property
    def ridges(self) -> Floats:
        """Return lam of every ridge."""
        return np.asarray(RIDGES * self.squares.sum() / max(1, len(self.squares)))

    def shrink(self, ridge: float) -> Floats:
        """Return S^2 / (S^2 + lam)."""
        return np.asarray(self.squares / (self.squares + ridge))

    def loadings(self, targets: Floats) -> Floats:
        """Return U' T of targets (n, K), not weighted."""
        weighted: Array = (np.sqrt(self.weight)[:, None] * targets).astype(self.features.dtype)
        return np.asarray(sum((u.T @ weighted[rows]).astype(np.float64) for rows, u in self.all_scaled()))

    def left_out(self, u: Floats, loadings: Floats, ridge: float, targets: Floats, weight: Floats) -> Floats:
        """Return G of rows with these rows of U, targets and weights."""
        shrink = self.shrink(ridge)
        fitted = u @ (shrink[:, None] * loadings).astype(u.dtype) / np.sqrt(weight)[:, None]
        h = (np.einsum("ij,ij,j->i", u, u, shrink.astype(u.dtype)) + weight / self.weight.sum())[:, None]
        return np.asarray((fitted - h * targets) / np.maximum(1 - h, LEAST))

    def coefficients(self, loadings: Floats, ridge: float) -> Floats:
        """Return W (D, K): the fit to all items says (phi(x) - mean) W."""
        return np.asarray(self.directions @ (self.shrink(ridge)[:, None] * loadings))


@dataclass(frozen=True)
class Setting:
    """A kernel with its ridge, sharpness and weight, and what it says about any input."""

    block: Block
    ridge: float
    sharpness: float
    weight: float
    loadings: Floats

    @property
    def name(self) -> tuple[str, str, float]:
        """Return the kind of the kernel, the scale of its columns, and the ridge."""
        return self.block.features.kernel.kind, self.block.features.kernel.scale, self.ridge


@dataclass(frozen=True)
class ClosedForm:
    """A mixture of settings, fitted.

    Parameters
    ----------
    settings : list of Setting
        Those of largest weight; the weights have sum 1.
    log_mean : array (K,)
        Logarithm of the mean of q.
    landmarks : array (D, d)
        Inputs that all kernels look back to.
    """

    settings: Sequence[Setting]
    log_mean: Floats
    landmarks: Array

    def predict(self, x: Array) -> Floats:
        """Return the probabilities of the classes of any inputs (B, d)."""
        centred: dict[int, Floats] = {}
        total = np.zeros((len(x), len(self.log_mean)))
        for setting in self.settings:
            block = setting.block
            if id(block) not in centred:
                centred[id(block)] = block.features(x) - block.mean
            scores = centred[id(block)] @ block.coefficients(setting.loadings, setting.ridge)
            total += setting.weight * np.exp(log_softmax(self.log_mean + setting.sharpness * scores))
        return total


class Ridge:
    """Kernels on the inputs of all items, factorised once; `fit` is then cheap for any targets.

    Parameters
    ----------
    x : array (n, d)
        Different inputs.
    weight : array (n,), optional
        Items that have each.
    kernels : sequence of Kernel
    """

    def __init__(self, x: Array, weight: Floats | None = None, kernels: Sequence[Kernel] = KERNELS):
        self.weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
        mean, variance = moments(x, self.weight)
        scales = {kind: Scale.fit(kind, mean, variance) for kind in ("each", "alike")}
        self.landmarks = np.asarray(x[np.sort(np.random.default_rng(0).permutation(len(x))[:LANDMARKS])])
        dtype: Precision = np.float32 if len(x) > SINGLE else np.float64
        features = (Features.fit(kernel, scales[kernel.scale], self.landmarks, dtype) for kernel in kernels)
        self.blocks = [Block(each, x, self.weight) for each in features]
        self.deciding = np.unique(np.linspace(0, len(x) - 1, min(len(x), DECIDING)).astype(np.int64))

    def fit(self, q: Floats, evidence: Floats) -> tuple[Floats, ClosedForm]:
        """Fit to soft targets.

        Parameters
        ----------
        q : array (n, K)
            Targets; rows have sum 1.
        evidence : array (n, K)
            Logarithm of the likelihood of each item's answers, by its class.

        Returns
        -------
        p : array (n, K)
            What fits without each item say about it.
        fitted : ClosedForm
        """
        mean = self.weight @ q / self.weight.sum()
        targets, log_mean = q - mean, np.log(np.maximum(mean, 1e-6))
        settings = self.weigh(targets, log_mean, evidence)
        p = np.zeros_like(q)
        for block in self.blocks:
            mine = [setting for setting in settings if setting.block is block]
            for rows, u in block.all_scaled() if mine else ():
                for each in mine:
                    g = block.left_out(u, each.loadings, each.ridge, targets[rows], self.weight[rows])
                    p[rows] += each.weight * sharpened(g, log_mean, each.sharpness)
        return p, ClosedForm(settings, log_mean, self.landmarks)

    def weigh(self, targets: Floats, log_mean: Floats, evidence: Floats) -> list[Setting]:
        """Find the sharpness and the weight of every setting, and keep those of largest weight."""
        some = self.deciding
        likely = np.exp(evidence[some] - evidence[some].max(1, keepdims=True))
        found, likelihoods = [], []
        for block in self.blocks:
            loadings, u = block.loadings(targets), block.some_scaled(some)
            for ridge in block.ridges:
                g = block.left_out(u, loadings, ridge, targets[some], self.weight[some])
                sharpness, likelihood = best_sharpness(g, log_mean, likely, self.weight[some])
                found.append(Setting(block, float(ridge), sharpness, 0.0, loadings))
                likelihoods.append(likelihood)
        weights = stack(np.stack(likelihoods), self.weight[some])
        largest = np.sort(np.argsort(-weights, kind="stable")[:KEPT])
        total = weights[largest].sum()
        return [replace(found[at], weight=float(weights[at] / total)) for at in largest]


def sharpened(g: Floats, log_mean: Floats, sharpness: float) -> Floats:
    """Return p of G."""
    return np.asarray((1 - UNIFORM) * np.exp(log_softmax(log_mean + sharpness * g)) + UNIFORM / len(log_mean))


def best_sharpness(g: Floats, log_mean: Floats, likely: Floats, weight: Floats) -> tuple[float, Floats]:
    """Return the sharpness under which the answers are most likely, and the likelihood of each item's answers."""
    best, most, found = SHARPNESS[0], -np.inf, np.zeros(len(g))
    for sharpness in SHARPNESS:
        likelihood = (sharpened(g, log_mean, sharpness) * likely).sum(1)
        total = float(weight @ np.log(likelihood))
        if total <= most:
            break  # it rises, and then falls
        best, most, found = sharpness, total, likelihood
    return best, found


def stack(likelihood: Floats, weight: Floats) -> Floats:
    """Return weights v, at least 0 and of sum 1, that maximise sum_i w_i log sum_m v_m likelihood_mi, by EM."""
    likelihood = likelihood / likelihood.max(0)
    v = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(STACKING_STEPS):
        joint = v[:, None] * likelihood
        v = (joint / joint.sum(0)) @ weight / weight.sum()
    return v


def parts(n: int) -> list[slice]:
    """Split n rows into parts of moderate size."""
    return [slice(start, min(start + PART, n)) for start in range(0, n, PART)]


def moments(x: Array, weight: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each column, some rows at a time."""
    n = weight.sum()
    mean = np.asarray(sum(weight[rows] @ np.asarray(x[rows], np.float64) for rows in parts(len(x)))) / n
    variance = sum(weight[rows] @ (np.asarray(x[rows], np.float64) - mean) ** 2 for rows in parts(len(x)))
    return mean, np.asarray(variance) / n
