"""Scores by comparisons: against plain loops, refits without a pair, and in limiting cases."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pidual.learn.closed_form.scores import TIE_PRECISION, Comparisons, ScoreFitter, _Fit, preferred

N = 5


def draw(k=2, m=30, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, N, m)
    second = (first + rng.integers(1, N, m)) % N
    return Comparisons(first, second, np.log(rng.dirichlet(np.ones(k), m)), N)


def by_loops(pairs, s, tie, precision):
    """The objective, as its formula has it."""
    total = -0.5 * s @ precision @ s - 0.5 * TIE_PRECISION * tie**2
    for i, j, evidence in zip(pairs.first, pairs.second, pairs.evidence, strict=True):
        d = s[i] - s[j]
        weights = [np.exp(d / 2), np.exp(-d / 2), np.exp(tie)][: len(evidence)]
        total += np.log(sum(w / sum(weights) * np.exp(e) for w, e in zip(weights, evidence, strict=True)))
    return total


@pytest.mark.parametrize("k", [2, 3])
def test_most_likely_scores_are_those_of_the_formula(k):
    pairs, precision = draw(k), np.eye(N) / 0.7
    fit = _Fit(pairs, np.eye(N), 0.7)
    s, tie = fit._maximise()
    found = minimize(lambda z: -by_loops(pairs, z[:-1], z[-1], precision), np.zeros(N + 1), tol=1e-12)
    assert by_loops(pairs, s, tie, precision) == pytest.approx(-found.fun, abs=1e-5)
    np.testing.assert_allclose(s, found.x[:-1], atol=2e-3)
    assert tie == pytest.approx(found.x[-1], abs=5e-3)
    np.testing.assert_allclose(fit.mean, s - s.mean())


def test_variance_is_that_of_the_curvature():
    pairs = draw(m=200)
    s, tie = (fit := _Fit(pairs, np.eye(N), 1.0))._maximise()
    step, curvature = 1e-3, np.empty((N, N))
    for a in range(N):
        for b in range(N):
            moved = [
                by_loops(pairs, s + step * (x * np.eye(N)[a] + y * np.eye(N)[b]), tie, np.eye(N))
                for x, y in [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            ]
            curvature[a, b] = -(moved[0] - moved[1] - moved[2] + moved[3]) / (4 * step**2)
    centre = np.eye(N) - 1 / N
    expected = np.diag(centre @ np.linalg.inv(curvature) @ centre)
    np.testing.assert_allclose(fit.variance, expected, rtol=0.1)  # W below 0 counts as 0 in the fit


def test_leave_one_out_is_near_a_fit_without_the_pair():
    rng = np.random.default_rng(3)
    first = rng.integers(0, N, 80)
    second = (first + rng.integers(1, N, 80)) % N
    evidence = np.log(np.where(np.arange(2) == rng.integers(0, 2, 80)[:, None], 0.9, 0.1))
    fit = _Fit(Comparisons(first, second, evidence, N), np.eye(N), 1.0)
    for at in range(0, 80, 9):
        without = np.delete(np.arange(80), at)
        other = _Fit(Comparisons(first[without], second[without], evidence[without], N), np.eye(N), 1.0)
        s = other._maximise()[0]
        d = s[first[at]] - s[second[at]]
        assert fit.p[at, 0] == pytest.approx(1 / (1 + np.exp(-d)), abs=0.02)


def test_alike_items_have_alike_scores_only_with_features():
    rng = np.random.default_rng(0)
    x = np.repeat(np.linspace(-1, 1, 10), 2)[:, None]  # two items of each kind; only the first ones are compared
    first = 2 * rng.integers(0, 10, 400)
    second = (first + 2 * rng.integers(1, 10, 400)) % 20
    won = (x[first, 0] + 0.3 * rng.normal(size=400) > x[second, 0]).astype(int)
    evidence = np.log(np.where(np.arange(2) == 1 - won[:, None], 0.95, 0.05))
    alone = ScoreFitter(first, second, 20).fit(evidence)
    alike = ScoreFitter(first, second, 20, x).fit(evidence)
    assert np.ptp(alone.mean[1::2]) < 1e-9
    assert np.corrcoef(alike.mean[1::2], x[1::2, 0])[0, 1] > 0.95


def test_preferred_is_the_mean_chance_to_win():
    s = np.array([0.5, -1.0, 0.2])
    for item in range(3):
        chances = [1 / (1 + np.exp(-(s[item] - s[other]))) for other in range(3) if other != item]
        assert preferred(s)[item] == pytest.approx(np.mean(chances))
