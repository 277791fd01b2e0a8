import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from pidual.data.datasets import load_dataset
from pidual.data.datasets.check import check_dataset
from pidual.data.datasets.imagenet_pi import ANNOTATORS, read_imagenet_pi, write_imagenet_pi
from pidual.data.datasets.relabel import sample_annotations
from pidual.errors import DataError

SYNSETS = ["n01440764", "n01443537", "n02085620"]
COLOURS = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
PER_CLASS = 5


@pytest.fixture
def data(tmp_path):
    """Three classes of five training images and two validation images each, and the answers of 16 annotators."""
    names, y = [], []
    for k, synset in enumerate(SYNSETS):
        (tmp_path / "imagenet" / "train" / synset).mkdir(parents=True)
        (tmp_path / "imagenet" / "val" / synset).mkdir(parents=True)
        for number in range(PER_CLASS):
            name = f"{synset}_{100 + number}.JPEG"
            save(tmp_path / "imagenet" / "train" / synset / name, k, (40 + 10 * number, 60))
            names.append(name)
            y.append(k)
        for number in range(2):
            image = f"ILSVRC2012_val_{1 + k + 3 * number:08d}.JPEG"
            save(tmp_path / "imagenet" / "val" / synset / image, k, (50, 40))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(names))
    names, y = np.array(names)[order], np.array(y)[order]
    probs = rng.dirichlet([1, 1, 1], (16, len(y)))
    for rate, level in ((0.5, "low_noise"), (0.1, "high_noise")):
        frame = sample_annotations(probs, y, rate=rate, answers_per_item=None, items=names, sizes=rng.normal(size=16))
        write_imagenet_pi(tmp_path / "imagenet-pi" / level, frame)
    return tmp_path


def save(path, k, size):
    Image.new("RGB", size, COLOURS[k]).save(path, "JPEG")


@pytest.mark.parametrize("level", ["low", "high"])
def test_labels_pi_and_clean_labels(data, level):
    loaded = load_dataset(f"imagenet_pi:{level}", data, seed=3)
    raw = read_imagenet_pi(data / "imagenet-pi" / f"{level}_noise", seed=3)
    assert np.array_equal(loaded.frame["label"], raw["label"])
    assert np.array_equal(loaded.frame["confidence"], raw["confidence"])
    assert np.array_equal(loaded.frame["annotator"].cat.codes, raw["annotator"].cat.codes)
    assert list(loaded.frame["annotator"].cat.categories) == list(ANNOTATORS)
    assert loaded.frame["y"].tolist() == [SYNSETS.index(name.split("_")[0]) for name in raw["item"]]
    assert set(loaded.pi) == {"annotator", "confidence", "annotator_accuracy", "annotator_size"}
    assert loaded.classes == SYNSETS


def test_one_annotator_an_image_is_chosen_by_the_seed(data):
    first, again, other = (load_dataset("imagenet_pi", data, seed=seed).frame for seed in (0, 0, 1))
    assert len(first) == 15
    assert first.equals(again)
    assert (first["annotator"] != other["annotator"]).any()
    every = load_dataset("imagenet_pi", data, answers_per_item=None).frame
    assert len(every) == 15 * 16


def test_images_are_decoded_when_taken(data):
    loaded = load_dataset("imagenet_pi", data, image_size=16)
    assert loaded.x.array.shape == (15, 3, 16, 16)
    images = loaded.x.array.take(loaded.frame["item"].to_numpy())
    assert np.array_equal(images.mean(axis=(2, 3)).argmax(axis=1), loaded.frame["y"])  # red, green, blue
    tests = loaded.x_test.array.take(np.arange(6))
    assert np.array_equal(tests.mean(axis=(2, 3)).argmax(axis=1), loaded.y_test)
    assert load_dataset("imagenet_pi", data).x.array.shape[2:] == (224, 224)


def flatten(data):
    """Validation images all in one folder, as ILSVRC-2012 is published."""
    val = data / "imagenet" / "val"
    for path in sorted(val.glob("*/*.JPEG")):
        path.rename(val / path.name)
    for synset in SYNSETS:
        (val / synset).rmdir()


def test_validation_classes_from_kaggles_file(data):
    sorted_in = load_dataset("imagenet_pi", data)
    flatten(data)
    with pytest.raises(DataError, match=r"sort them into one folder per class, or put LOC_val_solution\.csv"):
        load_dataset("imagenet_pi", data)
    lines = ["ImageId,PredictionString"]
    lines += [f"ILSVRC2012_val_{n + 1:08d},{SYNSETS[n % 3]} 1 2 3 4 {SYNSETS[n % 3]} 5 6 7 8" for n in range(6)]
    (data / "imagenet" / "LOC_val_solution.csv").write_text("\n".join(lines))
    loaded = load_dataset("imagenet_pi", data)
    assert loaded.y_test.tolist() == [0, 1, 2, 0, 1, 2]
    assert sorted(sorted_in.y_test) == sorted(loaded.y_test)


def test_validation_classes_from_the_development_kit(data):
    flatten(data)
    kit = data / "imagenet" / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    table = np.zeros(4, [("ILSVRC2012_ID", float), ("WNID", object)])
    table["ILSVRC2012_ID"], table["WNID"] = [1, 2, 3, 1001], ["n02085620", "n01440764", "n01443537", "n00001740"]
    savemat(kit / "meta.mat", {"synsets": table})
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n3\n1\n2\n3\n1\n")
    assert load_dataset("imagenet_pi", data).y_test.tolist() == [0, 1, 2, 0, 1, 2]


def test_missing_parts_are_named(data):
    image = next((data / "imagenet" / "train" / SYNSETS[1]).iterdir())
    image.unlink()
    with pytest.raises(DataError, match=f"lacks 1 of the 15 images .*{SYNSETS[1]}/{image.name}"):
        load_dataset("imagenet_pi", data)
    (data / "imagenet-pi" / "low_noise").rename(data / "imagenet-pi" / "other")
    with pytest.raises(DataError, match=r"low_noise is missing; .*google-research-datasets/imagenet_pi"):
        load_dataset("imagenet_pi", data)
    (data / "imagenet").rename(data / "elsewhere")
    with pytest.raises(DataError, match=r"no folder imagenet/train .*image-net\.org"):
        load_dataset("imagenet_pi", data)


def test_a_label_beyond_the_classes_is_refused(data):
    path = data / "imagenet-pi" / "high_noise" / "labels" / "train.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("\n".join(",".join([line[0], *["3"] * 16]) for line in lines))
    with pytest.raises(DataError, match=r"has the label 3, but .*has 3 classes"):
        load_dataset("imagenet_pi:high", data)


def test_check_counts_what_is_there(data):
    checks = {check.what: check for check in check_dataset("imagenet_pi", data)}
    assert checks["low noise, annotators"].status == "ok"
    assert checks["classes"].detail == "3; published: 1,000"
    assert checks["training images"].detail == "15; published: 1,281,167"
    assert checks["validation images"].detail == "6; published: 50,000"
    for level, published in (("low", "0.481"), ("high", "0.838")):
        frame = load_dataset(f"imagenet_pi:{level}", data, answers_per_item=None).frame
        wrong = sum(label != y for label, y in zip(frame["label"], frame["y"], strict=True)) / len(frame)
        assert checks[f"noise of {level} labels"].detail == f"{wrong:.3f}; published: {published}"
