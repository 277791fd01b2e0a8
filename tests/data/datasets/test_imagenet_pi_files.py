import numpy as np
import pandas as pd
import pytest

from pidual.data.datasets.imagenet_pi import read_imagenet_pi, write_imagenet_pi
from pidual.data.datasets.relabel import sample_annotations
from pidual.errors import DataError


@pytest.fixture
def folder(probs, tmp_path):
    p, y = probs
    names = np.array([f"n01_{i}.JPEG" for i in range(50)])[::-1]
    frames = [
        sample_annotations(
            p[:, :50], y[:50], rate=0.5, answers_per_item=None, items=names, sizes=[1.5, 2.0, 3.0, 4.0], seed=seed
        )
        for seed in (0, 1)
    ]
    write_imagenet_pi(tmp_path / "low_noise", *frames)
    return tmp_path / "low_noise", frames


def test_files_are_headerless_and_in_imagenet_pis_places(folder):
    path, (train, _) = folder
    lines = (path / "labels" / "train.csv").read_text().splitlines()
    assert len(lines) == 50
    first = train.iloc[:4]
    assert lines[0] == "n01_49.JPEG," + ",".join(map(str, first["label"]))
    confidences = (path / "confidences" / "validation.csv").read_text().splitlines()[0].split(",")
    assert confidences[0] == "n01_49.JPEG"
    assert len(confidences) == 5
    features = np.loadtxt(path / "annotator_features.csv", delimiter=",")
    assert features.shape == (4, 2)
    assert list(features[:, 1]) == [1.5, 2.0, 3.0, 4.0]


def test_one_annotator_per_image_is_fixed_by_the_seed(folder):
    path, (train, _) = folder
    one = read_imagenet_pi(path)
    assert list(one["item"]) == list(train["item"].unique())
    merged = one.merge(train, on=["item", "annotator"], suffixes=("", "_all"))
    assert (merged["label"] == merged["label_all"]).all()
    assert (merged["confidence"] == merged["confidence_all"]).all()
    pd.testing.assert_frame_equal(one, read_imagenet_pi(path))
    assert (one["annotator"] != read_imagenet_pi(path, seed=1)["annotator"]).any()


def test_annotations_that_do_not_fit_the_format_are_refused(probs, tmp_path):
    p, y = probs
    with pytest.raises(DataError, match="answers_per_item=None"):
        write_imagenet_pi(tmp_path, sample_annotations(p, y, rate=1.0, sizes=np.ones(4)))
    every = sample_annotations(p, y, rate=1.0, sizes=np.ones(4), answers_per_item=None)
    with pytest.raises(DataError, match="class indices"):
        write_imagenet_pi(tmp_path, every.assign(label="cat"))


def test_images_out_of_step_are_named(folder):
    path, _ = folder
    labels = path / "labels" / "train.csv"
    labels.write_text(labels.read_text().replace("n01_48.JPEG", "n01_0.JPEG"))
    with pytest.raises(DataError, match=r"line 2 .*n01_0.*n01_48"):
        read_imagenet_pi(path)


def cut(lines):
    return lines[1:]


def too_long(lines):
    return [lines[0], lines[1] + ",7", *lines[2:]]


def too_short(lines):
    return [lines[0], lines[1].rsplit(",", 1)[0], *lines[2:]]


def fraction(lines):
    return [lines[0], lines[1].rsplit(",", 1)[0] + ",2.5", *lines[2:]]


def word(lines):
    return [lines[0], lines[1].rsplit(",", 1)[0] + ",cat", *lines[2:]]


def pointer(_):
    return ["version https://git-lfs.github.com/spec/v1", "oid sha256:0", "size 1"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "49 images"),
        (too_long, r"train\.csv cannot be read as CSV: .*line 2"),
        (too_short, "line 2 has nan"),
        (fraction, "line 2 has 2.5 where a class index"),
        (word, "must hold numbers"),
        (pointer, "git lfs pull"),
    ],
)
def test_a_damaged_file_is_named(folder, damage, message):
    path, _ = folder
    labels = path / "labels" / "train.csv"
    labels.write_text("\n".join(damage(labels.read_text().splitlines())) + "\n")
    with pytest.raises(DataError, match=message):
        read_imagenet_pi(path)
