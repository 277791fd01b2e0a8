"""Pictures as vectors, against plain loops and on pictures whose answer is known."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pidual.data import picture_features
from pidual.data.datasets.digits import load_noise_level
from pidual.data.picture_features import PictureFeatures, learn_patches, patch_features


@pytest.fixture(scope="module")
def pictures():
    """Digits of 8 x 8 pixels as pictures of 32 x 32 in three colours, and their classes."""
    data = load_noise_level(None, "low")
    grey = np.asarray(data.x_test).reshape(-1, 8, 8)
    grey = np.repeat(np.repeat(grey * (255 / grey.max()), 4, 1), 4, 2).astype(np.uint8)
    return np.stack([grey, 255 - grey, grey], 1), data.y_test


def test_responses_are_those_of_plain_loops(pictures):
    x = pictures[0][:3]
    mean, filters = learn_patches(x)
    found = picture_features._responses(x, mean, filters, 0.5).reshape(3, 4, -1)
    for picture in range(3):
        seen = np.zeros((14, 14, filters.shape[1]))
        for row in range(14):
            for column in range(14):
                patch = x[picture, :, 2 * row : 2 * row + 6, 2 * column : 2 * column + 6].ravel().astype(float)
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + 10)
                seen[row, column] = np.maximum((patch - mean) @ filters - 0.5, 0)
        quarters = [seen[r : r + 7, c : c + 7].mean((0, 1)) for r in (0, 7) for c in (0, 7)]
        np.testing.assert_allclose(found[picture], quarters, atol=1e-3)


def test_vectors_separate_digits_and_do_not_depend_on_other_pictures(pictures):
    x, y = pictures
    features = PictureFeatures.fit(x[:300], 64)
    vectors = features(x)
    assert vectors.shape == (len(x), 64)
    assert vectors.dtype == np.float32
    assert 0.9 < vectors[:300].std() < 1.1
    np.testing.assert_allclose(features(x[7:9]), vectors[7:9], atol=1e-4)
    assert LogisticRegression(max_iter=500).fit(vectors[:300], y[:300]).score(vectors[300:], y[300:]) > 0.9


def test_patch_features_turn_components_at_random_and_are_read_again(pictures, tmp_path, monkeypatch):
    x, _ = pictures
    vectors, others = patch_features(x[:300], x[300:], tmp_path, 50)
    spread = vectors.std(0)
    assert vectors.shape == (300, 50)
    assert len(others) == len(x) - 300
    assert spread.max() < 3 * spread.min()  # principal components differ by far more
    values = np.linalg.eigvalsh(np.cov(vectors.T))
    assert values.max() > 30 * values.min()
    monkeypatch.setattr(picture_features, "learn_patches", None)
    np.testing.assert_array_equal(patch_features(x[:300], x[300:], tmp_path, 50)[0], vectors)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]
