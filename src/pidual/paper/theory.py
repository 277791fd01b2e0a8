"""The paper's theory: when explaining wrong targets by PI beats least squares that knows nothing of them.

    y = X w + noise on clean rows,   y = A v + noise on wrong rows,      noise of variance sigma^2

    OLS       min over w of     || y - X w ||^2
    Pi-DUAL   min over w, v of  || y - kept X w - (1 - kept) A v ||^2,   `kept` being 1 on rows the gate calls clean

The risk of an estimate of w is its mean squared error on new targets of the clean rows, with X and A fixed, in
expectation over the noise. It is bias + variance + sigma^2: OLS has a bias from every wrong row, Pi-DUAL only from rows
the gate is mistaken about. The paper's appendix writes gamma for `kept`, which is 1 minus the gate of its main text and
of the rest of this package.

Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
2310.06600, appendix A.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
Curves = dict[str, list[Any]]  # a list of counts, and lists of Risk beside it


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Targets of which some follow x and the others, the wrong ones, follow the PI.

    Parameters
    ----------
    x : array (n, d)
        Features.
    a : array (n, m)
        PI.
    clean : bool array (n,)
        Rows whose target follows x.
    w : array (d,)
        Weights of the clean targets.
    v : array (m,)
        Weights of the wrong targets.
    sigma : float
        Standard deviation of the noise.
    """

    x: Array
    a: Array
    clean: Mask
    w: Array
    v: Array
    sigma: float

    def __post_init__(self) -> None:
        n, d = self.x.shape
        if self.a.shape != (n, len(self.v)) or self.clean.shape != (n,) or self.w.shape != (d,):
            raise UsageError("x (n, d), a (n, m), clean (n,), w (d,) and v (m,) do not fit each other.")
        if not self.clean.any():
            raise UsageError("The risk is that on clean rows, and there is none.")

    @property
    def means(self) -> Array:
        """Expected targets (n,)."""
        return np.where(self.clean, self.x @ self.w, self.a @ self.v)

    @property
    def delta(self) -> Array:
        """What x says minus what the PI says, of every target (n,)."""
        return self.x @ self.w - self.a @ self.v


@dataclass(frozen=True)
class Risk:
    """Expected squared error on new clean targets, in parts.

    Parameters
    ----------
    bias, variance, noise : float
        From what the estimator gets wrong on average; from the noise in what it was fitted to; sigma^2.
    """

    bias: float
    variance: float
    noise: float

    @property
    def total(self) -> float:
        """The risk."""
        return self.bias + self.variance + self.noise


def ols_matrix(x: Array) -> Array:
    """(X'X)^-1 X' of shape (d, n), which makes the OLS weights from targets."""
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise UsageError(f"{len(x)} rows do not determine the weights of {x.shape[1]} features.")
    return np.linalg.solve(x.T @ x, x.T)


def pi_dual_matrix(x: Array, a: Array, kept: Mask) -> Array:
    """H of shape (d, n), which makes Pi-DUAL's weights of x from targets, for a gate that calls the rows `kept` clean.

    With the masked matrices X_ = kept X and A_ = (1 - kept) A, and X_a the part of X_ orthogonal to A_:
    H = (X_a' X_a)^-1 X_a'. Since no row is in both X_ and A_, this is least squares on the kept rows.
    """
    masked_x, masked_a = np.where(kept[:, None], x, 0.0), np.where(kept[:, None], 0.0, a)
    x_a = masked_x - masked_a @ np.linalg.lstsq(masked_a, masked_x, rcond=None)[0]
    if np.linalg.matrix_rank(x_a) < x.shape[1]:
        raise UsageError(f"The gate keeps {int(kept.sum())} rows, which do not determine {x.shape[1]} weights.")
    return np.linalg.solve(x_a.T @ x_a, x_a.T)


