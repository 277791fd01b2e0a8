import numpy as np
import pytest
import torch
from published import write_cifar10, write_cifar10n, write_cifar100, write_side_info

from pidual.data.datasets import DATASETS, load_dataset
from pidual.errors import DataError


@pytest.fixture
def ten(tmp_path, small_cifar):
    """CIFAR-10N for 100 images: folder, labels, side information."""
    (_, y), _ = write_cifar10(tmp_path)
    return tmp_path, *write_cifar10n(tmp_path, y)


def answer_by_loops(labels, side, kind):
    """Label, worker and seconds of each image."""
    chosen = []
    for image, clean in enumerate(labels["clean_label"]):
        answers = [labels[f"random_label{j}"][image] for j in (1, 2, 3)]
        if kind == "worst":
            place = next((j for j in range(3) if answers[j] != clean), 0)
        elif kind.startswith("random"):
            place = int(kind[-1]) - 1
        else:
            key = {"worst-official": "worse_label", "aggregate": "aggre_label"}[kind]
            place = answers.index(labels[key][image])
        row = side[image // 10]
        chosen.append((answers[place], row[2 * place], row[2 * place + 1]))
    return chosen


@pytest.mark.parametrize("kind", DATASETS["cifar10n"].variants)
def test_every_kind_of_label_has_the_pi_of_who_gave_it(ten, kind):
    folder, labels, side = ten
    loaded = load_dataset(f"cifar10n:{kind}", folder)
    found = loaded.frame[["label", "annotator", "seconds"]].to_numpy().tolist()
    assert found == [list(row) for row in answer_by_loops(labels, side, kind)]
    assert loaded.name == f"cifar10n:{kind}"
    assert np.array_equal(loaded.frame["y"], labels["clean_label"])
    assert dict(loaded.pi) == {"annotator": "category", "seconds": "duration"}
    assert len(loaded.x) == 100
    assert len(loaded.y_test) == 20


def test_the_two_worst_rules_have_one_noise_rate_but_other_labels(ten):
    folder, labels, _ = ten
    ours, official = (load_dataset(f"cifar10n:{kind}", folder) for kind in ("worst", "worst-official"))
    assert np.array_equal(official.frame["label"], labels["worse_label"])
    assert ours.noise_rate == official.noise_rate
    assert (ours.frame["label"] != official.frame["label"]).any()


def test_labels_in_another_order_are_refused(ten):
    folder, labels, _ = ten
    order = np.random.default_rng(0).permutation(100)
    torch.save({key: values[order] for key, values in labels.items()}, folder / "cifar-n" / "CIFAR-10_human.pt")
    with pytest.raises(DataError, match=r"image \d+ has the clean label \d there and \d in CIFAR"):
        load_dataset("cifar10n", folder)


def test_damaged_labels_are_named(ten):
    folder, labels, _ = ten
    path = folder / "cifar-n" / "CIFAR-10_human.pt"
    for content, message in [
        ({key: values for key, values in labels.items() if key != "worse_label"}, "no 'worse_label'"),
        (labels | {"worse_label": labels["worse_label"][:-1]}, "different lengths"),
        (labels | {"worse_label": labels["worse_label"] / 2}, "lengths or types"),
        ({key: values[:50] for key, values in labels.items()}, "50 labels, too few"),
        ([1, 2], "no 'clean_label'"),
        (
            labels | {"random_label2": labels["random_label2"] + 250},
            "random_label2 of image 0 is .* not a class from 0",
        ),
    ]:
        torch.save(content, path)
        with pytest.raises(DataError, match=message):
            load_dataset("cifar10n", folder)
    path.unlink()
    with pytest.raises(DataError, match=r"no CIFAR-10_human\.pt; get it from https://github\.com/UCSC-REAL"):
        load_dataset("cifar10n", folder)


def test_a_released_label_nobody_gave_is_refused(ten):
    folder, labels, _ = ten
    given = [labels[f"random_label{j}"][5] for j in (1, 2, 3)]
    labels["aggre_label"][5] = next(k for k in range(10) if k not in given)
    torch.save(labels, folder / "cifar-n" / "CIFAR-10_human.pt")
    with pytest.raises(DataError, match="no worker has given image 5 its aggre_label"):
        load_dataset("cifar10n:aggregate", folder)


def test_damaged_side_information_is_named(ten):
    folder, _, side = ten
    path = folder / "cifar-n" / "side_info_cifar10N.csv"
    write_side_info(path, side[:-1], images=10)
    with pytest.raises(DataError, match="about 90 images and the labels about 100"):
        load_dataset("cifar10n", folder)
    write_side_info(path, side, images=5)
    with pytest.raises(DataError, match=r"row 0 .*is about images 0--4, not 0--9"):
        load_dataset("cifar10n", folder)
    write_side_info(path, side, images=10)
    path.write_text(path.read_text().replace("20--29,", "20--29,someone,", 1))
    with pytest.raises(DataError, match="cannot be read as CSV"):
        load_dataset("cifar10n", folder)


@pytest.mark.parametrize("label", ["fine", "coarse"])
def test_cifar100n(tmp_path, small_cifar, label):
    (x, fine, coarse), (_, *test) = write_cifar100(tmp_path)
    rng = np.random.default_rng(0)
    wrong = rng.random(100) < 0.4
    noisy_fine = np.where(wrong, rng.integers(0, 100, 100), fine)
    side = rng.integers(0, 50, (20, 2))
    write_side_info(tmp_path / "cifar-n" / "side_info_cifar100N.csv", side, images=5)
    labels = {"clean_label": fine, "noisy_label": noisy_fine}
    labels |= {"clean_coarse_label": coarse, "noisy_coarse_label": noisy_fine // 5}
    torch.save(labels, tmp_path / "cifar-n" / "CIFAR-100_human.pt")
    loaded = load_dataset(f"cifar100n:{label}", tmp_path)
    assert np.array_equal(loaded.x, x)
    assert np.array_equal(loaded.frame["y"], fine if label == "fine" else coarse)
    assert np.array_equal(loaded.frame["label"], noisy_fine if label == "fine" else noisy_fine // 5)
    assert loaded.frame["annotator"].tolist() == [side[image // 5][0] for image in range(100)]
    assert loaded.frame["seconds"].tolist() == [side[image // 5][1] for image in range(100)]
    assert np.array_equal(loaded.y_test, test[label == "coarse"])
    assert len(loaded.classes) == (100 if label == "fine" else 20)


# the released files


def test_released_cifar100n_workers_explain_errors(real_data):
    """Worker ids explain 13.0% of the variance of the errors where rows of side information belong to images."""
    from pidual.data.datasets.cifarn import KEYS_100, LABELS_100, SIDE_100, read_labels, read_side_info

    labels = read_labels(real_data, LABELS_100, KEYS_100["fine"])
    wrong = (labels["noisy_label"] != labels["clean_label"]).astype(float)
    worker = read_side_info(real_data, SIDE_100, workers=1, images=5).annotator[0]
    mean = np.bincount(worker, wrong) / np.bincount(worker)
    assert mean[worker].var() / wrong.var() == pytest.approx(0.130, abs=0.0005)
