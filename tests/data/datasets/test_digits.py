import dataclasses

import pandas as pd
import pytest

from pidual.data.datasets.digits import load_digits_pi
from pidual.errors import UsageError


@pytest.fixture(scope="module")
def low():
    return load_digits_pi("low")


def test_sizes_and_columns(low):
    assert low.x.shape == (1257, 64)
    assert low.x_test.shape == (540, 64)
    assert low.x.dtype == low.x_test.dtype == "float32"
    assert low.images.shape == (1257, 1, 8, 8)
    assert low.images.max() == 255
    assert len(low.frame) == 1257
    assert low.frame["annotator"].nunique() == 16
    assert list(low.frame["item"]) == list(range(1257))
    assert set(low.pi) < set(low.frame)
    assert low.classes == list("0123456789")


def test_no_image_is_in_both_sets(low):
    assert not {row.tobytes() for row in low.x} & {row.tobytes() for row in low.x_test}


def test_noise_rates(low):
    assert low.noise_rate == pytest.approx(0.44, abs=0.03)
    assert load_digits_pi("high").noise_rate == pytest.approx(0.72, abs=0.03)
    assert load_digits_pi(0.3, seed=5).noise_rate == pytest.approx(0.3, abs=0.04)


def test_the_seed_changes_labels_only(low):
    again, other = load_digits_pi("low"), load_digits_pi("low", seed=1)
    pd.testing.assert_frame_equal(low.frame, again.frame)
    assert (other.x == low.x).all()
    assert (other.frame["label"] != low.frame["label"]).mean() > 0.3
    assert (other.frame["y"] == low.frame["y"]).all()


def test_impossible_noise_is_refused():
    with pytest.raises(UsageError, match="medium"):
        load_digits_pi("medium")
    with pytest.raises(UsageError, match="guessing"):
        load_digits_pi(0.95)


def test_another_processor_makes_the_same_data(low):
    moved = dataclasses.replace(low, frame=low.frame.assign(confidence=low.frame["confidence"] + 1e-3))
    assert moved.fingerprint() == low.fingerprint()
    other = dataclasses.replace(low, frame=low.frame.assign(label=low.frame["y"]))
    assert other.fingerprint() != low.fingerprint()
