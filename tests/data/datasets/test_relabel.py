import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pidual.data.datasets import relabel as module
from pidual.data.datasets.relabel import calibrate_rate, expected_noise, relabel, sample_annotations
from pidual.errors import UsageError


def test_columns_and_confidence(probs):
    p, y = probs
    frame = sample_annotations(p, y, rate=0.5, sizes=[1.0, 2.0, 3.0, 4.0])
    expected = ["item", "annotator", "label", "confidence", "annotator_accuracy", "annotator_size", "y"]
    assert list(frame) == expected
    assert list(frame["item"]) == list(range(2000))
    a = frame["annotator"].cat.codes.to_numpy()
    assert np.allclose(frame["confidence"], p[a, np.arange(2000), frame["label"]], rtol=1e-6)
    assert np.array_equal(frame["annotator_size"], a + 1.0)
    own = (p.argmax(2) == y).mean(1)
    assert np.allclose(frame["annotator_accuracy"], own[a])
    assert np.array_equal(frame["y"], y)


def test_annotators_are_drawn_uniformly_or_all_of_them(probs):
    p, y = probs
    one = sample_annotations(p, y, rate=1.0)
    assert one["annotator"].value_counts(normalize=True).between(0.22, 0.28).all()
    two = sample_annotations(p, y, rate=1.0, answers_per_item=2)
    assert not two.duplicated(["item", "annotator"]).any()
    assert len(two) == 4000
    assert two["annotator"].value_counts(normalize=True).between(0.22, 0.28).all()
    every = sample_annotations(p, y, rate=1.0, answers_per_item=None)
    assert (every.groupby("item")["annotator"].nunique() == 4).all()


def test_labels_follow_the_tempered_distribution():
    p = np.tile([[0.6, 0.3, 0.1]], (200_000, 1))
    rng = np.random.default_rng(0)
    for temperature in (0.5, 1.0, 4.0):
        drawn = module._draw(p, np.full(len(p), temperature), rng)
        expected = np.array([0.6, 0.3, 0.1]) ** (1 / temperature)
        assert np.allclose(np.bincount(drawn) / len(p), expected / expected.sum(), atol=0.005)


@pytest.mark.parametrize("noise", [0.25, 0.5, 0.72])
def test_calibrated_rate_gives_the_noise(probs, noise):
    p, y = probs
    rate = calibrate_rate(p, y, noise)
    assert expected_noise(p, y, rate=rate) == pytest.approx(noise, abs=1e-4)
    frame = sample_annotations(p, y, rate=rate, answers_per_item=None)
    assert (frame["label"] != frame["y"]).mean() == pytest.approx(noise, abs=0.015)


@pytest.mark.parametrize("noise", [0.001, 0.95])
def test_a_noise_out_of_reach_is_refused(probs, noise):
    with pytest.raises(UsageError, match=r"between 0\.\d\d\d \(.*\) and 0\.(799|800) \(guessing\)"):
        calibrate_rate(*probs, noise)


def test_wrong_calls_are_refused(probs):
    p, y = probs
    with pytest.raises(UsageError, match="above 0"):
        sample_annotations(p, y, rate=0.0)
    with pytest.raises(UsageError, match="N = 1999"):
        sample_annotations(p, y[1:], rate=1.0)
    with pytest.raises(UsageError, match="0 to 4"):
        sample_annotations(p, y + 1, rate=1.0)
    with pytest.raises(UsageError, match="between 1 and"):
        sample_annotations(p, y, rate=1.0, answers_per_item=5)
    with pytest.raises(UsageError, match="3 names"):
        sample_annotations(p, y, rate=1.0, annotators=["a", "b", "c"])


def test_relabel_with_classifiers_that_know_different_classes():
    X, codes = make_blobs(600, centers=3, random_state=0, cluster_std=1.5)
    y = np.array(["ant", "bee", "cat"])[codes]
    known = y != "cat"
    models = {
        "all": make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
        "no cats": GaussianNB().fit(X[known], y[known]),
    }
    frame = relabel(X, y, models, noise=0.5, answers_per_item=None)
    assert set(frame["label"]) == {"ant", "bee", "cat"}
    assert (frame["label"] != frame["y"]).mean() == pytest.approx(0.5, abs=0.04)
    assert list(frame["annotator"].cat.categories) == ["all", "no cats"]
    assert np.array_equal(frame["y"].to_numpy()[::2], y)
    accuracy = frame.groupby("annotator", observed=True)["annotator_accuracy"].first()
    assert accuracy["all"] == pytest.approx(models["all"].score(X, y))
    with pytest.raises(UsageError, match="exactly one"):
        relabel(X, y, models)
    with pytest.raises(UsageError, match="at least one"):
        relabel(X, y, [], rate=1.0)
