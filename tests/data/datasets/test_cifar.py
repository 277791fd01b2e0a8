import numpy as np
import pytest
from published import BATCH, images, python2_pickle, write_cifar10, write_cifar100

from pidual.data.datasets.cifar import cifar100_classes, load_cifar10, load_cifar100
from pidual.errors import DataError, DataWarning

pytestmark = pytest.mark.usefixtures("small_cifar")


def python_version(data, batches=(1, 2, 3, 4, 5)):
    folder = data / "cifar-10-batches-py"
    folder.mkdir()
    for seed, name in enumerate(["test_batch", *(f"data_batch_{k}" for k in range(1, 6))]):
        if name == "test_batch" or seed in batches:
            x, y = images(BATCH, 10, seed)
            content = {"data": x, "labels": y.tolist(), "batch_label": name, "filenames": ["a.png"] * BATCH}
            (folder / name).write_bytes(python2_pickle(content))


def test_binary_and_python_version_are_the_same(tmp_path):
    (x, y), (x_test, y_test) = write_cifar10(tmp_path / "bin")
    (tmp_path / "py").mkdir()
    python_version(tmp_path / "py")
    for version in ("bin", "py"):
        train, test = (load_cifar10(tmp_path / version, part) for part in ("train", "test"))
        assert train.x.shape == (5 * BATCH, 3, 32, 32)
        assert np.array_equal(train.x, x)
        assert np.array_equal(train.y, y)
        assert np.array_equal(train.rows, np.arange(5 * BATCH))
        assert np.array_equal(test.x, x_test)
        assert np.array_equal(test.y, y_test)
        assert train.x.dtype == np.uint8
        assert train.x.flags.c_contiguous


def test_missing_batches_are_named_or_left_out(tmp_path):
    (x, y), _ = write_cifar10(tmp_path, batches=(1, 3))
    with pytest.raises(DataError, match=r"no data_batch_2\.bin, data_batch_4\.bin, data_batch_5\.bin; get CIFAR-10"):
        load_cifar10(tmp_path, "train")
    with pytest.warns(DataWarning, match=r"data_batch_2\.bin.*40 of 100 training images"):
        train = load_cifar10(tmp_path, "train", partial=True)
    assert np.array_equal(train.x, x)
    assert np.array_equal(train.y, y)
    assert np.array_equal(train.rows, [*range(20), *range(40, 60)])


def test_damaged_binary_files_are_named(tmp_path):
    write_cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"test_batch\.bin has 61,459 bytes instead of 61,460"):
        load_cifar10(tmp_path, "test")
    path.write_bytes(whole[: 3073 * 2] + b"\x0b" + whole[3073 * 2 + 1 :])
    with pytest.raises(DataError, match="image 2 has the label 11"):
        load_cifar10(tmp_path, "test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": np.zeros((BATCH, 3072), np.uint8)}, "no 'data' and 'labels'"),
        ({"data": np.zeros((3, 3072), np.uint8), "labels": [1, 2, 3]}, "holds 3 images"),
        ({"data": np.zeros((BATCH, 3072), np.uint8), "labels": ["a"] * BATCH}, "labels; get it again"),
        ([1], "no 'data'"),
    ],
)
def test_damaged_pickles_are_named(tmp_path, content, message):
    python_version(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(python2_pickle(content))
    with pytest.raises(DataError, match=message):
        load_cifar10(tmp_path, "test")


def test_cifar100(tmp_path):
    train, test = write_cifar100(tmp_path / "bin")
    folder = tmp_path / "py" / "cifar-100-python"
    folder.mkdir(parents=True)
    for name, (x, fine, coarse) in (("train", train), ("test", test)):
        content = {"data": x.reshape(len(x), -1), "fine_labels": fine.tolist(), "coarse_labels": coarse.tolist()}
        (folder / name).write_bytes(python2_pickle(content))
    names = {f"{label}_label_names": cifar100_classes(tmp_path / "bin", label) for label in ("fine", "coarse")}
    (folder / "meta").write_bytes(python2_pickle(names))
    for version in ("bin", "py"):
        for part, (x, fine, coarse) in (("train", train), ("test", test)):
            read = load_cifar100(tmp_path / version, part)
            assert np.array_equal(read.x, x)
            assert np.array_equal(read.y, fine)
            assert np.array_equal(load_cifar100(tmp_path / version, part, "coarse").y, coarse)
        assert cifar100_classes(tmp_path / version)[17] == "fine_17"
        assert cifar100_classes(tmp_path / version, "coarse")[19] == "coarse_19"


def test_cifar100_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"train\.bin is missing; get CIFAR-100 from https://www\.cs\.toronto\.edu"):
        load_cifar100(tmp_path, "train")
    with pytest.raises(DataError, match="fine_label_names"):
        cifar100_classes(tmp_path)
