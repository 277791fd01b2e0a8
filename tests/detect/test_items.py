import numpy as np
import pandas as pd
import pytest

from pidual.detect import Posteriors, describe_items
from pidual.detect.items import LEAST_LIKELY, Truth, largest
from pidual.errors import UsageError
from pidual.run.predictions import Predictions, read_frame, write_frame


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


def items_table(item, names, given, predicted, posteriors, classes):
    """The table of items of answers."""
    frame = pd.DataFrame(
        {"item": pd.Categorical.from_codes(item, names), "label": pd.Categorical.from_codes(given, classes)}
    )
    sure = np.full(len(frame), 0.5)
    how = {"predicted_label": predicted, "predicted_probability": sure, "label_quality": sure}
    return describe_items(Predictions.build(frame, classes, **how), posteriors)


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


@pytest.mark.parametrize("values", [1000, 3])  # all different, and many alike
def test_the_largest_of_a_row_come_first_and_of_equal_ones_the_first(values):
    p = (np.random.default_rng(0).integers(0, values, (40, 30)) / values).astype(np.float32)
    before = p.copy()
    assert np.array_equal(largest(p, 5), np.argsort(-p, axis=1, kind="stable")[:, :5])
    assert np.array_equal(p, before)


def test_every_item_needs_an_annotation():
    with pytest.raises(UsageError, match="2 items need annotations, but only 1"):
        items_table([0], ["a", "b"], [1], [1], Posteriors.empty(2, 2), ["x", "y"])


@pytest.mark.parametrize("k", [4, 30])
def test_what_items_may_be_by_plain_loops(k):
    item, _, _, q = crowd(k=k)
    posteriors = put(q)
    truth = Truth.by_posterior(item, posteriors)
    expected = []
    for row, i in enumerate(item):
        likely = [j for j in range(k) if q[i, j] >= LEAST_LIKELY and j in np.argsort(-q[i])[: 5 if k > 20 else k]]
        expected += [(row, j, q[i, j]) for j in likely or [int(q[i].argmax())]]
    found = sorted(zip(truth.row.tolist(), truth.label.tolist(), truth.weight.tolist(), strict=True))
    assert [one[:2] for one in found] == [one[:2] for one in sorted(expected)]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in sorted(expected)])


def test_an_item_of_which_no_class_is_likely_is_what_is_most_likely():
    q = np.full((1, 40), 0.024, np.float32)
    q[0, 7] = 0.04
    truth = Truth.by_posterior([0, 0], put(q, chunks=1))
    assert truth.row.tolist() == [0, 1]
    assert truth.label.tolist() == [7, 7]
