"""The closed forms against Monte Carlo, plain least squares, and each other."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from pidual.errors import UsageError
from pidual.paper.theory import (
    LinearModel,
    Risk,
    draw_risks,
    make_model,
    mistaken_gate,
    ols_matrix,
    ols_risk,
    pi_dual_is_better,
    pi_dual_matrix,
    pi_dual_risk,
    risk_by_gate_mistakes,
    risk_by_wrong_labels,
    simulate_risk,
)

MODEL = make_model(60, 24, d=4, m=3, sigma=0.7, seed=3)
GATES = {
    "right": mistaken_gate(MODEL.clean),
    "keeps wrong rows": mistaken_gate(MODEL.clean, wrong_kept=7),
    "drops clean rows": mistaken_gate(MODEL.clean, clean_dropped=9),
    "both": mistaken_gate(MODEL.clean, wrong_kept=5, clean_dropped=12),
}


def within_three_standard_errors(risk, estimate):
    mean, error = simulate_risk(MODEL, estimate, n_draws=20_000)
    assert error < 0.02 * mean
    return abs(mean - risk.total) < 3 * error


def test_ols_risk_is_what_monte_carlo_finds():
    assert within_three_standard_errors(ols_risk(MODEL), lambda y: np.linalg.lstsq(MODEL.x, y, rcond=None)[0])


@pytest.mark.parametrize("gate", GATES)
def test_pi_dual_risk_is_what_monte_carlo_finds(gate):
    kept = GATES[gate][:, None]
    both = np.hstack([kept * MODEL.x, ~kept * MODEL.a])
    assert within_three_standard_errors(
        pi_dual_risk(MODEL, GATES[gate]), lambda y: np.linalg.lstsq(both, y, rcond=None)[0][:4]
    )


@pytest.mark.parametrize("gate", GATES)
def test_pi_dual_is_least_squares_on_both_masked_matrices(gate):
    kept = GATES[gate]
    y = np.random.default_rng(0).normal(size=60)
    both = np.hstack([kept[:, None] * MODEL.x, ~kept[:, None] * MODEL.a])
    w = pi_dual_matrix(MODEL.x, MODEL.a, kept) @ y
    np.testing.assert_allclose(w, np.linalg.lstsq(both, y, rcond=None)[0][:4], atol=1e-12)
    np.testing.assert_allclose(w, ols_matrix(MODEL.x[kept]) @ y[kept], atol=1e-12)


@pytest.mark.parametrize("gate", GATES)
def test_bias_and_variance_are_those_of_the_linear_estimator(gate):
    """By plain loops: E[w_hat] = H E[y], Cov(w_hat) = sigma^2 H H'."""
    for h, risk in (
        (ols_matrix(MODEL.x), ols_risk(MODEL)),
        (pi_dual_matrix(MODEL.x, MODEL.a, GATES[gate]), pi_dual_risk(MODEL, GATES[gate])),
    ):
        bias = variance = 0.0
        for row in MODEL.x[MODEL.clean]:
            bias += (row @ (h @ MODEL.means - MODEL.w)) ** 2
            variance += sum((row @ h[:, i]) ** 2 for i in range(60)) * MODEL.sigma**2
        n_clean = MODEL.clean.sum()
        found = (risk.bias, risk.variance, risk.noise)
        assert found == pytest.approx((bias / n_clean, variance / n_clean, 0.49), rel=1e-9, abs=1e-15)


def test_a_right_gate_has_no_bias():
    risk = pi_dual_risk(MODEL, MODEL.clean)
    assert risk.bias == 0
    assert risk.variance == pytest.approx(MODEL.sigma**2 * 4 / 36)  # d sigma^2 / n_1, whatever the wrong rows say
    assert risk.noise == pytest.approx(0.49)
    louder = LinearModel(MODEL.x, MODEL.a, MODEL.clean, MODEL.w, 100 * MODEL.v, MODEL.sigma)
    assert pi_dual_risk(louder, MODEL.clean) == risk
    assert ols_risk(louder).bias > 1000 * ols_risk(MODEL).variance


