"""The parts of benchmarks/crowds.py: synthetic crowds, columns, summary; with the peers installed, one small run."""

import warnings

import numpy as np
import pandas as pd
import pytest

# --- columns ---


@pytest.fixture
def frame():
    """Three items, of which two have a clean label; annotator b is always wrong, c never judged."""
    rows = [(0, "a", 1, 1), (0, "b", 0, 1), (1, "a", 2, 2), (1, "b", 0, 2), (2, "a", 0, None), (2, "c", 1, None)]
    made = pd.DataFrame(rows, columns=["item", "annotator", "label", "y"])
    return made.assign(y=made["y"].astype("Int64"))


def test_only_what_has_a_clean_label_counts(benchmark, frame):
    scores = benchmark("crowd_scores")
    judged = scores.Judged(
        quality=np.array([0.9, 0.2, 0.3, 0.4, 0.0, 0.0]),
        consensus=np.array([1, 0, 0]),
        consensus_quality=np.array([0.75, 0.95, 0.1]),
        test=np.array([0, 1, 1, 1]),
    )
    found = scores.score(judged, frame, np.array([0, 1, 0, 0]))
    assert found["auc"] == 0.75  # of four pairs of a right and a wrong answer one is the wrong way round
    assert found["consensus"] == 0.5
    assert found["stated"] == pytest.approx(0.85)
    assert found["ece"] == pytest.approx((0.25 + 0.95) / 2)
    assert found["test_accuracy"] == 0.5
    assert found["spearman"] is None
    assert found["collapsed"] is None


def test_annotators_are_ranked_by_their_true_accuracy(benchmark):
    scores = benchmark("crowd_scores")
    right = {"a": 5, "b": 3, "c": 1, "few": 4}
    rows = [(name, int(n >= share), 0) for name, share in right.items() for n in range(4 if name == "few" else 5)]
    frame = pd.DataFrame(rows, columns=["annotator", "label", "y"]).assign(item=0)
    truth = frame.assign(right=frame["label"] == frame["y"]).groupby("annotator")["right"].mean()
    assert truth[["a", "b", "c"]].tolist() == [1.0, 0.6, 0.2]
    said = pd.Series({"few": -9.0, "c": 0.1, "a": 0.9, "b": 0.5})
    assert scores.annotator_spearman(said, frame) == pytest.approx(1.0)
    assert scores.annotator_spearman(-said, frame) == pytest.approx(-1.0)
    assert scores.annotator_spearman(said.drop("a"), frame) is None  # two are too few


def test_the_summary_has_mean_and_standard_error(benchmark):
    scores = benchmark("crowd_scores")
    empty = dict.fromkeys(scores.COLUMNS)
    rows = [
        {"data": "d", "method": "m", "seed": seed, **empty, "auc": auc, "collapsed": auc < 0.5, "seconds": 2.0}
        for seed, auc in enumerate([0.4, 0.6, 0.8])
    ]
    (line,) = scores.summarise(rows)
    assert line["auc"] == {"mean": 0.6, "standard_error": pytest.approx(0.2 / 3**0.5, abs=1e-5)}
    assert line["collapsed"] == 1
    assert line["seeds"] == 3
    assert line["consensus"] is None
    shown = scores.table([line]).splitlines()
    assert shown[0] == "d"
    assert "0.600 ±0.115" in shown[2]


# --- synthetic crowds ---


def test_a_crowd_is_its_seeds_and_has_the_shape_asked_for(benchmark):
    make = benchmark("crowd_data").make_synthetic
    shape = {"n_items": 300, "answers": 4, "n_annotators": 12, "n_classes": 3, "n_test": 50}
    one, same, other = (make(**shape, seed=seed) for seed in (0, 0, 1))
    assert one.frame.equals(same.frame)
    assert not one.frame.equals(other.frame)
    assert len(one.frame) == 1200
    assert one.frame.groupby("item")["annotator"].nunique().eq(4).all()
    assert (one.x.shape, one.x_test.shape) == ((300, 20), (50, 20))
    assert one.frame["label"].between(0, 2).all()
    assert one.noise_rate == pytest.approx(0.3, abs=0.06)


