"""L-BFGS on functions whose minimum is known."""

import numpy as np
import pytest

from pidual.learn.answers.minimise import minimise


@pytest.mark.parametrize("known", [False, True])
def test_a_bowl_of_very_different_slopes(known):
    bends, centre = 10.0 ** np.arange(-2, 4), np.arange(6.0)
    calls = []

    def objective(x):
        calls.append(x)
        return 1 + 0.5 * float(bends @ (x - centre) ** 2), bends * (x - centre)

    found = minimise(objective, np.zeros(6), bends if known else np.ones(6), steps=100, tolerance=1e-12)
    assert np.abs(found - centre).max() < 1e-3
    assert len(calls) <= (3 if known else 60)


def test_a_function_that_is_not_convex():
    def objective(x):
        a, b = x
        slope = np.array([-2 * (1 - a) - 400 * a * (b - a**2), 200 * (b - a**2)])
        return 1 + (1 - a) ** 2 + 100 * (b - a**2) ** 2, slope

    found = minimise(objective, np.array([-1.2, 1.0]), np.ones(2), steps=200, tolerance=1e-12)
    assert np.abs(found - 1).max() < 1e-3


def test_a_start_that_cannot_be_bettered_stays():
    start = np.array([2.0])
    assert minimise(lambda x: (1.0, np.zeros(1)), start, np.ones(1), steps=5, tolerance=1e-9) == start
    assert minimise(lambda x: (float(x[0] != 2), np.ones(1)), start, np.ones(1), steps=5, tolerance=1e-9) == start
