"""Annotators: quality, harm, classes, habits, speed; by plain loops from the formulas."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from test_items import crowd

from pidual.detect import describe_annotator_classes, describe_annotators
from pidual.detect.classes import ClassAccuracy
from pidual.detect.counts import Counts
from pidual.detect.items import Truth
from pidual.run.predictions import Predictions, read_frame, write_frame
from pidual.run.predictions.columns import ANNOTATOR_CLASSES_COLUMNS, ANNOTATORS_COLUMNS


def describe(who, given, right, consensus, sure, issue=None, classes="abcd", people=None, gate=None):
    """The annotators table by name."""
    issue = np.zeros(len(who), bool) if issue is None else issue
    names = [f"a-{j}" for j in range((max(who) + 1) if people is None else people)]
    frame = pd.DataFrame(
        {
            "item": pd.Categorical(np.arange(len(who))),
            "label": pd.Categorical.from_codes(given, list(classes)),
            "annotator": pd.Categorical.from_codes(who, names),
        }
    )
    how = {"predicted_label": consensus, "predicted_probability": sure, "label_quality": right, "gate": gate}
    return describe_annotators(Predictions.build(frame, list(classes), **how).with_issues(issue), right)


def test_annotators_by_plain_loops():
    item, who, given, q = crowd()
    consensus, sure, right = q.argmax(1)[item], q.max(1)[item], q[item, given]
    gate = np.linspace(0, 1, len(who))
    table = describe(who, given, right, consensus, sure, gate > 0.6, people=13, gate=gate)  # the last one has no labels
    assert len(table) == 12
    assert table["harm"].is_monotonic_decreasing
    assert table.loc[table["harm"] == 0, "annotator_quality"].is_monotonic_increasing
    table = table.set_index("annotator")
    for j in range(12):
        mine, row = who == j, table.loc[f"a-{j}"]
        n, expected = mine.sum(), right[mine].sum(dtype=float)
        assert row["annotator_quality"] == pytest.approx(expected / n, abs=1e-6)
        crowd_mean = right.mean(dtype=float)
        posterior = beta(expected + 2 * crowd_mean, n - expected + 2 * (1 - crowd_mean))
        interval = (row["quality_low"], row["quality_high"])
        assert interval == (pytest.approx(posterior.ppf(0.025)), pytest.approx(posterior.ppf(0.975)))
        assert (row["num_labelled"], row["num_issues"]) == (n, (gate > 0.6)[mine].sum())
        assert row["mean_gate"] == pytest.approx(gate[mine].mean(), abs=1e-6)
        assert row["expected_wrong"] == pytest.approx(n - expected, abs=1e-4)


def test_the_interval_of_quality_holds_what_may_be_stated():
    """It holds the interval of what counts half, and that of what counts in full at the most."""
    who, rng = np.repeat(np.arange(4), 50), np.random.default_rng(0)
    right, most = rng.uniform(0.6, 0.8, 200), rng.uniform(0.9, 1, 200)
    names = pd.Categorical.from_codes(who, list("wxyz"))
    frame = pd.DataFrame({"item": np.arange(200) // 2, "label": pd.Categorical(["a", "b"] * 100), "annotator": names})
    how = {"predicted_label": np.zeros(200, int), "predicted_probability": right, "label_quality": right}
    predictions = Predictions.build(frame, ["a", "b"], **how)
    narrow = describe_annotators(predictions, right).set_index("annotator")
    found = describe_annotators(predictions, right, most=most).set_index("annotator")
    for j, name in enumerate("wxyz"):
        ends = []
        for values in (right, most):
            expected, crowd_mean = values[who == j].sum(), values.mean()
            posterior = beta(expected + 2 * crowd_mean, 50 - expected + 2 * (1 - crowd_mean))
            ends += [posterior.ppf(0.025), posterior.ppf(0.975)]
        row = found.loc[name]
        assert (row["quality_low"], row["quality_high"]) == (pytest.approx(min(ends)), pytest.approx(max(ends)))
        assert row["quality_low"] == pytest.approx(narrow.loc[name, "quality_low"])
        assert row["quality_high"] > 0.98 > narrow.loc[name, "quality_high"]
    points = [name for name in found if name not in ("quality_low", "quality_high")]
    pd.testing.assert_frame_equal(found[points], narrow[points])


def habits(seed=0):
    """Twenty honest people, one who says "b" half the time, one who takes every second "c" for "d"."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(22), 80)
    truth = rng.integers(0, 4, len(who))
    given = np.where(rng.random(len(who)) < 0.85, truth, rng.integers(0, 4, len(who)))
    given = np.where((who == 20) & (rng.random(len(who)) < 0.5), 1, given)
    given = np.where((who == 21) & (truth == 2) & (rng.random(len(who)) < 0.5), 3, given)
    return who, given, truth, rng.uniform(0.7, 1, len(who))


