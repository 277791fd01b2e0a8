"""Kernel ridge regression on soft targets, with the prediction of every item by the fit without it.

    T = (q / mean q - 1) / K,   F = U (shrink * U' T),   h_i = sum_j U_ij^2 shrink_j + 1/n,   shrink = S^2 / (S^2 + lam)
    G_i = (F_i - h_i T_i) / (1 - h_i)                            what the fit without item i says about i
    p_i = softmax(log mean q + beta G_i), mixed with 1% of the uniform

T is by how much a class is likelier than it is among all items: log(P(k | x) / mean q_k) to first order. With
q - mean q instead, how frequent a class is would count twice, in T and in log mean q.

U S V' is the singular value decomposition of the centred features phi, <phi, phi'> = k. Items with the same input are
one row of weight w, left out together: F, T and U of such a row have a factor sqrt(w), and its h has w / n.

    U = sqrt(w) (k(x, landmarks) - mean) B
    B = U / S^2 by the eigenvectors of the centred kernel itself, where all inputs are landmarks
    B = L^-T V / S, V S^2 V' = sum of L^-1 k k' L^-T over inputs, L L' = k(landmarks, landmarks), else (Nystrom)

A *setting* is a kernel and a ridge lam. Its sharpness beta maximises the likelihood of the answers, and so do the
weights of all settings: no clean label is needed, and an item's own answers are judged by fits without it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from ..answers.model import exponentials, softmax
from .kernels import KERNELS, LANDMARKS, Array, Features, Kernel, Precision, Scale

RIDGES = 10 ** np.linspace(-2.5, 2.5, 9)  # times the mean of S^2
SHARPNESS = (1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 9.0, 13.0, 18.0, 25.0)
FIRST = 5  # of these, where a search begins
UNIFORM = 0.01
LEAST_SHARE = 0.05  # of a class, times 1 / K, that its targets are divided by
STACKING_STEPS, KEPT = 60, 12
LEAST = 1e-3  # of 1 - h
NEGLIGIBLE: dict[Precision, float] = {np.float64: 1e-9, np.float32: 1e-6}  # part of the largest S^2, that is left out
JITTER = 1e-6  # of the mean of the diagonal of k(landmarks, landmarks)
SINGLE = 500  # inputs from which features are worked out in single precision
DECIDING, DECIDING_NUMBERS = 5000, 2**22  # items whose answers decide, and these times K
CHOOSING = 500  # inputs that choose kernels, of more than LANDMARKS
MOST_KERNELS, WORTH = 3, 0.0005  # that are chosen, and the log-likelihood of an item's answers that one must add
PART = 2**11  # inputs whose features are worked out at once
CACHED = 2**25  # numbers of U that are kept; beyond, features are worked out anew in each round

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Processes:
    """Processes that each work on some parts of the inputs, and add up what they find."""

    rank: int = 0  # which this one is
    n: int = 1  # of how many
    total: Callable[[Array], Array] = lambda array: array  # the sum of an array over all processes

    def mine(self, n_rows: int) -> list[slice]:
        """Return the parts of the rows that this process works on."""
        return parts(n_rows)[self.rank :: self.n]


ALONE = Processes()


@dataclass
class Block:
    """One kernel on all inputs, factorised."""

    features: Features
    x: Array  # (n, d), different inputs; may be a memory map
    weight: Floats  # (n,), items that have each
    deciding: Ints  # (M,), inputs whose answers decide
    processes: Processes = ALONE  # who share the work, where U is too large to be kept
    mean: Floats = field(init=False)
    directions: Floats = field(init=False)  # B
    squares: Floats = field(init=False)  # S^2
    h: Floats = field(init=False)  # of every input and ridge (n, 9)
    u: Floats | None = None

    def __post_init__(self) -> None:
        root: Array = np.sqrt(self.weight)[:, None].astype(self.features.dtype)
        if self.features.landmarks is not None and self.features.size == len(self.x):
            k = self.features.kernel(self.features.landmarks, self.features.landmarks)
            self.mean = self.weight @ k / self.weight.sum()
            centred = root * (k - self.mean - self.mean[:, None] + self.weight @ self.mean / self.weight.sum()) * root.T
            self.u = self._factorise(centred.astype(k.dtype))
            self.directions = root * self.u / self.squares
            self.processes = ALONE
        else:
            self._stream()
        self.h = np.zeros((len(self.x), len(RIDGES)), self.features.dtype)
        shrink: Array = self.shrink(self.ridges).astype(self.features.dtype)
        for rows in self.processes.mine(len(self.x)):
            u = self.scaled(rows)
            self.h[rows] = (u * u) @ shrink + self.weight[rows, None] / self.weight.sum()
        self.h = self.processes.total(self.h)
        self.u_deciding = self.scaled(self.deciding)

    def _stream(self) -> None:
        """Add up products of features, some inputs at a time; features of few inputs are kept, and become U."""
        keep = len(self.x) * self.features.size <= CACHED
        self.processes = ALONE if keep else self.processes
        factor = None
        if self.features.landmarks is not None:
            landmarks = self.features.landmarks.astype(np.float64)
            factor = root_of(self.features.kernel(landmarks, landmarks))
        single = None if factor is None else factor.astype(self.features.dtype)
        total, gram, of_features = (
            np.zeros(self.features.size),
            np.zeros((self.features.size,) * 2),
            np.zeros(self.features.size),
        )
        kept: Array = np.empty((len(self.x) if keep else 0, self.features.size), self.features.dtype)
        for rows in self.processes.mine(len(self.x)):
            phi: Array = self.features(self.x[rows])
            root: Array = np.sqrt(self.weight[rows]).astype(phi.dtype)
            of_features += self.weight[rows] @ phi
            if single is not None:
                phi = solve_triangular(single, phi.T, lower=True, overwrite_b=True, check_finite=False).T
            phi *= root[:, None]
            total += root @ phi
            gram += phi.T @ phi
            if keep:
                kept[rows] = phi
        total, gram, of_features = (self.processes.total(each) for each in (total, gram, of_features))
        n = self.weight.sum()
        self.mean = of_features / n
        vectors = self._factorise((gram - np.outer(total, total) / n).astype(self.features.dtype))
        self.directions = vectors / np.sqrt(self.squares)
        if keep:
            self.u = kept[:, : len(self.squares)]
            for rows in parts(len(kept)):
                kept[rows] -= np.outer(np.sqrt(self.weight[rows]), total / n).astype(kept.dtype)
                kept[rows, : len(self.squares)] = kept[rows] @ self.directions.astype(kept.dtype)
        if factor is not None:
            self.directions = solve_triangular(factor, self.directions, lower=True, trans="T", check_finite=False)

    def _factorise(self, matrix: Floats) -> Floats:
        """Find eigenvalues S^2, and return eigenvectors, without those that are negligible."""
        driver = "evd" if len(matrix) > 1 else "ev"  # SciPy 1.11 refuses a single number by the other one
        squares, vectors = eigh(matrix, driver=driver, overwrite_a=True, check_finite=False)
        used = squares > NEGLIGIBLE[self.features.dtype] * max(squares[-1], 1e-300)
        self.squares = squares[used].astype(np.float64)
        return np.asarray(vectors[:, used])

    def scaled(self, rows: slice | Ints) -> Floats:
        """Return rows of U."""
        if self.u is not None:
            return np.asarray(self.u[rows])
        return self.through(rows, self.directions)

    def through(self, rows: slice | Ints, directions: Floats) -> Floats:
        """Return sqrt(w) (k - mean) times some directions (D, M), of rows."""
        phi = self.features(self.x[rows])
        phi -= self.mean.astype(phi.dtype)
        return np.asarray(phi @ directions.astype(phi.dtype)) * np.sqrt(self.weight[rows, None]).astype(phi.dtype)

    @property
    def ridges(self) -> Floats:
        """Return lam of every ridge."""
        return np.asarray(RIDGES * self.squares.sum() / max(1, len(self.squares)))

    def shrink(self, ridge: float | Floats) -> Floats:
        """Return S^2 / (S^2 + lam), (r,) or of each ridge (r, M)."""
        return np.asarray(self.squares / (self.squares + np.asarray(ridge)[..., None])).T

    def loadings(self, targets: Floats) -> Floats:
        """Return U' T of targets (n, K), not weighted."""
        found = np.zeros((len(self.squares) if self.u is not None else self.features.size, targets.shape[1]))
        for rows in self.processes.mine(len(self.x)):
            if self.u is not None:
                u = self.u[rows]
                found += u.T @ (np.sqrt(self.weight[rows, None]) * targets[rows]).astype(u.dtype)
            else:
                phi = self.features(self.x[rows])
                found += phi.T @ (self.weight[rows, None] * targets[rows]).astype(phi.dtype)
        found = self.processes.total(found)
        if self.u is None:  # targets have mean 0
            found = self.directions.T.astype(np.float64) @ found
        return found

    def left_out(self, fitted: Floats, h: Floats, targets: Floats, weight: Floats) -> Floats:
        """Return G of rows, from U (shrink * U' T) and h."""
        h, root = h[:, None], np.sqrt(weight)[:, None].astype(fitted.dtype)
        return np.asarray((fitted / root - h * targets) / np.maximum(1 - h, LEAST))

    def coefficients(self, loadings: Floats, ridge: float) -> Floats:
        """Return W (D, K): the fit to all items says (k(x, landmarks) - mean) W."""
        return np.asarray(self.directions.astype(np.float64) @ (self.shrink(ridge)[:, None] * loadings))


