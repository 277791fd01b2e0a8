import json

import numpy as np
import pytest
from published import write_cifar10
from sklearn.metrics import roc_auc_score

from pidual.data.datasets import cifar, load_dataset
from pidual.data.datasets.imagenet_pi import read_imagenet_pi
from pidual.errors import DataError, DataWarning
from pidual.paper import make_cifar10_pi as making
from pidual.paper.make_cifar10_pi import make_cifar10_pi

N = 160


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """CIFAR-10-PI of two training batches of easy images, by three annotators; with what the command returns."""
    data = tmp_path_factory.mktemp("made")
    folder = data / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("data_batch_1", "data_batch_3", "test_batch"):
        y = np.arange(N) % 10
        colour = np.stack([y % 2, y // 2 % 3, y // 6], axis=1)[:, :, None] * 80 + 40
        pixels = (colour + rng.normal(0, 20, (N, 3, 1024))).clip(0, 255)
        records = np.concatenate([y[:, None], pixels.reshape(N, -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.astype(np.uint8).tobytes())
    notes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifar, "BATCH", N)
        patch.setattr(making, "ANNOTATORS", ((6, 10), (7, 12), (8, 12)))
        about = make_cifar10_pi(data, note=notes.append)
    return data, about, notes


@pytest.fixture
def data(made, monkeypatch):
    monkeypatch.setattr(cifar, "BATCH", N)
    return made[0]


def test_noise_is_as_asked_for_and_annotators_are_good(made):
    _, about, notes = made
    assert about["n_images"] == 2 * N
    assert about["levels"]["low"]["noise"] == pytest.approx(0.50, abs=0.05)
    assert about["levels"]["high"]["noise"] == pytest.approx(0.72, abs=0.05)
    assert all(row["accuracy"] >= 0.75 for row in about["annotators"])
    assert len({row["parameters"] for row in about["annotators"]}) == 3
    assert len(notes) == 3
    assert notes[2].startswith("annotator 3 of 3: width 8, 12 epochs")


@pytest.mark.parametrize("level", ["low", "high"])
def test_it_loads_with_the_labels_of_one_annotator_an_image(made, data, level):
    loaded = load_dataset(f"cifar10_pi:{level}", data, seed=1)
    files = read_imagenet_pi(data / "cifar-10-pi" / f"{level}_noise", seed=1)
    assert np.array_equal(loaded.frame["label"], files["label"])
    assert loaded.frame["item"].tolist() == list(range(2 * N))
    assert files["item"][0] == "data_batch_1/0000"
    assert files["item"][N] == "data_batch_3/0000"
    assert loaded.frame["annotator"].nunique() == 3
    assert np.array_equal(loaded.frame["y"], np.arange(2 * N) % 10)
    assert len(loaded.x) == 2 * N
    assert len(loaded.y_test) == N
    assert loaded.about["levels"] == made[1]["levels"]
    wrong = loaded.frame["label"] != loaded.frame["y"]
    assert roc_auc_score(wrong, -loaded.frame["confidence"]) > 0.9
    other = load_dataset(f"cifar10_pi:{level}", data, seed=2).frame
    assert (other["annotator"] != loaded.frame["annotator"]).any()
    assert len(load_dataset(f"cifar10_pi:{level}", data, answers_per_item=None).frame) == 6 * N


def test_images_that_were_added_later_are_left_out(data):
    plain = load_dataset("cifar10_pi", data)
    added = data / "cifar-10-batches-bin" / "data_batch_2.bin"
    added.write_bytes((data / "cifar-10-batches-bin" / "test_batch.bin").read_bytes())
    try:
        loaded = load_dataset("cifar10_pi", data)
    finally:
        added.unlink()
    assert np.array_equal(loaded.x, plain.x)
    assert loaded.frame.equals(plain.frame)


def test_images_that_are_gone_are_named(data):
    gone = data / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = gone.read_bytes()
    gone.unlink()
    try:
        with pytest.raises(DataError, match=f"answers for {N} images that are not in .*data_batch_3/0000"):
            load_dataset("cifar10_pi", data)
    finally:
        gone.write_bytes(whole)


def fake_annotator(train, x_test, width, epochs, *, seed):
    """Probabilities that are mostly right, without training."""
    rng = np.random.default_rng(seed)

    def probs(y):
        p = rng.dirichlet(np.ones(10), len(y))
        p[np.arange(len(y)), y] += 1
        return p / p.sum(1, keepdims=True)

    return probs(train.y), probs(np.zeros(len(x_test), int)), width


def test_an_interrupted_making_is_not_taken_for_whole(small_cifar, tmp_path, monkeypatch):
    write_cifar10(tmp_path)
    monkeypatch.setattr(making, "fit_annotator", fake_annotator)
    make_cifar10_pi(tmp_path)
    first = load_dataset("cifar10_pi:low", tmp_path).frame
    write, calls = making.write_imagenet_pi, []

    def stop_at_the_second(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(*args)

    monkeypatch.setattr(making, "write_imagenet_pi", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        make_cifar10_pi(tmp_path, seed=1)
    with pytest.raises(DataError, match="make the annotations first"):
        load_dataset("cifar10_pi:low", tmp_path)
    monkeypatch.setattr(making, "write_imagenet_pi", write)
    make_cifar10_pi(tmp_path)
    assert load_dataset("cifar10_pi:low", tmp_path).frame.equals(first)
    assert json.loads((tmp_path / "cifar-10-pi" / "about.json").read_text())["seed"] == 0


def test_weak_annotators_are_reported(small_cifar, tmp_path, monkeypatch):
    write_cifar10(tmp_path)
    monkeypatch.setattr(making, "fit_annotator", fake_annotator)
    monkeypatch.setattr(making, "LEAST_ACCURACY", 1.01)
    with pytest.warns(DataWarning, match="annotators 0, 1, 2, .*less than 101%"):
        make_cifar10_pi(tmp_path)