def ols_risk(model: LinearModel) -> Risk:
    """Risk of OLS: ||clean P (1 - clean) delta||^2 / n_1 + sigma^2 tr(Q^-1 Q_1) / n_1 + sigma^2.

    P projects on the columns of X; Q = X'X, Q_1 = X_1'X_1 and n_1 are of all, of the clean, and their number of rows.
    """
    clean_x = model.x[model.clean]
    bias = clean_x @ (ols_matrix(model.x) @ (~model.clean * model.delta))
    variance = np.trace(np.linalg.solve(model.x.T @ model.x, clean_x.T @ clean_x))
    return _risk(model, bias, float(variance))


def pi_dual_risk(model: LinearModel, kept: Mask) -> Risk:
    """Risk of Pi-DUAL: ||clean X H (clean - kept) delta||^2 / n_1 + sigma^2 tr((X_a' X_a)^-1 Q_1) / n_1 + sigma^2.

    H and X_a are those of `pi_dual_matrix`. Without mistakes of the gate the bias is 0.
    """
    clean_x, h = model.x[model.clean], pi_dual_matrix(model.x, model.a, kept)
    mistakes = model.clean.astype(float) - kept.astype(float)
    variance = np.trace(h @ h.T @ clean_x.T @ clean_x)  # H H' is (X_a' X_a)^-1
    return _risk(model, clean_x @ (h @ (mistakes * model.delta)), float(variance))


def _risk(model: LinearModel, bias: Array, variance: float) -> Risk:
    n_clean, noise = int(model.clean.sum()), model.sigma**2
    return Risk(float(bias @ bias) / n_clean, noise * variance / n_clean, noise)


def pi_dual_is_better(model: LinearModel, kept: Mask) -> bool:
    """Whether the risk of OLS is above that of Pi-DUAL with this gate (the paper's proposition)."""
    ols, pi_dual = ols_risk(model), pi_dual_risk(model, kept)
    return ols.bias + ols.variance > pi_dual.bias + pi_dual.variance


def simulate_risk(
    model: LinearModel, estimate: Callable[[Array], Array], *, n_draws: int, seed: int = 0
) -> tuple[float, float]:
    """Risk by Monte Carlo, and its standard error.

    Parameters
    ----------
    model : LinearModel
    estimate : callable
        Targets (n, n_draws), a column for each draw, to weights (d, n_draws).
    n_draws : int
        How often targets are drawn, to fit and to judge.
    seed : int
    """
    rng = np.random.default_rng(seed)
    clean_x = model.x[model.clean]
    y = model.means[:, None] + model.sigma * rng.standard_normal((len(model.x), n_draws))
    new = (clean_x @ model.w)[:, None] + model.sigma * rng.standard_normal((len(clean_x), n_draws))
    errors = np.square(new - clean_x @ estimate(y)).mean(0)
    return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(n_draws))


# --- how the risks grow ---


def make_model(n: int, n_wrong: int, *, d: int = 10, m: int = 10, sigma: float = 1.0, seed: int = 0) -> LinearModel:
    """Normal features, PI and weights; the last `n_wrong` rows are wrong. All else is the same whatever `n_wrong` is.

    x'w and a'v have variance 1, so that a wrong target is about as large as a clean one.
    """
    rng = np.random.default_rng(seed)
    x, a = rng.standard_normal((n, d)), rng.standard_normal((n, m))
    w, v = rng.standard_normal(d), rng.standard_normal(m)
    return LinearModel(x, a, np.arange(n) < n - n_wrong, w / np.linalg.norm(w), v / np.linalg.norm(v), sigma)


def mistaken_gate(clean: Mask, *, wrong_kept: int = 0, clean_dropped: int = 0) -> Mask:
    """The rows a gate keeps that calls so many wrong rows clean, and so many clean rows wrong: the first of each."""
    for name, count, rows in (("wrong_kept", wrong_kept, ~clean), ("clean_dropped", clean_dropped, clean)):
        if not 0 <= count <= rows.sum():
            raise UsageError(f"{name} must be from 0 to {rows.sum()}, the number of such rows, not {count}.")
    kept = clean.copy()
    kept[np.flatnonzero(~clean)[:wrong_kept]] = True
    kept[np.flatnonzero(clean)[:clean_dropped]] = False
    return kept


