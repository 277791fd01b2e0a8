"""Clean labels that contradict what a run states make it doubtful; few, or those that agree, do not."""

import numpy as np
import pandas as pd
import pytest

from pidual import judge
from pidual.detect.evaluate import find_false_claims, share_by_items
from pidual.metrics import wilson_interval
from pidual.run.predictions import Predictions

RNG = np.random.default_rng(0)


def claims(
    n=100, *, right=0.95, consensus=0.95, wrong=0.1, quality=0.9, known=None, per_item=1, split="train", caution=0.0
):
    """What clean labels contradict, of items whose consensus is right for this share, and labels wrong for this share.

    `consensus` and `quality` are what is stated, the latter down to `caution` below.
    """
    y = np.repeat(np.arange(n) % 2, per_item)
    item = np.repeat(np.arange(n), per_item)
    given = np.where(item % 100 < 100 * wrong, 1 - y, y)
    frame = pd.DataFrame({"item": pd.Categorical(item), "label": given, "y": np.where(item < (known or n), y, np.nan)})
    made = Predictions.build(
        frame,
        [0, 1],
        predicted_label=y,
        predicted_probability=np.ones(len(y)),
        label_quality=np.full(len(y), quality),
        consensus_label=np.where(item % 100 >= 100 * right, 1 - y, y),
        consensus_quality=np.full(len(y), consensus),
        split=[split] * len(y),
    )
    made = made.with_issues(item % 100 < 40)
    at = np.full(len(y), quality)
    return find_false_claims(made, at, at, np.stack([at - caution, at]))


def test_what_clean_labels_confirm_is_no_false_claim():
    assert claims(quality=0.75, wrong=0.2) == []
    assert claims(consensus=0.8, quality=0.75, wrong=0.2) == []  # it is better than stated
    assert claims(5000, right=0.97, consensus=0.985, quality=0.75, wrong=0.25) == []  # nothing to speak of


def test_a_consensus_that_is_wrong_more_often_than_stated():
    (text,) = claims(right=0.83, consensus=0.94, quality=0.75, wrong=0.2)
    assert text == (
        "Of the 100 items with a clean label the consensus is right for 83% (74% to 89%); the run states 94%."
    )
    assert claims(right=0.83, consensus=0.94, quality=0.75, wrong=0.2, known=19) == []
    assert claims(right=0.83, consensus=0.94, quality=0.75, wrong=0.2, split="test") == []  # which nothing is stated of


def test_a_number_of_wrong_labels_that_is_not_the_stated_one():
    (text,) = claims(wrong=0.3, quality=0.9)
    assert text.startswith("Of the 100 labels with a clean label 30% are wrong (22% to 40%); the run states 10% (5%")
    low, high = claims(wrong=0.1, quality=0.4)
    assert low.startswith("Of the 40 labels that look wrong and have a clean label 25% are wrong (14% to 40%)")
    assert "states 60% (" in low
    assert high.startswith("Of the 100 labels with a clean label 10% are wrong")


def test_a_range_that_holds_the_share_is_no_false_claim():
    (text,) = claims(wrong=0.3, quality=0.9, caution=0.02)
    assert "30% are wrong" in text
    assert claims(wrong=0.3, quality=0.9, caution=0.2) == []
    (low,) = claims(wrong=0.1, quality=0.4, caution=0.2)[:1]  # of the list, the range is another
    assert low.startswith("Of the 40 labels that look wrong")


def test_labels_of_an_item_count_together():
    hits, item = RNG.random(200) < 0.3, np.arange(200)
    share, low, high = share_by_items(hits, item)
    assert (low, high) == pytest.approx([float(end) for end in wilson_interval(hits.sum(), 200)])
    assert share_by_items(np.repeat(hits, 5), np.repeat(item, 5)) == pytest.approx((share, low, high))
    none = share_by_items(np.zeros(90, bool), np.repeat(np.arange(30), 3))
    assert none == pytest.approx((0.0, 0.0, float(wilson_interval(0, 30)[1])))


def test_judges_whom_some_items_fool_are_doubtful_with_gold_and_train_as_without():
    """Seven judges; a quarter of the items fool most of them. Half of the items have a clean label."""
    n, judges = 160, 7
    truth, fools = RNG.integers(0, 2, n), RNG.random(n) < 0.25
    item, who = np.repeat(np.arange(n), judges), np.tile(np.arange(judges), n)
    wrong = RNG.random(n * judges) < np.where(fools[item], 0.75, 0.1)
    frame = pd.DataFrame({"item": item, "label": truth[item] ^ wrong, "annotator": who})
    without = judge(frame)
    assert without.summary.verdict.status == "ok"  # which nobody can know
    gold = judge(frame.assign(y=np.where(item < 80, truth[item], np.nan)))
    assert gold.summary.verdict.status == "doubtful"
    assert gold.summary.verdict.reasons[0].startswith("Of the 80 items with a clean label the consensus is right")
    assert gold.items["consensus_quality"].equals(without.items["consensus_quality"])  # y is not learned from
