import numpy as np
import pandas as pd
import pytest

from pidual.detect import annotators_table, items_table, shrunk_quality
from pidual.errors import UsageError
from pidual.metrics import wilson_interval


@pytest.fixture
def crowd():
    rng = np.random.default_rng(0)
    n, n_items, k, people = 600, 150, 4, 12
    item, who = rng.integers(0, n_items - 1, n), rng.integers(0, people, n)  # the last item has no labels
    p = rng.dirichlet(np.ones(k), n_items)
    given, predicted = rng.integers(0, k, n), p.argmax(1)[item]
    return item, who, given, predicted, p, n_items, k, people


def test_quality_by_the_formula(crowd):
    _, who, given, predicted, _, _, k, people = crowd
    quality = shrunk_quality(given, predicted, who, n_classes=k, n_annotators=people + 1)
    everyone = np.mean(given == predicted)
    for j in range(people + 1):
        mine = who == j
        agreed = np.sum((given == predicted)[mine])
        expected = (agreed + 10 * everyone) / (mine.sum() + 10)
        assert quality[j] == pytest.approx(np.clip(expected, 1 / k, 0.99))


def judge(p, item, given, who=None, names=None):
    """The items table for probabilities p (items, classes), which the annotations see through their labels alone."""
    p, item, given = np.asarray(p), np.asarray(item), np.asarray(given)
    names = names or [f"i{i}" for i in range(len(p))]
    return items_table(
        item, names, given, p.argmax(1)[item], p[item, given], p.max(1)[item], list("abcd")[: p.shape[1]], annotator=who
    )


def test_posterior_equals_the_product_by_plain_loops(crowd):
    item, who, given, predicted, p, n_items, k, people = crowd
    item[:n_items] = np.arange(n_items)
    predicted = p.argmax(1)[item]
    quality = shrunk_quality(given, predicted, who, n_classes=k, n_annotators=people)
    table = judge(p, item, given, who)
    for i in range(n_items):
        posterior = p[i].copy()
        for row in np.flatnonzero(item == i):
            q = quality[who[row]]
            posterior *= [q if c == given[row] else (1 - q) / (k - 1) for c in range(k)]
        posterior /= posterior.sum()
        labels = given[item == i]
        assert table["consensus_label"][i] == "abcd"[posterior.argmax()]
        assert table["consensus_quality"][i] == pytest.approx(posterior.max(), abs=1e-5)
        assert table["num_annotations"][i] == len(labels)
        assert table["predicted_label"][i] == "abcd"[p[i].argmax()]
        assert table["annotator_agreement"][i] == pytest.approx(np.mean(labels == posterior.argmax()), abs=1e-6)


def test_an_annotator_below_chance_counts_nothing():
    p = np.tile([0.4, 0.6], (200, 1))
    found = judge(p, np.arange(200), np.zeros(200, int))
    assert (found["consensus_label"][0], found["consensus_quality"][0]) == ("b", pytest.approx(0.6))


def test_certain_probabilities_stay_finite():
    found = judge([[1.0, 0.0, 0.0]], [0, 0], [1, 1])
    assert 0 < found["consensus_quality"][0] <= 1


def test_every_item_needs_an_annotation():
    with pytest.raises(UsageError, match="2 items need annotations, but only 1"):
        judge([[0.5, 0.5], [0.5, 0.5]], [0], [1])


def test_annotators_by_plain_loops(crowd):
    _, who, given, predicted, _, _, k, people = crowd
    gate = np.linspace(0, 1, len(who))
    issue = gate > 0.6
    names = [f"a-{j}" for j in range(people + 1)]  # the last one has no labels
    table = annotators_table(who, names, given, predicted, issue, list("abcd"), gate=gate).set_index("annotator")
    assert len(table) == people
    assert table["annotator_quality"].is_monotonic_increasing
    for j in range(people):
        mine, row = who == j, table.loc[f"a-{j}"]
        agrees = (given == predicted)[mine]
        low, high = wilson_interval(agrees.sum(), mine.sum())
        assert row["annotator_quality"] == pytest.approx(agrees.mean(), abs=1e-6)
        assert (row["quality_low"], row["quality_high"]) == (pytest.approx(float(low)), pytest.approx(float(high)))
        assert (row["num_labelled"], row["num_issues"]) == (mine.sum(), issue[mine].sum())
        assert row["mean_gate"] == pytest.approx(gate[mine].mean(), abs=1e-6)
        shares = {c: agrees[given[mine] == c].mean() for c in range(k) if np.sum(given[mine] == c) >= 5}
        assert shares["abcd".index(row["worst_class"])] == min(shares.values())


def test_worst_class_needs_five_labels_and_a_disagreement():
    who = np.array([0] * 9 + [1] * 6)
    given = np.array([0] * 4 + [1] * 5 + [2] * 6)
    predicted = np.array([3] * 4 + [1] * 4 + [0] + [2] * 6)
    table = annotators_table(who, ["p", "q"], given, predicted, given != predicted, ["a", "b", "c", "d"])
    worst = dict(zip(table["annotator"], table["worst_class"], strict=True))
    assert worst["p"] == "b"  # "a" was given four times only
    assert pd.isna(worst["q"])
    assert "mean_gate" not in table
