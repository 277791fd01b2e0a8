import numpy as np
import pandas as pd
import pytest

from pidual.data.datasets.synthetic import make_crowd
from pidual.errors import UsageError


def test_sizes_and_columns():
    crowd = make_crowd(50, 7, 3, 4, 5, n_test=20)
    assert list(crowd.frame) == ["item", "annotator", "seconds", "label", "y"]
    assert len(crowd.frame) == 150
    assert crowd.x.shape == (50, 5)
    assert crowd.x_test.shape == (20, 5)
    assert crowd.y_test.shape == (20,)
    assert crowd.x.dtype == np.float32
    assert not crowd.frame.duplicated(["item", "annotator"]).any()
    assert set(crowd.frame["label"]) <= set(range(4))
    assert "seconds" not in make_crowd(50, durations=False).frame


@pytest.mark.parametrize("noise", [0.2, 0.35, 0.5, 0.65, 0.8])
@pytest.mark.parametrize(("n_items", "n_classes", "answers"), [(40, 2, 1), (300, 4, 3), (200, 10, 20)])
def test_noise_rate_is_met(noise, n_items, n_classes, answers):
    crowd = make_crowd(n_items, 40, answers, n_classes, noise=noise)
    assert crowd.noise_rate == pytest.approx(noise, abs=0.02)


def test_same_seed_same_crowd():
    first, again, other = make_crowd(seed=3), make_crowd(seed=3), make_crowd(seed=4)
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert np.array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_annotators_differ_and_spammers_guess():
    crowd = make_crowd(2000, 40, 3, n_classes=4, spammer_share=0.2)
    wrong = crowd.frame["label"] != crowd.frame["y"]
    by_annotator = wrong.groupby(crowd.frame["annotator"], observed=True).mean()
    assert len(crowd.spammers) == 8
    assert by_annotator[crowd.spammers].between(0.6, 0.9).all()
    assert by_annotator.drop(crowd.spammers).std() > 0.15
    answers = crowd.frame[crowd.frame["annotator"].isin(crowd.spammers)].groupby("annotator", observed=True)["label"]
    assert {1, 4} == set(answers.nunique())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answers_per_item": 31}, "between 1 and n_annotators = 30"),
        ({"n_classes": 1}, "two classes"),
        ({"noise": 1.5}, "1.5"),
        ({"noise": 0.1, "spammer_share": 0.9}, "spammers"),
    ],
)
def test_impossible_crowds_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        make_crowd(**options)
