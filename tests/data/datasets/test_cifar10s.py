import numpy as np
import pandas as pd
import pytest
from published import write_cifar10

from pidual.data.datasets import load_dataset
from pidual.errors import DataError

pytestmark = pytest.mark.usefixtures("small_cifar")


@pytest.fixture
def data(tmp_path):
    _, (x, y) = write_cifar10(tmp_path)
    rng = np.random.default_rng(0)
    image = rng.permutation([3, 3, 5, 8, 8, 8, 19])
    frame = pd.DataFrame(
        {
            "annotator": rng.integers(0, 4, 7),
            "cifar10_test_index": image,
            "label": rng.integers(0, 10, 7),
            "gold": y[image],
            "confidence": rng.uniform(0, 100, 7).round(1),
            "second_label": -1,
            "rt_ms": rng.gamma(2, 9000, 7).round(1),
            "trial_index": np.arange(7),
        }
    )
    (tmp_path / "cifar-10s").mkdir()
    frame.to_csv(tmp_path / "cifar-10s" / "annotations.csv", index=False)
    return tmp_path, frame, x, y


def test_items_are_rows_of_the_images_asked_about(data):
    folder, frame, x, _ = data
    loaded = load_dataset("cifar10s", folder)
    assert np.array_equal(loaded.x[loaded.frame["item"]], x[frame["cifar10_test_index"]])
    assert len(loaded.x) == 4
    assert np.array_equal(loaded.frame["label"], frame["label"])
    assert np.array_equal(loaded.frame["rt_ms"], frame["rt_ms"])
    assert set(loaded.pi) == {"annotator", "confidence", "rt_ms", "trial_index"} < set(loaded.frame)


def test_it_is_tested_on_the_other_images(data):
    folder, frame, x, y = data
    loaded = load_dataset("cifar10s", folder)
    unseen = [image for image in range(20) if image not in set(frame["cifar10_test_index"])]
    assert np.array_equal(loaded.x_test, x[unseen])
    assert np.array_equal(loaded.y_test, y[unseen])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("gold", 99, r"row 2 .*is of class 99 there and \d in CIFAR-10"),
        ("cifar10_test_index", 20, "names images 3 to 20; there are 20"),
        ("label", 10, "not numbers from 0 to 9"),
        ("label", np.nan, r"row 2 .*'label': 'nan' is not a whole number"),
    ],
)
def test_wrong_values_are_named(data, column, value, message):
    folder, frame, _, _ = data
    frame[column] = frame[column].astype(float)
    frame.loc[2, column] = value
    frame.to_csv(folder / "cifar-10s" / "annotations.csv", index=False)
    with pytest.raises(DataError, match=message):
        load_dataset("cifar10s", folder)
