import numpy as np
import pytest
from scipy.stats import binom

from pidual.detect.drift import MIN_CHANGE, MIN_PART, beyond_chance, find_drift, largest_by_chance


def steady(people, n, accuracy, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), n)
    return who, rng.random(len(who)) < accuracy


def plain_ratio(right, expected):
    """The largest 2 log LR of a change, and the number of labels before it, by loops."""
    n, wrong = len(right), (~right).sum()
    error = 1 - expected
    p = error * wrong / error.sum() if wrong <= error.sum() else 1 - expected * (n - wrong) / expected.sum()
    best = (-1.0, 0)
    least = max(MIN_PART, int(np.ceil(0.05 * n)))
    for t in range(least, n - least + 1):
        ratio = 0.0
        for part in (slice(0, t), slice(t, n)):
            w, e, m = (~right[part]).sum(), p[part].sum(), len(right[part])
            ratio += w * np.log(w / e) if w else 0.0
            ratio += (m - w) * np.log((m - w) / (m - e)) if m - w else 0.0
        best = max(best, (2 * ratio, -t))
    return best[0], -best[1]


def test_the_most_likely_change_by_plain_loops():
    rng = np.random.default_rng(0)
    who = rng.integers(0, 12, 1500)
    expected = rng.uniform(0.6, 0.95, 1500)
    order = rng.normal(size=1500)
    right = rng.random(1500) < np.where((who < 3) & (order > 0.2), 0.1, expected)
    found = find_drift(who, right, expected, 13, order)
    assert found.found[:3].all()
    assert np.isnan(found.chance[12])
    for one in range(12):
        mine = np.flatnonzero(who == one)
        mine = mine[np.argsort(order[mine])]
        ratio, t = plain_ratio(right[mine], expected[mine])
        least = max(MIN_PART, np.ceil(0.05 * len(mine))) / len(mine)
        assert found.chance[one] == pytest.approx(float(largest_by_chance(np.sqrt(ratio), least)), rel=1e-6)
        if found.found[one]:
            assert found.row[one] == mine[t]
            assert found.number[one] == t + 1
            assert found.before[one] == pytest.approx(right[mine[:t]].mean())
            assert found.after[one] == pytest.approx(right[mine[t:]].mean())


@pytest.mark.parametrize("n", [25, 100, 400])
@pytest.mark.parametrize("accuracy", [0.6, 0.85, 0.97])
def test_chance_is_not_understated(n, accuracy):
    """Of steady people, no more are found at a chance than it says."""
    who, right = steady(2000, n, accuracy)
    found = find_drift(who, right, np.full(len(who), accuracy), 2000)
    for chance in (0.05, 0.01):
        often = np.count_nonzero(found.chance <= chance)
        assert binom.sf(often - 1, 2000, chance) > 1e-3, (often, chance)
    assert not found.found.any()


def test_a_change_is_found_where_it_is():
    rng = np.random.default_rng(0)
    who, t = np.repeat(np.arange(100), 200), np.tile(np.arange(200), 100)
    right = rng.random(len(who)) < np.where((who < 30) & (t >= 130), 0.6, 0.92)
    found = find_drift(who, right, np.full(len(who), 0.9), 100)
    assert found.found[:30].mean() > 0.8
    assert found.found[30:].sum() <= 2
    assert np.median(found.number[:30][found.found[:30]]) == pytest.approx(131, abs=4)


def test_classes_in_order_are_no_drift():
    """Everybody labels the easy class first: nobody changes."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(40), 300)
    easy = np.tile(np.arange(300) < 150, 40)
    expected = np.where(easy, 0.98, 0.7)
    right = rng.random(len(who)) < expected
    assert not find_drift(who, right, expected, 40).found.any()
    assert find_drift(who, right, np.full(len(who), 0.84), 40).found.mean() > 0.9  # without the crowd to compare with


def test_too_few_labels_or_none_wrong():
    found = find_drift([0] * 15 + [1] * 50, [True] * 8 + [False] * 7 + [True] * 50, np.full(65, 0.9), 2)
    assert np.isnan(found.chance).all()
    assert not found.found.any()
    assert (found.row == -1).all()
    assert np.isnan(found.before).all()
    assert find_drift(np.zeros(0, int), np.zeros(0, bool), np.zeros(0), 0).found.shape == (0,)


def test_small_changes_are_not_worth_saying():
    right = np.ones(200_000, bool)
    right[::20] = False
    right[100_000::25] = False  # 95% before, a little less after
    found = find_drift(np.zeros(200_000, int), right, np.full(200_000, 0.95), 1)
    assert found.chance[0] < 1e-3
    assert not found.found[0]
    assert MIN_CHANGE > 0.04


def test_benjamini_and_hochberg_by_plain_loops():
    chance = np.array([0.001, 0.2, np.nan, 0.02, 0.013, 0.9, 0.04])
    ranked = sorted(c for c in chance if not np.isnan(c))
    last = max(r for r, c in enumerate(ranked, 1) if c <= 0.05 * r / len(ranked))
    assert beyond_chance(chance).tolist() == [bool(c <= ranked[last - 1]) for c in chance]
    assert not beyond_chance([0.9, np.nan]).any()