def risk_by_wrong_labels(counts: Sequence[int], *, missed: float = 0.1, n_models: int = 20, **sizes: Any) -> Curves:
    """Risks against the number of wrong rows: of OLS, and of Pi-DUAL with a gate that is right or misses some of them.

    Parameters
    ----------
    counts : sequence of int
        Numbers of wrong rows.
    missed : float
        Share of the wrong rows that the worse gate calls clean.
    n_models : int
        Models, seeded from 0 on, that risks are averaged over.
    **sizes
        Arguments of `make_model`, `n` among them.
    """
    curves: Curves = {"n_wrong": list(counts), "ols": [], "pi_dual": [], "pi_dual_missing": []}
    for count in counts:
        models = [make_model(n_wrong=count, seed=seed, **sizes) for seed in range(n_models)]
        gates = [mistaken_gate(model.clean, wrong_kept=round(missed * count)) for model in models]
        curves["ols"].append(_mean([ols_risk(model) for model in models]))
        curves["pi_dual"].append(_mean([pi_dual_risk(model, model.clean) for model in models]))
        curves["pi_dual_missing"].append(_mean([pi_dual_risk(*pair) for pair in zip(models, gates, strict=True)]))
    return curves


def risk_by_gate_mistakes(counts: Sequence[int], *, n_wrong: int, n_models: int = 20, **sizes: Any) -> Curves:
    """Risks of Pi-DUAL against the number of wrong rows its gate keeps, and of clean rows it drops; OLS to compare.

    Parameters
    ----------
    counts : sequence of int
        Numbers of mistakes.
    n_wrong : int
        Wrong rows.
    n_models, **sizes
        As for `risk_by_wrong_labels`.
    """
    models = [make_model(n_wrong=n_wrong, seed=seed, **sizes) for seed in range(n_models)]
    curves: Curves = {"n_mistakes": list(counts), "ols": [_mean([ols_risk(model) for model in models])] * len(counts)}
    for kind in ("wrong_kept", "clean_dropped"):
        curves[kind] = [
            _mean([pi_dual_risk(model, mistaken_gate(model.clean, **{kind: count})) for model in models])
            for count in counts
        ]
    return curves


def _mean(risks: Sequence[Risk]) -> Risk:
    bias, variance, noise = np.mean([(risk.bias, risk.variance, risk.noise) for risk in risks], axis=0).tolist()
    return Risk(bias, variance, noise)


def draw_risks(path: Path, by_wrong: Curves, by_mistakes: Curves) -> None:
    """Write a figure of both kinds of curves as SVG.

    Parameters
    ----------
    path : Path
    by_wrong : dict
        From `risk_by_wrong_labels`.
    by_mistakes : dict
        From `risk_by_gate_mistakes`.
    """
    from ..show.report.figures import ALERT, CALM, MUTED
    from .plots import panel, write_svg

    def draw(axes: Sequence[Any]) -> None:
        for place, curves, x, title, lines in (
            (axes[0], by_wrong, "n_wrong", "Risk and wrong labels", WRONG_LABELS),
            (axes[1], by_mistakes, "n_mistakes", "Risk and mistakes of the gate", GATE_MISTAKES),
        ):
            for (name, label), colour, dash in zip(lines.items(), (ALERT, CALM, MUTED), ("--", "-", "-."), strict=True):
                totals = [risk.total for risk in curves[name]]
                place.plot(curves[x], totals, color=colour, linestyle=dash, linewidth=1.5, label=label)
            panel(place, title, x_label=X_LABELS[x], y_label="expected squared error")
            low, high = place.get_ylim()
            place.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
            place.legend(loc="upper left")

    write_svg(path, draw, panels=(1, 2), size=(7.2, 2.8))


WRONG_LABELS = {"ols": "OLS", "pi_dual": "Pi-DUAL, right gate", "pi_dual_missing": "Pi-DUAL, gate misses some"}
GATE_MISTAKES = {"ols": "OLS", "wrong_kept": "Pi-DUAL, wrong rows kept", "clean_dropped": "Pi-DUAL, clean rows dropped"}
X_LABELS = {"n_wrong": "wrong labels", "n_mistakes": "rows the gate is mistaken about"}
