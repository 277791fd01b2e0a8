"""The risks of OLS and of Pi-DUAL in the paper's linear model, in closed form and by Monte Carlo.

    python benchmarks/theory.py [--out benchmarks/results/theory.json] [--figure docs/figures/theory.svg]

400 rows with 10 features and 10 numbers of PI; risks are means over 20 models. The figure shows both sets of curves.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from common import RESULTS, write_result

from pidual.paper.theory import (
    Risk,
    draw_risks,
    make_model,
    mistaken_gate,
    ols_matrix,
    ols_risk,
    pi_dual_matrix,
    pi_dual_risk,
    risk_by_gate_mistakes,
    risk_by_wrong_labels,
    simulate_risk,
)

SIZES = {"n": 400, "d": 10, "m": 10, "sigma": 0.5}
N_WRONG = 160  # 40%, as CIFAR-10N and CIFAR-100N have it
N_DRAWS = 4000


def plain(curves):
    """Curves with risks as numbers, rounded."""

    def number(value):
        if not isinstance(value, Risk):
            return value
        return {name: round(part, 6) for name, part in {**asdict(value), "total": value.total}.items()}

    return {name: [number(value) for value in values] for name, values in curves.items()}


def simulated():
    """Closed form and Monte Carlo side by side, for one model and several gates."""
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
