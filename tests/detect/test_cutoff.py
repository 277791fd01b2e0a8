"""The automatic cut-off has the largest expected F1 of all cuts, and the others do what was asked for."""

import math

import numpy as np
import pytest

from pidual.detect import auto_cutoff, find_issues
from pidual.detect.cutoff import MAX_CUT, lowest
from pidual.errors import UsageError


def expected_f1(quality, found):
    wrong = [1 - q for q in quality]
    return 2 * sum(w for w, f in zip(wrong, found, strict=True) if f) / (sum(found) + sum(wrong))


@pytest.mark.parametrize("seed", range(20))
def test_no_other_cut_has_a_larger_expected_f1(seed):
    rng = np.random.default_rng(seed)
    quality = rng.beta(*rng.uniform(0.2, 3, 2), 60)
    found = find_issues(auto_cutoff(quality), quality)
    cuts = [quality < cut for cut in [*quality, 2.0] if cut <= MAX_CUT]
    assert expected_f1(quality, found) >= max(expected_f1(quality, cut) for cut in cuts) - 1e-12


def test_calibrated_quality_gives_the_best_f1_that_can_be_had():
    rng = np.random.default_rng(0)
    quality = rng.beta(0.5, 0.3, 200_000)
    wrong = rng.random(len(quality)) > quality

    def f1(found):
        return 2 * (found & wrong).sum() / (found.sum() + wrong.sum())

    best = max(f1(quality < cut) for cut in np.linspace(0.01, MAX_CUT, 60))
    assert f1(find_issues(auto_cutoff(quality), quality)) > best - 0.002


def test_labels_that_are_likely_right_are_never_issues():
    quality = np.random.default_rng(0).uniform(0.7, 1, 1000)
    cutoff = auto_cutoff(quality)
    assert cutoff.value == MAX_CUT
    assert "one in three" in cutoff.note
    assert not find_issues(cutoff, quality).any()


@pytest.mark.parametrize("n", [0, 1, 3, 5, 99])
def test_the_lowest_are_as_many_as_asked_for_and_earlier_rows_come_first_among_equals(n):
    quality = np.array([0.5, 0.1, 0.1, 0.9, 0.1])
    assert sorted(lowest(quality, n).tolist()) == sorted(np.argsort(quality, kind="stable")[:n].tolist())


def test_wrong_calls_are_refused():
    with pytest.raises(UsageError, match="NaN"):
        auto_cutoff([math.nan, 0.5])
    with pytest.raises(UsageError, match="one value per annotation"):
        auto_cutoff([[0.1, 0.5]])
    with pytest.raises(UsageError, match="no annotations"):
        auto_cutoff([])
