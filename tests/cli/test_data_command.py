import json

import numpy as np
import pytest
from command_line import run_cli

from pidual.data.datasets import DATASETS
from pidual.paper import make_cifar10_pi as making


def test_a_folder_without_files_fails_with_a_line_per_check(tmp_path):
    code, out, err = run_cli(["data", "check", "cifar10n", "--data", tmp_path])
    assert code == 1
    lines = out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("missing cifar10n: ") for line in lines)
    assert "https://github.com/UCSC-REAL/cifar-10-100n" in lines[2]
    assert "https://github.com/UCSC-REAL/cifar-10-100n" in lines[3]
    assert err == f"Error: missing or wrong in {tmp_path}: cifar10n (4 of 4 checks).\n"


def test_all_checks_every_dataset(tmp_path):
    code, out, err = run_cli(["data", "check", "all", "--data", tmp_path, "--json"])
    assert code == 1
    reports = json.loads(out)
    assert [report["dataset"] for report in reports] == list(DATASETS)
    assert [report["dataset"] for report in reports if report["ok"]] == ["digits_pi"]  # the only one that is made
    assert "digits_pi" not in err
    digits = next(report for report in reports if report["dataset"] == "digits_pi")
    rates = [float(check["detail"].split()[0]) for check in digits["checks"][:2]]
    assert rates == pytest.approx([0.44, 0.72], abs=0.005)


def test_an_unknown_dataset_is_wrong_usage(tmp_path):
    code, _, err = run_cli(["data", "check", "mnist", "--data", tmp_path])
    assert code == 2
    assert "there are cifar10h, cifar10n" in err


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PIDUAL_DATA", str(tmp_path))
    code, _, err = run_cli(["data", "check", "cifar10s"])
    assert code == 1
    assert str(tmp_path) in err


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Twenty CIFAR-10 images and annotators that need no training."""
    from pidual.data.datasets import cifar

    monkeypatch.setattr(cifar, "BATCH", 20)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    records = np.zeros((20, 3073), np.uint8)
    records[:, 0] = np.arange(20) % 10
    for name in ("data_batch_1", "test_batch"):
        (folder / f"{name}.bin").write_bytes(records.tobytes())

    def fit(train, x_test, width, epochs, *, seed):
        p = np.random.default_rng(seed).dirichlet(np.ones(10), 20) + np.eye(10)[train.y]
        return p / 2, p / 2, 1000 * width

    monkeypatch.setattr(making, "fit_annotator", fit)
    return tmp_path


def test_relabel_writes_the_dataset_and_says_what_it_made(images):
    code, out, err = run_cli(["data", "relabel", "cifar10_pi", "--data", images])
    assert code == 0, err
    assert out.startswith("20 images relabelled by 16 annotators, each right on at least ")
    assert "annotator 16 of 16: width 48, 6 epochs" in err
    assert (images / "cifar-10-pi" / "high_noise" / "labels" / "train.csv").is_file()
    code, out, _ = run_cli(["data", "relabel", "cifar10_pi", "--data", images, "--json", "--quiet"])
    assert len(json.loads(out)["annotators"]) == 16
