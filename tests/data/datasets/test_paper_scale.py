"""A few steps of every recipe at the paper's scale, with the networks the paper has."""

import json

import numpy as np
import published
import pytest
from command_line import run_cli
from PIL import Image
from published import raw_csv, raw_rows, write_cifar10

from pidual.data.datasets import cifar
from pidual.data.datasets.imagenet_pi import write_imagenet_pi
from pidual.data.datasets.relabel import sample_annotations
from pidual.learn.nets import build_network

pytestmark = pytest.mark.slow


def plan(name, data):
    """What `pidual benchmark NAME --scale paper --plan` prints, for cross-entropy and for Pi-DUAL."""
    args = ["benchmark", name, "--scale", "paper", "--methods", "ce,pi_dual", "--data", data, "--plan", "--json"]
    code, out, err = run_cli(args)
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["method"] for line in lines] == ["ce", "pi_dual"]
    assert all(np.isfinite(line["loss"]) for line in lines)
    return lines[0]["parameters"], lines[1]["parameters"]


def size(network, n_classes):
    """Parameters of a network."""
    return sum(p.numel() for p in build_network(network, in_shape=(3, 32, 32), n_classes=n_classes).parameters())


def test_cifar10h(tmp_path, monkeypatch):
    for module in (published, cifar):
        monkeypatch.setattr(module, "BATCH", 100)
    _, (_, y) = write_cifar10(tmp_path)
    (tmp_path / "cifar-10h").mkdir()
    (tmp_path / "cifar-10h" / "cifar10h-raw.csv").write_text(raw_csv(raw_rows(y)))
    ce, pi_dual = plan("cifar10h", tmp_path)
    assert ce == size("wrn_28_10", 10)
    assert pi_dual > ce


@pytest.mark.parametrize(("name", "n_classes"), [("cifar10n", 10), ("cifar100n", 100), ("cifar10s", 10)])
@pytest.mark.filterwarnings("ignore::pidual.DataWarning")  # that not all of CIFAR-10 is there
def test_datasets_that_can_be_had(name, n_classes, real_data):
    ce, pi_dual = plan(name, real_data)
    assert ce == size("wrn_28_10", n_classes)
    if name == "cifar100n":  # METHODS.md 3.1, with one row of the table for each of the 519 workers
        assert pi_dual - ce == pytest.approx(9_680_997, rel=0.01)


def test_cifar10_pi(real_data):
    if not (real_data / "cifar-10-pi").is_dir():
        pytest.skip("CIFAR-10-PI has not been made in PIDUAL_DATA")
    assert plan("cifar10_pi:high", real_data)[0] == size("wrn_28_10", 10)


def test_imagenet_pi(tmp_path):
    rng = np.random.default_rng(0)
    names = []
    for synset in ("n01440764", "n01443537", "n02085620"):
        for part in ("train", "val"):
            folder = tmp_path / "imagenet" / part / synset
            folder.mkdir(parents=True)
            for number in range(6):
                pixels = rng.integers(0, 256, (60, 50 + number, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{synset}_{number}.JPEG")
        names += [f"{synset}_{number}.JPEG" for number in range(6)]
    y = np.repeat([0, 1, 2], 6)
    probs = rng.dirichlet([1, 1, 1], (16, len(y)))
    frame = sample_annotations(probs, y, rate=0.1, answers_per_item=None, items=names, sizes=rng.normal(size=16))
    write_imagenet_pi(tmp_path / "imagenet-pi" / "high_noise", frame)
    ce, pi_dual = plan("imagenet_pi:high", tmp_path)
    assert ce == size("resnet50", 3)
    assert pi_dual > ce