def test_kinds_of_annotators_answer_as_they_should(benchmark):
    data = benchmark("crowd_data")
    made = data.make_synthetic(2000, 5, n_annotators=20, spammers=0.2, adversaries=0.1, shared=0.2, noise=0.1, seed=3)
    frame = made.frame.assign(kind=made.frame["annotator"].map(made.about["kind"]))
    right = (frame["label"] == frame["y"]).groupby(frame["kind"]).mean()
    assert right["spammer"] == pytest.approx(0.2, abs=0.03)
    assert right["adversary"] < 0.1
    people = frame.groupby("annotator")["kind"].first().value_counts()
    assert people.to_dict() == {"honest": 14, "spammer": 4, "adversary": 2}
    one_class = frame[frame["kind"] == "spammer"].groupby("annotator")["label"].nunique()
    assert sorted(one_class) == [1, 1, 5, 5]
    honest = frame[frame["kind"] == "honest"]
    misled = made.about["misled"][honest["item"]]
    assert misled.mean() == pytest.approx(0.2, abs=0.03)
    wrong = honest[(honest["label"] != honest["y"]) & misled]
    same = wrong.groupby("item")["label"].agg(lambda labels: labels.value_counts().iloc[0] / len(labels))
    assert same.mean() > 0.9  # those who are misled are misled alike
    assert (honest["label"] == honest["y"])[~misled].mean() == pytest.approx(0.9, abs=0.05)
    assert (honest["label"] == honest["y"])[misled].mean() == pytest.approx(0.27, abs=0.05)


# --- one run ---


def test_the_network_that_peers_get_predicts(benchmark):
    peers, data = benchmark("crowd_peers"), benchmark("crowd_data")
    made = data.make_synthetic(60, 3, n_annotators=8, n_classes=3, separation=5.0, n_test=100, noise=0.1, seed=0)
    truth = benchmark("crowd_scores").item_truth(made.frame)
    assert (peers.train_on_items(made, truth.to_numpy(int), 0) == made.y_test).mean() > 0.8


@pytest.mark.peers
def test_every_method_on_a_small_crowd(benchmark, tmp_path, monkeypatch):
    pytest.importorskip("crowdkit")
    pytest.importorskip("cleanlab")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crowds, data = benchmark("crowds"), benchmark("crowd_data")
        shape = {"n_items": 60, "answers": 3, "n_annotators": 8, "n_classes": 3, "n_test": 100, "noise": 0.2}
        monkeypatch.setitem(data.CROWDS, "small", lambda seed: data.make_synthetic(**shape, separation=5.0, seed=seed))
        methods = ["pi_dual", "ce", "no_such_method", *crowds.PEERS]
        log = crowds.Log(tmp_path / "crowds.json", "data", "method", "seed")
        crowds.compare(["small"], methods, 1, log)
        n_rows = len(log.rows)
        crowds.compare(["small"], methods, 1, crowds.Log(tmp_path / "crowds.json", "data", "method", "seed"))
    found = {row["method"]: row for row in log.rows}
    assert [*found] == [method for method in methods if method != "no_such_method"]
    assert len((tmp_path / "crowds.jsonl").read_text().splitlines()) == n_rows  # nothing was fitted again
    for method, row in found.items():
        assert row["test_accuracy"] > 0.8, method
        assert row["seconds"] > 0
        if method != "clean":
            assert row["auc"] > 0.8, method
            assert row["consensus"] > 0.8, method
            assert -1 <= row["spearman"] <= 1
            assert 0 <= row["ece"] <= 1
    assert found["clean"]["consensus"] is None
    assert found["ce"]["collapsed"] is False