def test_favourites_and_confusions_by_plain_loops():
    who, given, truth, sure = habits()
    table = describe(who, given, given == truth, truth, sure).set_index("annotator")
    rates = [[sure[(truth == k) & (given == j)].sum() / sure[truth == k].sum() for j in range(4)] for k in range(4)]
    named = 0
    for j in range(22):
        mine, row = who == j, table.loc[f"a-{j}"]
        total = sure[mine].sum()
        excess = {}
        for label in range(4):
            found = sure[mine & (given == label)].sum()
            expected = sum(sure[mine & (truth == k)].sum() * rates[k][label] for k in range(4))
            if found >= 5 and found - expected > 3 * np.sqrt(expected * (1 - expected / total)):
                excess[label] = (found - expected) / total
        if excess:
            assert row["favourite_label"] == "abcd"[max(excess, key=excess.get)]
            assert row["favourite_excess"] == pytest.approx(max(excess.values()), abs=1e-6)
            named += 1
        else:
            assert pd.isna(row["favourite_label"])
            assert np.isnan(row["favourite_excess"])
        counts = {}
        for k in range(4):
            of_truth = sure[mine & (truth == k)].sum()
            for label in {0, 1, 2, 3} - {k}:
                found = sure[mine & (truth == k) & (given == label)].sum()
                if of_truth >= 5 and found >= 2:
                    counts[f"{'abcd'[k]} -> {'abcd'[label]}"] = (found, found / of_truth)
        if counts:
            worst = max(counts, key=counts.get)
            assert row["worst_confusion"] == worst
            assert row["worst_confusion_share"] == pytest.approx(counts[worst][1], abs=1e-6)
        else:
            assert pd.isna(row["worst_confusion"])
    assert table.loc["a-20", "favourite_label"] == "b"
    assert table.loc["a-21", "worst_confusion"] == "c -> d"
    assert named <= 3


def test_worst_class_needs_five_items_and_a_mistake():
    who = np.array([0] * 9 + [1] * 6)
    consensus = np.array([0] * 4 + [1] * 5 + [2] * 6)
    given = np.array([3] * 4 + [1] * 4 + [0] + [2] * 6)
    table = describe(who, given, given == consensus, consensus, np.ones(15)).set_index("annotator")
    assert table.loc["a-0", "worst_class"] == "b"  # there were four items of "a" only
    others = 2 * (10 / 15) / 2  # nobody else had an item of "b": all labels of all classes, 10 of 15 right
    assert table.loc["a-0", "worst_class_accuracy"] == pytest.approx((4 + 2 * others) / 7)
    assert pd.isna(table.loc["a-1", "worst_class"])
    assert "mean_gate" not in table
    assert "median_seconds" not in table


def soft_truth(seed=0, n=400, k=3):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(k), n)
    row, label = np.nonzero(q >= 0.05)
    return rng.integers(0, 7, n), rng.integers(0, k, n), Truth(row, label, q[row, label])


def test_accuracy_on_each_class_and_harm_by_plain_loops():
    who, given, truth = soft_truth()
    counts = ClassAccuracy.of(Counts.of(who, given, truth, 3))
    n, right = np.zeros((7, 3)), np.zeros((7, 3))
    for row, label, weight in zip(truth.row, truth.label, truth.weight, strict=True):
        n[who[row], label] += weight
        right[who[row], label] += weight * (given[row] == label)
    overall = right.sum() / n.sum()
    rare = (n.sum(0) + 10).mean() / (n.sum(0) + 10)
    harm = counts.harm(7, 3)
    for a in range(7):
        total, variance = 0.0, 0.0
        for k in range(3):
            rest = [b for b in range(7) if b != a]
            others = (right[rest, k].sum() + 2 * overall) / (n[rest, k].sum() + 2)
            accuracy = (right[a, k] + 2 * others) / (n[a, k] + 2)
            entry = np.flatnonzero((counts.own.who == a) & (counts.own.true == k))[0]
            assert counts.others[entry] == pytest.approx(others)
            assert counts.accuracy[entry] == pytest.approx(accuracy)
            total += rare[k] * n[a, k] * (others - accuracy)
            variance += (rare[k] * n[a, k]) ** 2 * accuracy * (1 - accuracy) / (n[a, k] + 3)
        assert harm[a] == pytest.approx(max(total - 1.6448536 * np.sqrt(variance), 0), abs=1e-6)


