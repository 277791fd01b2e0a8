import numpy as np
import pytest

from pidual.data.datasets import load_dataset
from pidual.errors import DataError, UsageError


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "labelme"
    folder.mkdir()
    rng = np.random.default_rng(0)
    answers = np.where(rng.random((9, 5)) < 0.4, rng.integers(0, 8, (9, 5)), -1)
    np.savetxt(folder / "answers.txt", answers, fmt="%d")
    for part, n in (("train", 9), ("valid", 4), ("test", 6)):
        np.save(folder / f"LabelMe_VGG_avg_{part}.npy", rng.normal(size=(n, 3)).astype(np.float32))
        np.savetxt(folder / f"LabelMe_Z_{part}.txt", rng.integers(0, 8, n), fmt="%d")
    return tmp_path, answers


def test_one_row_per_answer(data):
    folder, answers = data
    loaded = load_dataset("labelme", folder)
    expected = [(i, w, answers[i, w]) for i in range(9) for w in range(5) if answers[i, w] >= 0]
    assert loaded.frame[["item", "annotator", "label"]].to_numpy().tolist() == [list(row) for row in expected]
    y = np.loadtxt(folder / "labelme" / "LabelMe_Z_train.txt", dtype=int)
    assert loaded.frame["y"].tolist() == [y[item] for item, _, _ in expected]
    assert loaded.x.shape == (9, 3)
    assert loaded.classes == list("01234567")


@pytest.mark.parametrize(("part", "n"), [("test", 6), ("valid", 4)])
def test_the_variant_is_the_part_that_scores(data, part, n):
    folder, _ = data
    loaded = load_dataset(f"labelme:{part}", folder)
    assert np.array_equal(loaded.x_test, np.load(folder / "labelme" / f"LabelMe_VGG_avg_{part}.npy"))
    assert len(loaded.y_test) == n
    with pytest.raises(UsageError, match="labelme:test, labelme:valid"):
        load_dataset("labelme:train", folder)


def test_damaged_files_are_named(data):
    folder, _ = data
    place = folder / "labelme"
    for name, content, message in [
        ("LabelMe_Z_test.txt", "1\n2\n", r"LabelMe_Z_test\.txt must hold a class from 0 to 7 for each of 6"),
        ("LabelMe_VGG_avg_test.npy", "hello", "cannot be read as a plain NumPy file"),
        ("answers.txt", "1 2\n3 cat\n", "must hold whole numbers"),
        ("answers.txt", "1 2\n3 9\n", "from -1 to 7"),
        ("answers.txt", "1 2\n3 4\n", "answers to 2 photographs and features of 9"),
    ]:
        whole = (place / name).read_bytes()
        (place / name).write_text(content)
        with pytest.raises(DataError, match=message):
            load_dataset("labelme", folder)
        (place / name).write_bytes(whole)
    x = np.load(place / "LabelMe_VGG_avg_test.npy")
    for broken in (np.where(np.arange(len(x))[:, None] == 2, np.nan, x.reshape(len(x), -1)), np.float32(3)):
        np.save(place / "LabelMe_VGG_avg_test.npy", broken)
        with pytest.raises(DataError, match=r"LabelMe_VGG_avg_test\.npy must hold a row of finite numbers"):
            load_dataset("labelme", folder)
    np.save(place / "LabelMe_VGG_avg_test.npy", x)
    (place / "answers.txt").unlink()
    with pytest.raises(DataError, match=r"no answers\.txt; get it from"):
        load_dataset("labelme", folder)
