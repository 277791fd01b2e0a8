from importlib import import_module
from pathlib import Path

import numpy as np
import published
import pytest
from published import write_cifar10

from pidual.data import Inputs
from pidual.data.datasets import DATASETS, cifar, cifarn, find_entry, load_dataset
from pidual.data.datasets.base import NoisyDataset
from pidual.data.datasets.check import CHECKS
from pidual.data.datasets.digits import load_digits_pi
from pidual.errors import UsageError

HERE = ["cifar10n", "cifar10n:aggregate", "cifar100n", "cifar10s", "labelme", "cifar10_pi:low"]


def test_every_dataset_has_a_loader_and_a_check():
    assert list(CHECKS) == list(DATASETS)
    for entry in DATASETS.values():
        module, function = entry.loader.split(".")
        assert callable(getattr(import_module(f"pidual.data.datasets.{module}"), function))


def test_the_first_variant_is_the_default_and_options_reach_the_loader(tmp_path):
    loaded = load_dataset("digits_pi", tmp_path, seed=3, answers_per_item=2)
    assert loaded.name == "digits_pi:low"
    assert loaded.frame.equals(load_digits_pi("low", seed=3, answers_per_item=2).frame)
    assert find_entry("cifar10n")[1] == "worst"
    assert find_entry("cifar10n:random2")[1] == "random2"
    assert find_entry("cifar10h")[1] is None


def test_pictures_as_features_are_made_once(tmp_path, monkeypatch):
    for module in (published, cifar):
        monkeypatch.setattr(module, "BATCH", 80)
    write_cifar10(tmp_path)
    monkeypatch.setattr(cifarn, "read_labels", lambda *_: dict.fromkeys(cifarn.KEYS_10, labels))
    monkeypatch.setattr(cifarn, "read_side_info", lambda *_, **__: cifarn.SideInfo(zeros, zeros))
    images = cifar.load_cifar10(tmp_path, "train")
    labels, zeros = images.y, np.zeros((3, len(images.y)), np.int64)
    loaded = load_dataset("cifar10n", tmp_path, features="patches")
    assert loaded.x.shape == (400, 400)
    assert loaded.x_test.shape == (80, 400)
    assert len(list((tmp_path / "picture-features").iterdir())) == 1
    with pytest.raises(UsageError, match=r"features='hog' of cifar10n: there are 'patches'"):
        load_dataset("cifar10n", tmp_path, features="hog")
    with pytest.raises(UsageError, match="of pictures that memory holds"):
        load_dataset("digits_pi", tmp_path, features="patches")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnist", "no dataset 'mnist'; there are cifar10h, cifar10n"),
        ("cifar10n:best", "there are cifar10n:worst, cifar10n:worst-official"),
        ("cifar10h:worst", "no variants of it"),
        ("labelme:", "labelme:test"),
    ],
)
def test_unknown_names_are_refused(tmp_path, name, message):
    with pytest.raises(UsageError, match=message):
        load_dataset(name, tmp_path)


def test_the_docs_name_every_dataset_and_variant():
    page = (Path(__file__).parents[3] / "docs" / "paper" / "datasets.md").read_text()
    for name, entry in DATASETS.items():
        assert [each for each in (name, *entry.variants) if f"`{each}`" not in page] == []


@pytest.mark.filterwarnings("ignore:.*training images of CIFAR-10 are used")
@pytest.mark.parametrize("name", HERE)
def test_every_dataset_keeps_the_promise_of_the_base(real_data, name):
    if name.startswith("cifar10_pi") and not (real_data / "cifar-10-pi").is_dir():
        pytest.skip("CIFAR-10-PI has not been made there")
    loaded = load_dataset(name, real_data)
    assert isinstance(loaded, NoisyDataset)
    assert loaded.name == (name if ":" in name or not DATASETS[name].variants else f"{name}:{find_entry(name)[1]}")
    frame = loaded.frame
    assert {"item", "label", "y", *loaded.pi} <= set(frame)
    assert set(loaded.pi.values()) <= {"category", "number", "duration"}
    assert not isinstance(loaded.x, Inputs)
    assert frame["item"].between(0, len(loaded.x) - 1).all()
    for labels in (frame["label"], frame["y"], loaded.y_test):
        assert np.min(labels) >= 0
        assert np.max(labels) < len(loaded.classes)
    assert len(loaded.x_test) == len(loaded.y_test)
    assert 0 < loaded.noise_rate < 1
    assert frame.groupby("item")["y"].nunique().eq(1).all()