def test_dropping_clean_rows_costs_variance_only():
    risks = [pi_dual_risk(MODEL, mistaken_gate(MODEL.clean, clean_dropped=count)) for count in (0, 10, 20, 30)]
    assert [risk.bias for risk in risks] == pytest.approx([0] * 4, abs=1e-20)
    variances = [risk.variance for risk in risks]
    assert variances == sorted(variances)
    assert variances[-1] > 2 * variances[0]


def test_a_gate_that_keeps_everything_is_ols():
    ols, everything = ols_risk(MODEL), pi_dual_risk(MODEL, np.ones(60, bool))
    assert everything.bias == pytest.approx(ols.bias)
    assert everything.variance == pytest.approx(ols.variance)


def test_without_wrong_rows_ols_has_the_textbook_risk():
    model = make_model(50, 0, d=5, sigma=2.0)
    assert ols_risk(model) == Risk(0.0, pytest.approx(4 * 5 / 50), 4.0)
    assert pi_dual_risk(model, model.clean).total == pytest.approx(ols_risk(model).total)


@pytest.mark.parametrize(("size", "better"), [(0.0, False), (3.0, True)])
def test_the_proposition_decides_by_how_far_pi_and_x_disagree(size, better):
    """Where the PI says what x says, wrong rows are as good as clean ones, and leaving them out costs variance."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    w = np.ones(3)
    model = LinearModel(x, x.copy(), np.arange(40) < 25, w, w + size, 1.0)
    assert pi_dual_is_better(model, model.clean) is better
    assert (pi_dual_risk(model, model.clean).total < ols_risk(model).total) is better


def test_what_cannot_be_estimated_is_refused():
    with pytest.raises(UsageError, match="keeps 3 rows, which do not determine 4 weights"):
        pi_dual_risk(MODEL, np.arange(60) < 3)
    with pytest.raises(UsageError, match="2 rows do not determine the weights of 4 features"):
        ols_matrix(MODEL.x[:2])
    with pytest.raises(UsageError, match="there is none"):
        make_model(10, 10)
    with pytest.raises(UsageError, match="do not fit"):
        LinearModel(MODEL.x, MODEL.a[:5], MODEL.clean, MODEL.w, MODEL.v, 1.0)


def test_curves_grow_as_the_paper_says(tmp_path):
    by_wrong = risk_by_wrong_labels([0, 20, 40], n=80, d=4, m=4, n_models=5)
    bias = {name: [risk.bias for risk in by_wrong[name]] for name in ("ols", "pi_dual", "pi_dual_missing")}
    assert bias["pi_dual"] == [0, 0, 0]
    assert bias["ols"][0] < bias["ols"][1] < bias["ols"][2]
    assert 0 < bias["pi_dual_missing"][2] < 0.2 * bias["ols"][2]
    by_mistakes = risk_by_gate_mistakes([0, 10, 40], n_wrong=40, n=100, d=4, m=4, n_models=5)
    kept = [risk.bias for risk in by_mistakes["wrong_kept"]]
    assert kept[0] == 0 < kept[1] < kept[2]
    assert kept[2] == pytest.approx(by_mistakes["ols"][0].bias)  # everything is kept
    assert [risk.bias for risk in by_mistakes["clean_dropped"]] == pytest.approx([0] * 3, abs=1e-20)
    draw_risks(tmp_path / "theory.svg", by_wrong, by_mistakes)
    text = " ".join(ET.parse(tmp_path / "theory.svg").getroot().itertext())
    for words in ("OLS", "Pi-DUAL, right gate", "wrong rows kept", "clean rows dropped", "wrong labels"):
        assert words in text


@pytest.mark.parametrize("mistakes", [{"wrong_kept": -1}, {"wrong_kept": 3}, {"clean_dropped": 4}])
def test_a_gate_cannot_mistake_more_rows_than_there_are(mistakes):
    with pytest.raises(UsageError, match=f"{next(iter(mistakes))} must be from 0 to"):
        mistaken_gate(np.array([True, False, True, False, True]), **mistakes)
