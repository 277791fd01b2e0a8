"""`check_dataset` on small files in the published formats, which have other sizes than the published ones."""

import pytest
import torch
from published import raw_csv, raw_rows, write_cifar10, write_cifar10n, write_cifar100

from pidual.data.datasets.check import check_dataset
from pidual.paper import make_cifar10_pi as making
from pidual.paper.make_cifar10_pi import make_cifar10_pi

RATES = {
    "cifar10n": {
        "worst labels": "0.4021",
        "worst-official labels": "0.4021",
        "aggregate labels": "0.0901",
        "random1 labels": "0.1723",
        "random2 labels": "0.1812",
        "random3 labels": "0.1764",
    },
    "cifar100n": {"fine labels": "0.4020", "coarse labels": "0.2640"},
    "cifar10s": {"answers": "0.157"},
    "labelme": {"answers": "0.2595"},
}


def found(name, data):
    """Status and detail of each check by what it is about."""
    return {check.what: (check.status, check.detail) for check in check_dataset(name, data)}


@pytest.mark.parametrize(
    "name", ["cifar10h", "cifar10n", "cifar100n", "imagenet_pi", "cifar10s", "labelme", "cifar10_pi"]
)
def test_an_empty_folder_lacks_everything_and_says_where_it_is(tmp_path, name):
    checks = check_dataset(name, tmp_path)
    assert checks
    assert {check.status for check in checks} == {"missing"}
    for check in checks:
        assert "https://" in check.detail or "pidual data relabel" in check.detail or "http://" in check.detail


def test_cifar10n(small_cifar, tmp_path):
    (_, y), _ = write_cifar10(tmp_path)
    labels, _ = write_cifar10n(tmp_path, y)
    checks = found("cifar10n", tmp_path)
    assert checks["clean labels"] == ("ok", "100 of 100 equal CIFAR's labels")
    assert checks["CIFAR-10 train images"] == ("ok", "100 images")
    assert checks["labels"] == ("wrong", "100; published: 50,000")
    noise = (labels["worse_label"] != y).mean()
    assert checks["noise of worst labels"] == ("wrong", f"{noise:.4f}; published: 0.4021")
    labels["clean_label"][4] = (labels["clean_label"][4] + 1) % 10
    torch.save(labels, tmp_path / "cifar-n" / "CIFAR-10_human.pt")
    assert found("cifar10n", tmp_path)["clean labels"] == ("wrong", "99 of 100 equal CIFAR's labels")


def test_missing_training_batches_are_noted_but_do_no_harm(small_cifar, tmp_path):
    (_, y), _ = write_cifar10(tmp_path)
    write_cifar10n(tmp_path, y)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    status, detail = found("cifar10n", tmp_path)["CIFAR-10 train images"]
    assert status == "note"
    assert detail.startswith("80 images; no data_batch_4.bin in ")
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"half")
    assert found("cifar10n", tmp_path)["CIFAR-10 test images"][0] == "wrong"


def test_unreadable_files_are_wrong_and_the_rest_goes_on(small_cifar, tmp_path):
    write_cifar100(tmp_path)
    (tmp_path / "cifar-n").mkdir()
    (tmp_path / "cifar-n" / "CIFAR-100_human.pt").write_bytes(b"hello")
    (tmp_path / "cifar-n" / "side_info_cifar100N.csv").write_text("Image-batch,Worker-id\n")
    checks = found("cifar100n", tmp_path)
    assert checks["CIFAR-100 train images, fine labels"] == ("ok", "100 images of 100 classes")
    assert checks["fine labels"][0] == checks["coarse labels"][0] == "wrong"
    assert checks["side_info_cifar100N.csv"][0] == "wrong"
    assert "Work-time-in-seconds" in checks["side_info_cifar100N.csv"][1]


def test_cifar10h_with_a_raw_table(small_cifar, tmp_path):
    _, (_, y) = write_cifar10(tmp_path)
    rows = raw_rows(y)
    (tmp_path / "cifar-10h").mkdir()
    path = tmp_path / "cifar-10h" / "cifar10h-raw.csv"
    path.write_text(raw_csv(rows))
    checks = found("cifar10h", tmp_path)
    assert checks["true labels"] == ("ok", "all 120 equal CIFAR's labels")
    assert checks["answers without attention checks"] == ("wrong", "120; published: 514,200")
    assert checks["noise of worst labels"][1].endswith("published: 0.646")
    path.write_text(raw_csv([[*row[:5], (row[5] + 1) % 10, *row[6:]] for row in rows]))
    assert found("cifar10h", tmp_path)["true labels"][0] == "wrong"


def test_cifar10_pi(small_cifar, tmp_path, monkeypatch):
    from test_cifar10_pi import fake_annotator

    write_cifar10(tmp_path)
    monkeypatch.setattr(making, "fit_annotator", fake_annotator)
    make_cifar10_pi(tmp_path)
    monkeypatch.setattr("pidual.data.datasets.check.HALF_POINT", 0.05)  # 1,600 labels only
    checks = found("cifar10_pi", tmp_path)
    assert {status for status, _ in checks.values()} == {"ok"}
    assert checks["annotators"][1].startswith("16, right about ")
    labels = tmp_path / "cifar-10-pi" / "low_noise" / "labels" / "train.csv"
    labels.write_text("\n".join(f"{line.split(',')[0]},{','.join('0' * 16)}" for line in labels.read_text().split()))
    assert found("cifar10_pi", tmp_path)["noise of low labels"] == ("wrong", "0.9000 (asked for: 0.50)")
    labels.write_text(labels.read_text().replace(",0", ",77"))
    assert "the label 77, not a class of CIFAR-10" in found("cifar10_pi", tmp_path)["low noise"][1]
    (tmp_path / "cifar-10-pi" / "low_noise" / "annotator_features.csv").unlink()
    assert found("cifar10_pi", tmp_path)["low noise"][0] == "missing"
    for broken in (
        "{",
        "{}",
        "[1]",
        '{"n_images": 9, "annotators": []}',
        '{"n_images": 9, "annotators": [{"accuracy": null}]}',
    ):
        (tmp_path / "cifar-10-pi" / "about.json").write_text(broken)
        assert "about.json is broken; make" in found("cifar10_pi", tmp_path)["about.json"][1]


# the published files


@pytest.mark.parametrize("name", RATES)
def test_published_files_are_right(real_data, name):
    checks = found(name, real_data)
    assert {what: check for what, check in checks.items() if check[0] not in ("ok", "note")} == {}
    assert {what: checks[f"noise of {what}"][1] for what in RATES[name]} == RATES[name]
