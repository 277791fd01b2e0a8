import json
import math

import numpy as np
import pytest

from pidual.detect import auto_cutoff, budget_cutoff, choose_cutoff, find_issues, fixed_cutoff
from pidual.errors import UsageError
from pidual.metrics import precision_recall


def crowd(noise, *, n=4000, k=10, margin=5.0, spread=2.0, seed=0):
    """Given and predicted labels, and quality, from a model that is right on most items."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    logits = rng.normal(0, 1, (n, k))
    logits[np.arange(n), y] += rng.normal(margin + math.log(k), spread, n)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    given = np.where(rng.random(n) < noise, (y + rng.integers(1, k, n)) % k, y)
    return p[np.arange(n), given], given, p.argmax(1), given != y


@pytest.mark.parametrize("k", [2, 10, 100])
@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2, 0.5, 0.8])
def test_noise_is_found_and_its_rate_estimated(noise, k):
    quality, given, predicted, wrong = crowd(noise, k=k)
    cutoff = auto_cutoff(quality, given, predicted)
    precision, recall = precision_recall(find_issues(cutoff, quality, given, predicted), wrong)
    assert cutoff.rule == "mixture"
    assert recall > 0.9
    assert precision > (0.5 if noise == 0.01 else 0.9)
    assert cutoff.estimated_noise_rate == pytest.approx(wrong.mean(), abs=0.02)


@pytest.mark.parametrize(("margin", "most"), [(4.0, 0.01), (6.0, 0.002), (9.0, 0.001)])
def test_clean_labels_are_left_alone(margin, most):
    quality, given, predicted, _ = crowd(0.0, margin=margin)
    cutoff = auto_cutoff(quality, given, predicted)
    assert cutoff.rule != "mixture"
    assert find_issues(cutoff, quality, given, predicted).mean() < most
    assert cutoff.estimated_noise_rate < most


def test_most_mistakes_of_a_poor_model_are_not_blamed_on_clean_labels():
    quality, given, predicted, _ = crowd(0.0, margin=2.0)
    found = find_issues(auto_cutoff(quality, given, predicted), quality, given, predicted)
    assert np.mean(given != predicted) > 0.1
    assert found.mean() < 0.4 * np.mean(given != predicted)


def test_high_quality_and_full_agreement_flag_nothing():
    rng = np.random.default_rng(0)
    quality, label = rng.uniform(0.95, 1, 1000), rng.integers(0, 5, 1000)
    cutoff = auto_cutoff(quality, label, label)
    assert cutoff.rule == "none"
    assert not find_issues(cutoff, quality, label, label).any()


def test_a_label_the_model_agrees_with_is_never_an_issue():
    quality, given, predicted, _ = crowd(0.3, margin=0.5)
    found = find_issues(auto_cutoff(quality, given, predicted), quality, given, predicted)
    assert not (found & (given == predicted)).any()


def test_equal_scores_flag_nothing():
    given, predicted = np.arange(200) % 4, np.arange(200) % 3
    cutoff = auto_cutoff(np.full(200, 0.25), given, predicted)
    assert (cutoff.rule, cutoff.estimated_noise_rate) == ("none", 0)
    assert not find_issues(cutoff, np.full(200, 0.25), given, predicted).any()


def test_a_model_that_agrees_with_nothing_judges_nothing():
    rng = np.random.default_rng(0)
    quality = rng.uniform(0, 0.5, 300)
    cutoff = auto_cutoff(quality, np.zeros(300), np.ones(300))
    assert cutoff.rule == "none"
    assert not find_issues(cutoff, quality, np.zeros(300), np.ones(300)).any()


def test_ten_rows():
    quality = np.array([0.9, 0.95, 0.8, 0.99, 0.9, 0.85, 0.9, 0.01, 0.3, 0.97])
    given, predicted = np.zeros(10, dtype=int), np.array([0] * 7 + [1, 1, 0])
    cutoff = auto_cutoff(quality, given, predicted)
    assert cutoff.rule == "tenth-typical"
    assert "only 10 labels" in cutoff.note
    assert np.flatnonzero(find_issues(cutoff, quality, given, predicted)).tolist() == [7]


def test_much_disagreement_without_two_groups_is_not_called_clean():
    rng = np.random.default_rng(0)
    disagrees = rng.random(3000) < 0.45
    quality = 1 / (1 + np.exp(-rng.normal(np.where(disagrees, -1.6, -0.4), 0.8)))
    cutoff = auto_cutoff(quality, np.zeros(3000), disagrees)
    assert cutoff.rule == "half-typical"
    assert cutoff.estimated_noise_rate > 0.15


def test_fixed_cutoff_is_strict_and_needs_disagreement():
    quality, given, predicted = [0.1, 0.2, 0.1, 0.5], [0, 0, 0, 0], [1, 1, 0, 1]
    cutoff = fixed_cutoff(quality, given, predicted, 0.2)
    assert find_issues(cutoff, quality, given, predicted).tolist() == [True, False, False, False]


@pytest.mark.parametrize("n", [0, 1, 3, 5, 99])
def test_budget_takes_exactly_that_many_of_the_lowest(n):
    quality = np.array([0.5, 0.1, 0.1, 0.9, 0.1])
    cutoff = budget_cutoff(quality, np.zeros(5), np.zeros(5), n)
    found = find_issues(cutoff, quality, np.zeros(5), np.zeros(5))
    assert found.sum() == min(n, 5)
    assert np.flatnonzero(found).tolist() == sorted(np.argsort(quality, kind="stable")[:n])


def test_choice_and_json():
    scores = crowd(0.2)[:3]
    assert choose_cutoff(*scores).kind == "auto"
    assert choose_cutoff(*scores, cutoff=0.3).value == 0.3
    described = choose_cutoff(*scores, budget=7).to_json()
    assert json.loads(json.dumps(described, allow_nan=False))["budget"] == 7
    assert described["estimated_noise_rate"] == pytest.approx(0.2, abs=0.03)


def test_wrong_calls_are_refused():
    with pytest.raises(UsageError, match="not between 0 and 1"):
        fixed_cutoff([0.1], [0], [1], 20)
    with pytest.raises(UsageError, match="negative"):
        budget_cutoff([0.1], [0], [1], -1)
    with pytest.raises(UsageError, match="NaN"):
        auto_cutoff([math.nan, 0.5], [0, 1], [1, 1])
    with pytest.raises(UsageError, match="one value per annotation"):
        auto_cutoff([0.1, 0.5], [0], [1, 1])
    with pytest.raises(UsageError, match="no annotations"):
        auto_cutoff([], [], [])
