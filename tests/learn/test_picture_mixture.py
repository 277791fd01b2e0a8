"""The closed form on pictures: the same features in fit and prediction, whatever size and numbers pictures have."""

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import run_cli, write_key
from PIL import Image

from pidual import PiDualClassifier, Run
from pidual.data.picture_features import PictureFeatures
from pidual.learn.closed_form.pictures import PictureMixture, is_picture


def draw(n, side=16, seed=0, channels=3):
    """Pictures of two classes: stripes that lie, and stripes that stand."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.integers(0, 90, (n, channels, side, side))
    stripes = (np.arange(side) // 2 % 2 * 120)[None, :]
    x[y == 0] += stripes
    x[y == 1] += stripes.T
    return x.astype(np.uint8), y


def made(x):
    return PictureMixture.of(x, np.arange(len(x)), 2)


def test_pictures_of_usual_size_have_the_features_as_they_are():
    x, _ = draw(40)
    np.testing.assert_allclose(made(x).describe(x), PictureFeatures.fit(x)(x), rtol=1e-6)


def test_large_pictures_are_made_smaller_by_means_of_squares():
    small, _ = draw(30, side=32)
    large = small.repeat(2, axis=2).repeat(2, axis=3)
    large = np.pad(large, ((0, 0), (0, 0), (0, 1), (0, 1)))  # what is left over is cut off
    np.testing.assert_allclose(made(large).describe(large), made(small).describe(small), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "there"),
    [
        ((3, 32, 32), True),
        ((1, 8, 8), True),
        ((3, 7, 40), False),
        ((4, 32, 32), False),
        ((32, 32), False),
        ((9,), False),
    ],
)
def test_what_counts_as_a_picture(shape, there):
    assert is_picture(shape) is there


def test_a_picture_has_the_same_features_alone_and_on_the_way_to_probabilities():
    x, _ = draw(30)
    module = made(x)
    np.testing.assert_allclose(module.describe(x[3:4]), module.describe(x)[3:4], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module(torch.from_numpy(x)), module.mixture(torch.from_numpy(module.describe(x))))


def test_a_classifier_learns_pictures_without_a_network(tmp_path):
    x, y = draw(120)
    rows = np.arange(120).repeat(3)
    wrong = np.random.default_rng(1).random(360) < 0.3
    model = PiDualClassifier("latent_truth").fit(x[rows], y[rows] ^ wrong)
    new, truth = draw(60, seed=5)
    assert (model.predict(new) == truth).mean() > 0.95
    model.save(tmp_path / "model")
    again = PiDualClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))


def test_a_run_of_photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = draw(40)
    (tmp_path / "photos").mkdir()
    for number, pixels in enumerate(x):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(f"photos/{number}.png")
    rng = np.random.default_rng(0)
    rows = [(n, f"a{who}", int(y[n] ^ (rng.random() < 0.2))) for n in range(40) for who in range(3)]
    pd.DataFrame(rows, columns=["item", "annotator", "label"]).to_csv("labels.csv", index=False)
    write_key(tmp_path)
    code, _, err = run_cli(["fit", "labels.csv", "--x", "photos", "--out", "run", "-q"])
    assert code == 0, err
    run = Run.open("run")
    assert run.config.network.name == "closed_form"
    assert len(run.thumbnails) > 0
    found = run.predict("photos")
    assert (found["predicted_label"].astype(int) == y[found["item"].str[:-4].astype(int)]).mean() > 0.9
    code, _, err = run_cli(["export", "run", "net.onnx", "--to", "onnx"])
    assert code == 2
    assert "train a network (fit --network small_cnn) to export it" in err
