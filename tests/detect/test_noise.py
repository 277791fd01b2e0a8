"""How many labels are wrong, how many of a list: against plain loops."""

import math

import numpy as np
import pandas as pd
import pytest

from pidual.detect import expected_findings, noise_rate
from pidual.run.predictions import Predictions

RNG = np.random.default_rng(0)


def predictions_of(quality, given, classes, issues):
    frame = pd.DataFrame({"item": pd.Categorical(range(len(given))), "label": [classes[k] for k in given]})
    made = Predictions.build(
        frame, classes, predicted_label=given, predicted_probability=np.ones(len(given)), label_quality=quality
    )
    return made.with_issues(issues)


def test_noise_rate_and_its_interval():
    item = (np.array([0, 0, 1, 2, 2, 2]) + 3 * np.arange(20)[:, None]).ravel()
    quality = np.tile([0.9, 0.2, 0.7, 0.6, 0.8, 0.4], 20)
    found = noise_rate(item, quality, np.stack([np.full(120, 0.5), np.full(120, 0.75)]))
    rate = sum(1 - q for q in quality) / 120
    sums = {i: sum(1 - q - rate for q, j in zip(quality, item, strict=True) if i == j) for i in range(60)}
    spread = {i: sum(math.sqrt(q * (1 - q)) for q, j in zip(quality, item, strict=True) if i == j) for i in range(60)}
    error = 1.6448536 * math.sqrt(sum(s * s for s in (*sums.values(), *spread.values()))) / 120
    assert found.rate == pytest.approx(rate)
    assert found.low == pytest.approx(0.25 - error)
    assert found.high == pytest.approx(0.5 + error)


def test_the_interval_holds_the_rate_and_stays_between_0_and_1():
    for _ in range(50):
        quality, *stated = RNG.random((3, 10)) ** RNG.choice([0.01, 1, 10])
        found = noise_rate(np.arange(10), quality, np.stack(stated))
        assert 0 <= found.low <= found.rate <= found.high <= 1


def test_what_a_list_is_expected_to_hold():
    quality = np.array([0.1, 0.9, 0.3, 0.8, 0.95], np.float32)
    given, classes = np.array([0, 1, 1, 0, 1]), ["ok", "fraud", "other"]
    found = expected_findings(predictions_of(quality, given, classes, quality < 0.5), quality + 0.02, quality - 0.05)
    error = 1.6448536 * math.sqrt(0.8 * 0.2 / 2)
    assert found.expected_precision == pytest.approx(0.8)
    assert found.precision_low == pytest.approx(0.78 - error)
    assert found.precision_high == 1.0
    assert [one.to_json() for one in found.classes] == [
        {"class": "ok", "given": 2, "issues": 1, "expected_wrong": pytest.approx(1.1)},
        {"class": "fraud", "given": 3, "issues": 1, "expected_wrong": pytest.approx(0.85)},
        {"class": "other", "given": 0, "issues": 0, "expected_wrong": 0},
    ]
    curve = {point.n: (point.expected_wrong, point.precision) for point in found.curve}
    wrong = sorted((1 - q for q in quality), reverse=True)
    assert set(curve) == {1, 2, 3, 4, 5}
    for n, (expected, precision) in curve.items():
        assert expected == pytest.approx(sum(wrong[:n]), rel=1e-6)
        assert precision == pytest.approx(sum(wrong[:n]) / n, rel=1e-6)


def test_labels_of_one_item_are_wrong_together():
    quality = np.tile([0.2, 0.9], 50).astype(np.float32)
    alone = predictions_of(quality, np.zeros(100, int), ["a", "b"], quality < 0.5)
    low = expected_findings(alone, quality, quality).precision_low
    assert low == pytest.approx(0.8 - 1.6448536 * math.sqrt(0.8 * 0.2 / 50))
    pairs = Predictions(alone.frame.assign(item=pd.Categorical(np.arange(100) // 4)), alone.classes)  # two each
    low = expected_findings(pairs, quality, quality).precision_low
    assert low == pytest.approx(0.8 - 1.6448536 * math.sqrt(0.8 * 0.2 / 25))


def test_an_answer_counts_in_full_for_the_precision_of_the_list_if_its_item_has_others():
    quality, full = np.array([0.2, 0.3, 0.1, 0.9]), np.array([0.4, 0.4, 0.5, 0.9])
    made = predictions_of(quality, [0, 0, 0, 0], ["a", "b"], [True, False, True, False])  # the second is confirmed
    made = Predictions(made.frame.assign(item=pd.Categorical([0, 0, 1, 2])), made.classes)
    found = expected_findings(made, full, quality)
    assert found.expected_precision == pytest.approx((0.6 + 0.9) / 2)
    assert [point.expected_wrong for point in found.curve] == pytest.approx([0.9, 1.5, 2.1, 2.2])


def test_a_list_of_sets_may_be_right_where_many_other_answers_say_the_same():
    quality = np.tile([0.1, 0.2, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.9], 50)
    given, item = [0, 0, 1, 1, 0, 1, 1, 1, 1], np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])  # one other of three says 0 0 ..
    made = predictions_of(quality, np.tile(given, 50), ["no dog", "dog"], quality < 0.5)
    made = Predictions(
        made.frame.assign(item=pd.Categorical((item + 3 * np.arange(50)[:, None]).ravel())), made.classes
    )
    found = [expected_findings(made, quality, quality, of_sets=of_sets) for of_sets in (False, True)]
    assert found[0].expected_precision == found[1].expected_precision == pytest.approx((0.9 + 0.8 + 0.9) / 3)
    assert found[0].precision_low - found[1].precision_low == pytest.approx((0.9 + 0.8) / 3)


def test_a_list_of_nothing_has_no_precision():
    quality = np.full(4, 0.9, np.float32)
    found = expected_findings(predictions_of(quality, [0, 1, 0, 1], ["a", "b"], quality < 0.5), quality, quality)
    assert found.expected_precision is found.precision_low is found.precision_high is None
