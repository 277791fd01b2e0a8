"""How many wrong labels a review would find, against plain counting."""

import numpy as np
import pandas as pd
import pytest

from pidual.detect import simulate_review
from pidual.errors import UsageError
from pidual.run.predictions import Predictions

CLASSES = ["cat", "dog", "owl"]


def made(n=137, seed=0, **changes):
    """Predictions with clean labels; a quality and a confidence that know something of them."""
    rng = np.random.default_rng(seed)
    y, given = rng.integers(0, 3, n), rng.integers(0, 3, n)
    given = np.where(rng.random(n) < 0.7, y, given)
    right = (given == y) * 0.6
    names = np.array(CLASSES, object)
    frame = pd.DataFrame({"item": np.arange(n), "label": names[given], "y": names[y]})
    for name, values in changes.pop("columns", {}).items():
        frame[name] = values(frame[name])
    return Predictions.build(
        frame,
        CLASSES,
        predicted=given,
        predicted_probability=np.full(n, 0.5),
        label_quality=right * rng.random(n) + 0.4 * rng.random(n),
        given_probability=0.5 * right * rng.random(n) + 0.5 * rng.random(n),
        **changes,
    )


def test_every_number_is_counted():
    predictions = made()
    table = simulate_review(predictions)
    frame = predictions.frame.assign(
        wrong=predictions.frame["given_label"].astype(str) != predictions.frame["y"].astype(str)
    )
    n_wrong = int(frame["wrong"].sum())
    assert table["looked_at"].tolist() == [10, 20, 50, 100, 137]
    for row in table.itertuples():
        for column, score in (("found", "label_quality"), ("by_self_confidence", "given_probability")):
            first = sorted(zip(frame[score], frame["wrong"], strict=True), key=lambda pair: pair[0])[: row.looked_at]
            assert getattr(row, column) == sum(wrong for _, wrong in first)
        assert row.at_random == pytest.approx(row.looked_at * n_wrong / 137)
        assert row.possible == min(row.looked_at, n_wrong)
        assert row.accuracy == pytest.approx((137 - n_wrong + row.found) / 137)
    assert table["found"].iloc[-1] == table["at_random"].iloc[-1] == n_wrong
    assert table["accuracy"].iloc[-1] == 1


def test_test_items_and_unknown_ones_are_not_looked_at():
    split = np.where(np.arange(137) < 40, "test", "train")
    predictions = made(split=split, columns={"y": lambda y: y.where(np.arange(137) < 90)})
    assert simulate_review(predictions)["looked_at"].tolist() == [10, 20, 50]


def test_without_clean_labels_it_says_so():
    predictions = made()
    without = Predictions(predictions.frame.drop(columns="y"), CLASSES)
    with pytest.raises(UsageError, match=r"Clean labels are not known here.*--y"):
        simulate_review(without)


@pytest.mark.peers
def test_self_confidence_is_how_cleanlab_ranks():
    rank = pytest.importorskip("cleanlab.rank")
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50)
    ranked = rank.get_label_quality_scores(labels, probabilities)
    np.testing.assert_allclose(ranked, probabilities[np.arange(50), labels])