def fraud(seed=0, n=5000):
    """Two answers an item, 2% frauds: lee misses 72% of them, the others 10%; all are right in 98% and more."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.random(n) < 0.02, 2).astype(int)
    who = np.concatenate([rng.permutation(4)[:2] for _ in range(n)])
    miss = np.where(truth == 1, np.array([0.1, 0.1, 0.72, 0.1])[who], 0.005)
    return who, np.where(rng.random(2 * n) < miss, 1 - truth, truth), truth


@pytest.mark.parametrize("seed", range(5))
def test_who_misses_the_rare_class_does_most_harm(seed):
    who, given, truth = fraud(seed)
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.7, 1, len(who))
    truth = np.where((truth == 1) & (rng.random(len(who)) < 0.2), 0, truth)  # a consensus that misses some too
    table = describe(who, given, np.where(given == truth, sure, 1 - sure), truth, sure, classes=["ok", "fraud"])
    assert table["annotator"][0] == "a-2"
    assert table["worst_class"][0] == "fraud"
    assert table["worst_class_accuracy"][0] < 0.45
    assert np.ptp(table["annotator_quality"]) < 0.02  # nothing to be seen there
    assert table["harm"][0] > 10 * table["harm"][1]


def test_speed_of_annotators_is_the_median_of_their_seconds():
    who, took = np.repeat(np.arange(3), 4), np.array([1, 2, 30, 4, 5, np.nan, 7, 6, np.nan, np.nan, np.nan, np.nan])
    frame = pd.DataFrame(
        {
            "item": pd.Categorical(np.arange(12)),
            "label": pd.Categorical(["x", "y"] * 6),
            "annotator": pd.Categorical.from_codes(who, ["ann", "bob", "lee"]),
            "reaction_ms": 1000 * took,
        }
    )
    said = {"predicted_label": np.zeros(12, int), "predicted_probability": np.full(12, 0.9)}
    made = Predictions.build(frame, ["x", "y"], **said, label_quality=np.full(12, 0.5), pi_columns=["reaction_ms"])
    table = describe_annotators(made, made.label_quality).set_index("annotator")
    assert table.loc[["ann", "bob"], "median_seconds"].tolist() == [3, 6]
    assert np.isnan(table.loc["lee", "median_seconds"])
    assert table["agreement"].isna().all()  # no item has two answers


def test_the_table_of_annotators_and_classes(tmp_path):
    who, given, truth = fraud()
    n = len(who)
    frame = pd.DataFrame(
        {
            "item": pd.Categorical(np.repeat(np.arange(n // 2), 2)),
            "label": pd.Categorical.from_codes(given, ["ok", "fraud"]),
            "annotator": pd.Categorical.from_codes(who, ["ann", "bob", "lee", "zoe"]),
        }
    )
    known = {"predicted_label": truth, "predicted_probability": np.full(n, 0.9), "label_quality": np.full(n, 0.9)}
    predictions = Predictions.build(frame, ["ok", "fraud"], **known)
    people = describe_annotators(predictions, predictions.label_quality)
    table = describe_annotator_classes(predictions, people)
    write_frame(tmp_path / "c.parquet", table)
    pd.testing.assert_frame_equal(read_frame(tmp_path / "c.parquet", schema=ANNOTATOR_CLASSES_COLUMNS), table)
    write_frame(tmp_path / "a.parquet", people)
    read = read_frame(tmp_path / "a.parquet", schema=ANNOTATORS_COLUMNS)
    pd.testing.assert_frame_equal(read, people, check_dtype=False)
    assert list(dict.fromkeys(table["annotator"])) == people["annotator"].tolist()
    lee = table[(table["annotator"] == "lee") & (table["true_class"] == "fraud")].iloc[0]
    mine = (who == 2) & (truth == 1)
    assert lee["num_items"] == pytest.approx(0.9 * mine.sum())
    assert lee["accuracy"] == pytest.approx((given == truth)[mine].mean(), abs=0.03)
    assert lee["accuracy_low"] < lee["accuracy"] < lee["accuracy_high"] < lee["others_accuracy"]
    assert (
        describe_annotator_classes(Predictions.build(frame.drop(columns="annotator"), ["ok", "fraud"], **known), None)
        is None
    )
