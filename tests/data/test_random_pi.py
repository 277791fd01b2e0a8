import numpy as np
import pytest
from scipy import stats

from pidual.data.pi.random_pi import random_pi


def test_is_standard_normal():
    values = random_pi(3, np.arange(100_000), 4).ravel()
    assert abs(values.mean()) < 4 / np.sqrt(values.size)
    assert abs(values.var() - 1) < 4 * np.sqrt(2 / values.size)
    assert stats.kstest(values[:50_000], "norm").pvalue > 1e-3


def test_entries_rows_and_seeds_are_independent():
    a, b = random_pi(0, np.arange(20_000), 6), random_pi(1, np.arange(20_000), 6)
    both = np.corrcoef(np.concatenate([a, b], axis=1).T)
    assert np.abs(both - np.eye(12)).max() < 4.5 / np.sqrt(20_000)
    along = [np.corrcoef(a[:-lag, 0], a[lag:, 0])[0, 1] for lag in (1, 2, 7)]
    assert np.abs(along).max() < 4.5 / np.sqrt(20_000)


def test_any_subset_and_order_gives_the_same_vectors():
    everything = random_pi(5, np.arange(1000), 8)
    rows = np.random.default_rng(0).permutation(1000)[:300]
    np.testing.assert_array_equal(random_pi(5, rows, 8), everything[rows])
    np.testing.assert_array_equal(random_pi(5, rows[:1], 8), everything[rows[:1]])


def test_rows_do_not_collide():
    assert len(np.unique(random_pi(0, np.arange(200_000), 2), axis=0)) == 200_000
    far = np.array([0, 2**40, 2**50])
    assert len(np.unique(random_pi(0, far, 1))) == 3


def test_length_zero_and_too_long():
    assert random_pi(0, np.arange(5), 0).shape == (5, 0)
    with pytest.raises(ValueError, match="between 0 and 4096"):
        random_pi(0, np.arange(5), 5000)