@dataclass(frozen=True)
class Setting:
    """A kernel with its ridge, sharpness and weight, and what it says about any input."""

    block: Block
    number: int  # of its ridge
    sharpness: float
    weight: float
    loadings: Floats

    @property
    def ridge(self) -> float:
        """Return lam."""
        return float(self.block.ridges[self.number])

    @property
    def coefficients(self) -> Floats:
        """Return W, times the sharpness."""
        return self.sharpness * self.block.coefficients(self.loadings, self.ridge)


@dataclass(frozen=True)
class ClosedForm:
    """A mixture of settings, fitted."""

    settings: Sequence[Setting]  # those of largest weight; the weights have sum 1
    log_mean: Floats  # (K,), logarithm of the mean of q
    landmarks: Array  # (D, d), inputs that all kernels look back to

    def predict(self, x: Array) -> Floats:
        """Return the probabilities of the classes of any inputs (B, d)."""
        return Predictors([self])(x)[0]


class Predictors:
    """Several fits on the same kernels, whose features of an input are worked out once for all."""

    def __init__(self, forms: Sequence[ClosedForm]):
        self.forms = forms
        settings = [(at, each) for at, form in enumerate(forms) for each in form.settings]
        blocks = {id(each.block): each.block for _, each in settings}
        self.parts = []
        for block in blocks.values():
            mine = [(at, each) for at, each in settings if each.block is block]
            self.parts.append((block, mine, np.concatenate([each.coefficients for _, each in mine], axis=1)))

    def __call__(self, x: Array) -> list[Floats]:
        """Return what each says about any inputs: (B, K) of each."""
        found = [np.zeros((len(x), len(form.log_mean))) for form in self.forms]
        for block, settings, coefficients in self.parts:
            scores = np.split((block.features(x) - block.mean) @ coefficients, len(settings), axis=1)
            for (at, each), of_setting in zip(settings, scores, strict=True):
                found[at] += each.weight * softmax(self.forms[at].log_mean + of_setting)[1]
        return found


