"""The paper's theory: when explaining wrong targets by PI beats least squares that knows nothing of them.

    python benchmarks/theory.py [--out benchmarks/results/theory.json] [--figure docs/figures/theory.svg]

    y = X w + noise on clean rows,   y = A v + noise on wrong rows,      noise of variance sigma^2

    OLS       min over w of     || y - X w ||^2
    Pi-DUAL   min over w, v of  || y - kept X w - (1 - kept) A v ||^2,   `kept` being 1 on rows the gate calls clean

The risk of an estimate of w is its mean squared error on new targets of the clean rows, with X and A fixed, in
expectation over the noise: bias + variance + sigma^2. The paper's appendix A writes gamma for `kept`, which is 1 minus
the gate of its main text and of the rest of this package. The script writes the risks in closed form and by Monte
Carlo, means over 20 models of 400 rows with 10 features and 10 numbers of PI, and draws them.
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from common import RESULTS, write_result

from pidual.paper.summary import panel, write_svg
from pidual.show.report.figures import ALERT, CALM, MUTED

SIZES = {"n": 400, "d": 10, "m": 10, "sigma": 0.5}
N_WRONG = 160  # 40%, as CIFAR-10N and CIFAR-100N have it
N_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Targets of which some follow x and the others, the wrong ones, follow the PI.

    x (n, d), a (n, m)    features and PI
    clean (n,)            whether a row's target follows x
    w (d,), v (m,)        weights of the clean and of the wrong targets
    sigma                 standard deviation of the noise
    """

    x: np.ndarray
    a: np.ndarray
    clean: np.ndarray
    w: np.ndarray
    v: np.ndarray
    sigma: float

    @property
    def means(self):
        """Expected targets (n,)."""
        return np.where(self.clean, self.x @ self.w, self.a @ self.v)

    @property
    def delta(self):
        """What x says minus what the PI says, of every target (n,)."""
        return self.x @ self.w - self.a @ self.v

    def risk(self, bias, variance):
        """Return the risk on new clean targets from the bias of each (n_1,) and the sum of their variances."""
        n_clean, noise = int(self.clean.sum()), self.sigma**2
        return Risk(float(bias @ bias) / n_clean, float(noise * variance) / n_clean, noise)


@dataclass(frozen=True)
class Risk:
    """Expected squared error on new clean targets, in parts."""

    bias: float
    variance: float
    noise: float

    @property
    def total(self):
        return self.bias + self.variance + self.noise


def ols_matrix(x):
    """Return (X'X)^-1 X' of shape (d, n), which makes the OLS weights from targets."""
    return np.linalg.solve(x.T @ x, x.T)


def pi_dual_matrix(x, a, kept):
    """Return H of shape (d, n), which makes Pi-DUAL's weights of x from targets for a gate that keeps these rows.

    With the masked matrices X_ = kept X and A_ = (1 - kept) A, and X_a the part of X_ orthogonal to A_:
    H = (X_a' X_a)^-1 X_a'. Since no row is in both X_ and A_, this is least squares on the kept rows.
    """
    masked_x, masked_a = np.where(kept[:, None], x, 0.0), np.where(kept[:, None], 0.0, a)
    x_a = masked_x - masked_a @ np.linalg.lstsq(masked_a, masked_x, rcond=None)[0]
    return np.linalg.solve(x_a.T @ x_a, x_a.T)


def ols_risk(model):
    """Return the risk of OLS: ||clean P (1 - clean) delta||^2 / n_1 + sigma^2 tr(Q^-1 Q_1) / n_1 + sigma^2.

    P projects on the columns of X; Q = X'X, Q_1 = X_1'X_1 and n_1 are of all, of the clean, and their number of rows.
    """
    clean_x = model.x[model.clean]
    bias = clean_x @ (ols_matrix(model.x) @ (~model.clean * model.delta))
    return model.risk(bias, np.trace(np.linalg.solve(model.x.T @ model.x, clean_x.T @ clean_x)))


def pi_dual_risk(model, kept):
    """Return Pi-DUAL's: ||clean X H (clean - kept) delta||^2 / n_1 + sigma^2 tr((X_a'X_a)^-1 Q_1) / n_1 + sigma^2.

    H and X_a are those of `pi_dual_matrix`. Without mistakes of the gate the bias is 0.
    """
    clean_x, h = model.x[model.clean], pi_dual_matrix(model.x, model.a, kept)
    mistakes = model.clean.astype(float) - kept.astype(float)
    return model.risk(clean_x @ (h @ (mistakes * model.delta)), np.trace(h @ h.T @ clean_x.T @ clean_x))


def simulate_risk(model, estimate, *, n_draws, seed=0):
    """Return the risk by Monte Carlo, and its standard error; `estimate` makes weights (d, draws) from targets."""
    rng = np.random.default_rng(seed)
    clean_x = model.x[model.clean]
    y = model.means[:, None] + model.sigma * rng.standard_normal((len(model.x), n_draws))
    new = (clean_x @ model.w)[:, None] + model.sigma * rng.standard_normal((len(clean_x), n_draws))
    errors = np.square(new - clean_x @ estimate(y)).mean(0)
    return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(n_draws))


# --- how the risks grow ---


def make_model(n, n_wrong, *, d=10, m=10, sigma=1.0, seed=0):
    """Draw normal features, PI and weights; the last `n_wrong` rows are wrong, and all else does not depend on them.

    x'w and a'v have variance 1, so that a wrong target is about as large as a clean one.
    """
    rng = np.random.default_rng(seed)
    x, a = rng.standard_normal((n, d)), rng.standard_normal((n, m))
    w, v = rng.standard_normal(d), rng.standard_normal(m)
    return LinearModel(x, a, np.arange(n) < n - n_wrong, w / np.linalg.norm(w), v / np.linalg.norm(v), sigma)


