"""What a whole fit says about people, classes and PI: who does harm, which classes, which PI."""

import numpy as np
import pandas as pd
import pytest

import pidual
from pidual.run.records.reading import as_record
from pidual.run.records.summary import Summary

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def judged():
    """10,000 labels of 5,000 items, 2% frauds, judged with weak probabilities; lee misses 72% of the frauds."""
    rng = np.random.default_rng(0)
    y = (rng.random(5000) < 0.02).astype(int)
    item = np.repeat(np.arange(5000), 2)
    who = np.concatenate([rng.permutation(4)[:2] for _ in range(5000)])
    miss = np.where(y[item] == 1, np.array([0.1, 0.1, 0.72, 0.1])[who], 0.005)
    wrong = rng.random(10000) < miss
    frame = pd.DataFrame({"item": item, "label": np.array(["ok", "fraud"])[np.where(wrong, 1 - y[item], y[item])]})
    frame["annotator"] = np.array(["ann", "bob", "lee", "zoe"])[who]
    frame["seconds"] = np.exp(rng.normal(2, 0.5, 10000) - 1.0 * wrong)
    frame["age"] = np.where(rng.random(10000) < 0.05, -1, rng.integers(18, 70, 10000))
    odds = np.clip(rng.normal(size=5000) + 2.0 * y - 4, -8, 8)
    p = 1 / (1 + np.exp(-odds))
    return pidual.judge(frame, np.stack([p, 1 - p], 1).astype("f4"), pi=["annotator", "seconds", "age"])


def test_who_misses_frauds_is_among_the_first_two(judged):
    people = judged.annotators
    assert "lee" in people["annotator"].tolist()[:2]
    lee = people.set_index("annotator").loc["lee"]
    assert lee["worst_class"] == "fraud"
    assert lee["worst_class_accuracy"] < 0.5
    assert lee["agreement"] == people["agreement"].min()
    assert lee["median_seconds"] == pytest.approx(np.exp(2), rel=0.1)


def test_the_summary_holds_what_readers_expect(judged):
    summary = judged.summary
    assert as_record("summary", summary.to_json(), Summary) == summary
    assert len(summary.agreement.pairs) == 6
    transitions = np.array(summary.classes.transitions)
    assert transitions.sum(1) == pytest.approx([1, 1])
    assert transitions[0, 1] > 10 * transitions[1, 0]  # frauds are missed, and hardly ever made up
    assert [(one.column, one.problem) for one in summary.pi_health] == [("age", "sentinel")]
    assert {effect.column: effect.tells for effect in summary.pi_effects} == {"seconds": True, "age": False}


def test_reasons_have_numbers_and_differ(judged):
    reasons = judged.predictions.loc[judged.predictions["is_label_issue"], "reason"]
    assert reasons.str.contains("%").all()
    assert reasons.str.contains("This annotator says ok to").any()
    assert reasons.str.contains("faster than").any()
    assert not reasons.str.contains("age").any()
    assert reasons.nunique() > 0.8 * len(reasons)


def test_the_advice_is_to_look_at_the_one_annotator_who_misses_frauds(judged):
    assert any("one annotator" in text for text in judged.summary.classes.advice)