class Ridge:
    """Kernels on the inputs of all items, factorised once; `fit` is then cheap for any targets."""

    def __init__(
        self,
        x: Array,  # (n, d), different inputs
        weight: Floats | None = None,  # (n,), items that have each
        kernels: Sequence[Kernel] = KERNELS,
        processes: Processes = ALONE,  # who share the work of many inputs
    ):
        self.weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
        mean, variance = _moments(x, self.weight)
        scales = {kind: Scale.fit(kind, mean, variance) for kind in ("each", "alike")}
        self.landmarks = np.asarray(x[np.sort(np.random.default_rng(0).permutation(len(x))[:LANDMARKS])])
        dtype: Precision = np.float32 if len(x) >= SINGLE else np.float64
        features = (Features.fit(kernel, scales[kernel.scale], self.landmarks, dtype) for kernel in kernels)
        self.deciding = np.unique(np.linspace(0, len(x) - 1, min(len(x), DECIDING)).astype(np.int64))
        self.blocks = [Block(each, x, self.weight, self.deciding, processes) for each in features]

    def fit(self, q: Floats, evidence: Floats) -> tuple[Floats, ClosedForm]:
        """Fit to soft targets.

        `q` (n, K): targets; rows have sum 1.
        `evidence` (n, K): logarithm of the likelihood of each item's answers, by its class.
        Returned `p` (n, K): what fits without each item say about it.
        """
        mean = self.weight @ q / self.weight.sum()
        targets, log_mean = relative(q, mean), np.log(np.maximum(mean, 1e-6))
        settings = self.weigh(targets, log_mean, evidence)
        p = np.zeros_like(q)
        for block in self.blocks:
            mine = [setting for setting in settings if setting.block is block]
            shrunk = [block.shrink(each.ridge)[:, None] * each.loadings for each in mine]
            of_block = np.zeros_like(q)
            for rows in block.processes.mine(len(q)) if mine else ():
                all_at_once, target = np.concatenate(shrunk, axis=1), targets[rows].astype(block.h.dtype)
                if block.u is None:
                    fitted = block.through(rows, block.directions @ all_at_once)
                else:
                    fitted = block.u[rows] @ all_at_once.astype(block.u.dtype)
                for each, part in zip(mine, np.split(fitted, len(mine), axis=1), strict=True):
                    g = block.left_out(part, block.h[rows, each.number], target, self.weight[rows])
                    of_block[rows] += each.weight * _sharpened(g, log_mean, each.sharpness)
            p += block.processes.total(of_block) if mine else 0.0
        return p, ClosedForm(settings, log_mean, self.landmarks)

    def weigh(self, targets: Floats, log_mean: Floats, evidence: Floats) -> list[Setting]:
        """Find the sharpness and the weight of every setting, and keep those of largest weight."""
        found, likelihood = self.try_all(targets, log_mean, evidence)
        weights = stack(likelihood, self.weight[self.some(targets)])
        largest = np.sort(np.argsort(-weights, kind="stable")[:KEPT])
        total = weights[largest].sum()
        return [replace(found[at], weight=float(weights[at] / total)) for at in largest]

    def try_all(self, targets: Floats, log_mean: Floats, evidence: Floats) -> tuple[list[Setting], Floats]:
        """Find the sharpness of every setting, and how likely it makes the answers to each deciding item."""
        some = self.some(targets)
        likely = np.exp(evidence[some] - evidence[some].max(1, keepdims=True))
        weight, of_some = self.weight[some], np.searchsorted(self.deciding, some)
        found, likelihoods = [], []
        first = FIRST  # then that of the ridge before
        for block in self.blocks:
            loadings, u = block.loadings(targets), block.u_deciding[of_some]
            target = targets[some].astype(u.dtype)
            for number, ridge in enumerate(block.ridges):
                fitted = u @ (block.shrink(ridge)[:, None] * loadings).astype(u.dtype)
                g = block.left_out(fitted, block.h[some, number], target, weight)
                first, likelihood = _best_sharpness(g, log_mean, likely, weight, first)
                found.append(Setting(block, number, SHARPNESS[first], 0.0, loadings))
                likelihoods.append(likelihood)
        return found, np.stack(likelihoods)

    def some(self, targets: Floats) -> Ints:
        """Return the items whose answers decide; fewer of many classes."""
        return self.deciding[:: max(1, len(self.deciding) * targets.shape[1] // DECIDING_NUMBERS)]


def choose_kernels(x: Array, weight: Floats, q: Floats, evidence: Floats) -> list[Kernel]:
    """Choose kernels that are worth working out for all of many inputs, by some of these.

    One after the other, that which makes the answers most likely beside those chosen before; see `Ridge.fit`.
    """
    rows = np.linspace(0, len(x) - 1, CHOOSING).astype(np.int64)
    tried = Ridge(np.asarray(x[rows]), weight[rows])
    mean = tried.weight @ q[rows] / tried.weight.sum()
    _, likelihood = tried.try_all(relative(q[rows], mean), np.log(np.maximum(mean, 1e-6)), evidence[rows])
    of_kernel, most = np.arange(len(likelihood)) // len(RIDGES), -np.inf
    chosen: list[int] = []
    while len(chosen) < MOST_KERNELS:
        totals = {}
        for number in sorted(set(range(len(KERNELS))) - set(chosen)):
            mine = likelihood[np.isin(of_kernel, [*chosen, number])]
            totals[number] = float(tried.weight @ np.log(stack(mine, tried.weight) @ mine))
        best = max(totals, key=lambda number: totals[number])
        if totals[best] - most < WORTH * tried.weight.sum():
            break
        chosen, most = [*chosen, best], totals[best]
    return [KERNELS[number] for number in sorted(chosen)]


def relative(q: Floats, mean: Floats) -> Floats:
    """Return T: by how much each class is likelier than its share of all items, over K."""
    return (q - mean) / np.maximum(len(mean) * mean, LEAST_SHARE)


def _sharpened(g: Floats, log_mean: Floats, sharpness: float) -> Floats:
    """Return p of G."""
    p = softmax(log_mean.astype(g.dtype) + sharpness * g)[1]
    p *= 1 - UNIFORM
    p += UNIFORM / len(log_mean)
    return p


def _best_sharpness(g: Floats, log_mean: Floats, likely: Floats, weight: Floats, first: int) -> tuple[int, Floats]:
    """Return which sharpness makes the answers most likely, by steps from a first; and how likely each item's are."""
    tried: dict[int, tuple[float, Floats]] = {}
    anyway, likely, log_mean = UNIFORM * likely.mean(1), likely.astype(g.dtype), log_mean.astype(g.dtype)

    def total(number: int) -> float:
        if not 0 <= number < len(SHARPNESS):
            return -np.inf
        if number not in tried:
            _, e, sums = exponentials(log_mean + SHARPNESS[number] * g)
            found = (1 - UNIFORM) * np.einsum("nk,nk->n", e, likely) / sums + anyway
            tried[number] = float(weight @ np.log(found)), found
        return tried[number][0]

    best = first
    for step in (-1, 1):
        while total(best + step) > total(best):
            best += step
    return best, tried[best][1]


def stack(likelihood: Floats, weight: Floats) -> Floats:
    """Return weights v, at least 0 and of sum 1, that maximise sum_i w_i log sum_m v_m likelihood_mi, by EM."""
    likelihood = likelihood / likelihood.max(0)
    v = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(STACKING_STEPS):
        joint = v[:, None] * likelihood
        v = (joint / joint.sum(0)) @ weight / weight.sum()
    return v


def root_of(k: Floats) -> Floats:
    """Return L of k = L L', with as much added to the diagonal as it takes."""
    jitter, size = JITTER, max(float(np.trace(k)) / len(k), 1e-12)
    while True:
        try:
            return np.asarray(cholesky(k + jitter * size * np.eye(len(k)), lower=True, check_finite=False))
        except LinAlgError:
            jitter *= 10


def parts(n: int) -> list[slice]:
    """Split n rows into parts of moderate size."""
    return [slice(start, min(start + PART, n)) for start in range(0, n, PART)]


def _moments(x: Array, weight: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each column, some rows at a time."""
    n = weight.sum()
    mean = np.asarray(sum(weight[rows] @ np.asarray(x[rows], np.float64) for rows in parts(len(x)))) / n
    variance = sum(weight[rows] @ (np.asarray(x[rows], np.float64) - mean) ** 2 for rows in parts(len(x)))
    return mean, np.asarray(variance) / n