def mistaken_gate(clean, *, wrong_kept=0, clean_dropped=0):
    """Return the rows a gate keeps that calls so many wrong rows clean, and so many clean rows wrong."""
    kept = clean.copy()
    kept[np.flatnonzero(~clean)[:wrong_kept]] = True
    kept[np.flatnonzero(clean)[:clean_dropped]] = False
    return kept


def risk_by_wrong_labels(counts, *, missed=0.1, n_models=20, **sizes):
    """Return risks against the number of wrong rows: of OLS, of Pi-DUAL, and where its gate misses a share of them."""
    curves = {"n_wrong": list(counts), "ols": [], "pi_dual": [], "pi_dual_missing": []}
    for count in counts:
        models = [make_model(n_wrong=count, seed=seed, **sizes) for seed in range(n_models)]
        gates = [mistaken_gate(model.clean, wrong_kept=round(missed * count)) for model in models]
        curves["ols"].append(mean_risk([ols_risk(model) for model in models]))
        curves["pi_dual"].append(mean_risk([pi_dual_risk(model, model.clean) for model in models]))
        curves["pi_dual_missing"].append(mean_risk([pi_dual_risk(*pair) for pair in zip(models, gates, strict=True)]))
    return curves


def risk_by_gate_mistakes(counts, *, n_wrong, n_models=20, **sizes):
    """Return risks against the number of wrong rows that the gate keeps, and of clean rows it drops; OLS beside."""
    models = [make_model(n_wrong=n_wrong, seed=seed, **sizes) for seed in range(n_models)]
    curves = {"n_mistakes": list(counts), "ols": [mean_risk([ols_risk(model) for model in models])] * len(counts)}
    for kind in ("wrong_kept", "clean_dropped"):
        curves[kind] = [
            mean_risk([pi_dual_risk(model, mistaken_gate(model.clean, **{kind: count})) for model in models])
            for count in counts
        ]
    return curves


def mean_risk(risks):
    return Risk(*np.mean([(risk.bias, risk.variance, risk.noise) for risk in risks], axis=0).tolist())


def simulated():
    """Return closed form and Monte Carlo side by side, for one model and several gates."""
    model, rows = make_model(n_wrong=N_WRONG, **SIZES), []
    cases = [("ols", ols_risk(model), ols_matrix(model.x))]
    for mistakes in ({}, {"wrong_kept": 40}, {"clean_dropped": 40}):
        kept = mistaken_gate(model.clean, **mistakes)
        name = "pi_dual" + "".join(f", {kind} {count}" for kind, count in mistakes.items())
        cases.append((name, pi_dual_risk(model, kept), pi_dual_matrix(model.x, model.a, kept)))
    for name, risk, matrix in cases:
        mean, error = simulate_risk(model, lambda y, matrix=matrix: matrix @ y, n_draws=N_DRAWS)
        rows.append({"case": name, "risk": risk.total, "simulated": mean, "standard_error": error})
        print(f"{name}: {risk.total:.4f}, simulated {mean:.4f} +- {error:.4f}")
    return rows


# --- what is written ---

WRONG_LABELS = {"ols": "OLS", "pi_dual": "Pi-DUAL, right gate", "pi_dual_missing": "Pi-DUAL, gate misses some"}
GATE_MISTAKES = {"ols": "OLS", "wrong_kept": "Pi-DUAL, wrong rows kept", "clean_dropped": "Pi-DUAL, clean rows dropped"}


def draw_risks(path, by_wrong, by_mistakes):
    """Write a figure of both kinds of curves as SVG."""
    panels = (
        (by_wrong, "n_wrong", "Risk and wrong labels", "wrong labels", WRONG_LABELS),
        (by_mistakes, "n_mistakes", "Risk and mistakes of the gate", "rows the gate is mistaken about", GATE_MISTAKES),
    )

    def draw(axes):
        for place, (curves, x, title, x_label, lines) in zip(axes, panels, strict=True):
            for (name, label), colour, dash in zip(lines.items(), (ALERT, CALM, MUTED), ("--", "-", "-."), strict=True):
                totals = [risk.total for risk in curves[name]]
                place.plot(curves[x], totals, color=colour, linestyle=dash, linewidth=1.5, label=label)
            panel(place, title, x_label=x_label, y_label="expected squared error")
            low, high = place.get_ylim()
            place.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
            place.legend(loc="upper left")

    write_svg(path, draw, panels=(1, 2), size=(7.2, 2.8))


def plain(curves):
    """Return curves with risks as numbers, rounded."""

    def number(value):
        if not isinstance(value, Risk):
            return value
        return {name: round(part, 6) for name, part in {**asdict(value), "total": value.total}.items()}

    return {name: [number(value) for value in values] for name, values in curves.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "theory.json")
    parser.add_argument("--figure", type=Path, default=Path(__file__).parents[1] / "docs" / "figures" / "theory.svg")
    arguments = parser.parse_args()
    by_wrong = risk_by_wrong_labels(range(0, 301, 20), **SIZES)
    by_mistakes = risk_by_gate_mistakes(range(0, N_WRONG + 1, 10), n_wrong=N_WRONG, **SIZES)
    arguments.figure.parent.mkdir(parents=True, exist_ok=True)
    draw_risks(arguments.figure, by_wrong, by_mistakes)
    results = {"by_wrong_labels": plain(by_wrong), "by_gate_mistakes": plain(by_mistakes), "simulated": simulated()}
    write_result(arguments.out, results, **SIZES, n_wrong=N_WRONG, n_draws=N_DRAWS)
