"""The closed forms against Monte Carlo, plain least squares, and each other (METHODS.md section 6)."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

pytestmark = pytest.mark.draws_figures

GATES = {
    "right": {},
    "keeps wrong rows": {"wrong_kept": 7},
    "drops clean rows": {"clean_dropped": 9},
    "both": {"wrong_kept": 5, "clean_dropped": 12},
}


@pytest.fixture(scope="module")
def theory(benchmark):
    return benchmark("theory")


@pytest.fixture(scope="module")
def model(theory):
    return theory.make_model(60, 24, d=4, m=3, sigma=0.7, seed=3)


def close_to_monte_carlo(theory, model, risk, estimate):
    mean, error = theory.simulate_risk(model, estimate, n_draws=20_000)
    assert error < 0.02 * mean
    return abs(mean - risk.total) < 3 * error


def test_ols_risk_is_what_monte_carlo_finds(theory, model):
    risk = theory.ols_risk(model)
    assert close_to_monte_carlo(theory, model, risk, lambda y: np.linalg.lstsq(model.x, y, rcond=None)[0])


@pytest.mark.parametrize("gate", GATES)
def test_pi_dual_is_least_squares_on_both_masked_matrices(theory, model, gate):
    kept = theory.mistaken_gate(model.clean, **GATES[gate])
    both = np.hstack([kept[:, None] * model.x, ~kept[:, None] * model.a])
    y = np.random.default_rng(0).normal(size=60)
    w = theory.pi_dual_matrix(model.x, model.a, kept) @ y
    np.testing.assert_allclose(w, np.linalg.lstsq(both, y, rcond=None)[0][:4], atol=1e-12)
    np.testing.assert_allclose(w, theory.ols_matrix(model.x[kept]) @ y[kept], atol=1e-12)
    risk = theory.pi_dual_risk(model, kept)
    assert close_to_monte_carlo(theory, model, risk, lambda y: np.linalg.lstsq(both, y, rcond=None)[0][:4])


@pytest.mark.parametrize("gate", GATES)
def test_bias_and_variance_are_those_of_the_linear_estimator(theory, model, gate):
    """By plain loops: E[w_hat] = H E[y], Cov(w_hat) = sigma^2 H H'."""
    kept = theory.mistaken_gate(model.clean, **GATES[gate])
    for h, risk in (
        (theory.ols_matrix(model.x), theory.ols_risk(model)),
        (theory.pi_dual_matrix(model.x, model.a, kept), theory.pi_dual_risk(model, kept)),
    ):
        bias = variance = 0.0
        for row in model.x[model.clean]:
            bias += (row @ (h @ model.means - model.w)) ** 2
            variance += sum((row @ h[:, i]) ** 2 for i in range(60)) * model.sigma**2
        n_clean = model.clean.sum()
        found = (risk.bias, risk.variance, risk.noise)
        assert found == pytest.approx((bias / n_clean, variance / n_clean, 0.49), rel=1e-9, abs=1e-15)


def test_curves_grow_as_the_paper_says(theory, tmp_path):
    by_wrong = theory.risk_by_wrong_labels([0, 20, 40], n=80, d=4, m=4, n_models=5)
    bias = {name: [risk.bias for risk in by_wrong[name]] for name in ("ols", "pi_dual", "pi_dual_missing")}
    assert bias["pi_dual"] == [0, 0, 0]
    assert bias["ols"][0] < bias["ols"][1] < bias["ols"][2]
    assert 0 < bias["pi_dual_missing"][2] < 0.2 * bias["ols"][2]
    by_mistakes = theory.risk_by_gate_mistakes([0, 10, 40], n_wrong=40, n=100, d=4, m=4, n_models=5)
    kept = [risk.bias for risk in by_mistakes["wrong_kept"]]
    assert kept[0] == 0 < kept[1] < kept[2]
    assert kept[2] == pytest.approx(by_mistakes["ols"][0].bias)  # everything is kept
    assert [risk.bias for risk in by_mistakes["clean_dropped"]] == pytest.approx([0] * 3, abs=1e-20)
    dropped = [risk.variance for risk in by_mistakes["clean_dropped"]]
    assert dropped[0] < dropped[1] < dropped[2]  # which costs variance only
    theory.draw_risks(tmp_path / "theory.svg", by_wrong, by_mistakes)
    text = " ".join(ET.parse(tmp_path / "theory.svg").getroot().itertext())
    for words in ("OLS", "Pi-DUAL, right gate", "wrong rows kept", "clean rows dropped", "wrong labels"):
        assert words in text
