import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pidual.errors import UsageError
from pidual.metrics import accuracy, detection_auc, wilson_interval


@pytest.mark.parametrize("decimals", [8, 1, 0])
def test_auc_equals_scikit_learn_with_and_without_ties(decimals):
    rng = np.random.default_rng(decimals)
    wrong = rng.random(500) < 0.3
    quality = np.round(np.clip(rng.normal(0.7 - 0.3 * wrong, 0.3), 0, 1), decimals)
    assert detection_auc(quality, wrong) == pytest.approx(roc_auc_score(wrong, 1 - quality), abs=1e-12)


def test_auc_needs_both_kinds():
    assert math.isnan(detection_auc([0.1, 0.2], [False, False]))
    assert math.isnan(detection_auc([0.1, 0.2], [True, True]))
    assert math.isnan(detection_auc(np.zeros(0), np.zeros(0, dtype=bool)))


def test_auc_refuses_nan():
    with pytest.raises(UsageError, match="1 NaN"):
        detection_auc([0.1, math.nan], [True, False])


def test_accuracy():
    assert accuracy([1, 2, 3, 3], [1, 2, 3, 4]) == 0.75
    assert math.isnan(accuracy([], []))
    with pytest.raises(UsageError, match="one length"):
        accuracy([1, 2], [1])


def test_wilson_interval_of_known_values():
    low, high = wilson_interval([0, 5, 10, 0], [10, 10, 10, 0])
    np.testing.assert_allclose(low, [0, 0.2366, 0.7225, 0], atol=1e-4)  # statsmodels' proportion_confint, method wilson
    np.testing.assert_allclose(high, [0.2775, 0.7634, 1, 1], atol=1e-4)
