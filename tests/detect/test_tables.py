import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from pidual.detect import Posteriors, annotators_table, items_table
from pidual.errors import UsageError
from pidual.predictions import read_frame, write_frame


def crowd(k=4, n=600, n_items=150, people=12, seed=0):
    """Answers, and posteriors that have nothing to do with them; every item has an answer."""
    rng = np.random.default_rng(seed)
    item = rng.permutation(np.concatenate([np.arange(n_items), rng.integers(0, n_items, n - n_items)]))
    return item, rng.integers(0, people, n), rng.integers(0, k, n), rng.dirichlet(np.ones(k), n_items).astype("f4")


def put(q, chunks=3):
    """Posteriors that came in chunks."""
    found = Posteriors.empty(*q.shape)
    for items in np.array_split(np.random.default_rng(0).permutation(len(q)), chunks):
        found.put(items, q[items])
    return found


def test_items_by_plain_loops():
    item, _, given, q = crowd()
    predicted = (q.argmax(1)[item] + 1) % 4
    posteriors = put(q)
    table = items_table(item, [f"i{i}" for i in range(150)], given, predicted, posteriors, list("abcd"))
    assert list(table)[-4:] == ["p_a", "p_b", "p_c", "p_d"]
    assert np.allclose(table[["p_a", "p_b", "p_c", "p_d"]].sum(axis=1), 1, atol=1e-5)
    for i in range(150):
        row, labels = table.loc[i], given[item == i]
        assert row["consensus_label"] == "abcd"[q[i].argmax()]
        assert row["consensus_quality"] == row[f"p_{row['consensus_label']}"] == q[i].max()
        assert row["num_annotations"] == len(labels)
        assert row["predicted_label"] == "abcd"[(q[i].argmax() + 1) % 4]
        assert row["annotator_agreement"] == pytest.approx(np.mean(labels == q[i].argmax()), abs=1e-6)


def test_of_many_classes_the_five_most_likely_are_kept(tmp_path):
    item, _, given, q = crowd(k=30)
    posteriors = put(q)
    assert posteriors.p.shape == (150, 5)
    table = items_table(item, range(150), given, q.argmax(1)[item], posteriors, list(range(100, 130)))
    assert not [name for name in table if name.startswith("p_")]
    write_frame(tmp_path / "items.parquet", table)
    table = read_frame(tmp_path / "items.parquet")
    for i in range(150):
        order = np.argsort(-q[i])[:5]
        assert [table[f"top_{j}"][i] - 100 for j in range(1, 6)] == order.tolist()
        assert [table[f"top_{j}_probability"][i] for j in range(1, 6)] == q[i][order].tolist()
        assert table["consensus_label"][i] == table["top_1"][i]
    assert len(table["top_5"].cat.categories) == 30


def test_twenty_classes_are_all_kept():
    q = crowd(k=20)[3]
    assert put(q).p.shape == (150, 20)


def test_every_item_needs_an_annotation():
    with pytest.raises(UsageError, match="2 items need annotations, but only 1"):
        items_table([0], ["a", "b"], [1], [1], Posteriors.empty(2, 2), ["x", "y"])


def describe(who, given, right, consensus, sure, issue=None, classes="abcd", people=None, gate=None):
    """The annotators table by name."""
    issue = np.zeros(len(who), bool) if issue is None else issue
    names = [f"a-{j}" for j in range((max(who) + 1) if people is None else people)]
    return annotators_table(who, names, given, right, consensus, sure, issue, list(classes), gate=gate)


def test_annotators_by_plain_loops():
    item, who, given, q = crowd()
    consensus, sure, right = q.argmax(1)[item], q.max(1)[item], q[item, given]
    gate = np.linspace(0, 1, len(who))
    table = describe(who, given, right, consensus, sure, gate > 0.6, people=13, gate=gate)  # the last one has no labels
    assert len(table) == 12
    assert table["annotator_quality"].is_monotonic_increasing
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
        agrees = (given == consensus)[mine]
        shares = {c: agrees[given[mine] == c].mean() for c in range(4) if np.sum(given[mine] == c) >= 5}
        assert shares["abcd".index(row["worst_class"])] == min(shares.values())


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


def test_annotators_are_the_same_in_blocks(monkeypatch):
    who, given, truth, sure = habits()
    whole = describe(who, given, given == truth, truth, sure)
    monkeypatch.setattr("pidual.detect.tables.BLOCK_NUMBERS", 20)
    pd.testing.assert_frame_equal(describe(who, given, given == truth, truth, sure), whole)


def test_one_answer_says_little():
    who = np.array([0] * 100 + [1])
    right = np.array([0.9] * 100 + [0.0])
    table = describe(who, np.zeros(101, int), right, np.zeros(101, int), np.ones(101)).set_index("annotator")
    low, high = table.loc["a-1", ["quality_low", "quality_high"]]
    assert low == 0 == table.loc["a-1", "annotator_quality"]
    assert high > 0.9
    assert pd.isna(table.loc["a-1", "worst_confusion"])


def test_worst_class_needs_five_labels_and_a_disagreement():
    who = np.array([0] * 9 + [1] * 6)
    given = np.array([0] * 4 + [1] * 5 + [2] * 6)
    consensus = np.array([3] * 4 + [1] * 4 + [0] + [2] * 6)
    table = describe(who, given, given == consensus, consensus, np.ones(15))
    worst = dict(zip(table["annotator"], table["worst_class"], strict=True))
    assert worst["a-0"] == "b"  # "a" was given four times only
    assert pd.isna(worst["a-1"])
    assert "mean_gate" not in table
