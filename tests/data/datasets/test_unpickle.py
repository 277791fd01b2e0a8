import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from published import python2_pickle

from pidual.data.datasets.cifar import read_pickle, read_torch
from pidual.errors import DataError


class Evil:
    """What a harmful pickle looks like: loading it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


CONTENT = {"labels": np.arange(7), "more": {"x": np.eye(3, dtype=np.float32)}, "list": [1, "two", 3.5, None]}


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_read_back(tmp_path, zipped):
    torch.save(CONTENT, tmp_path / "f.pt", _use_new_zipfile_serialization=zipped)
    assert zipfile.is_zipfile(tmp_path / "f.pt") == zipped
    read = read_torch(tmp_path / "f.pt")
    assert list(read) == list(CONTENT)
    assert read["labels"].dtype == np.int64
    assert np.array_equal(read["labels"], np.arange(7))
    assert np.array_equal(read["more"]["x"], np.eye(3))
    assert read["more"]["x"].dtype == np.float32
    assert read["list"] == CONTENT["list"]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("inside", [False, True])
def test_nothing_in_a_torch_file_is_called(tmp_path, zipped, inside):
    evil = Evil(tmp_path / "made")
    torch.save({"labels": [evil]} if inside else evil, tmp_path / "f.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(DataError, match=r"f\.pt asks for \w+\.mkdir to be called"):
        read_torch(tmp_path / "f.pt")
    assert not (tmp_path / "made").exists()


def test_nothing_in_a_pickle_is_called(tmp_path):
    (tmp_path / "f").write_bytes(pickle.dumps({"data": Evil(tmp_path / "made")}))
    with pytest.raises(DataError, match=r"\w+\.mkdir"):
        read_pickle(tmp_path / "f")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("named", [b"cbuiltins\neval\n", b"cnumpy\nload\n", b"cnumpy.core.multiarray\nscalar\n"])
def test_other_names_are_refused(tmp_path, named):
    (tmp_path / "f").write_bytes(b"\x80\x02" + named + b".")
    with pytest.raises(DataError, match="only NumPy arrays"):
        read_pickle(tmp_path / "f")


def test_pickles_of_python_2(tmp_path):
    content = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [3, 200], "filenames": ["a.png", "b.png"]}
    raw = python2_pickle(content)
    assert pickle.loads(raw, encoding="bytes")[b"labels"] == [3, 200]  # the pickle itself is right
    (tmp_path / "f").write_bytes(raw)
    read = read_pickle(tmp_path / "f")
    assert read["labels"] == [3, 200]
    assert read["filenames"] == ["a.png", "b.png"]
    assert read["data"].dtype == np.uint8
    assert np.array_equal(read["data"], content["data"])


@pytest.mark.parametrize("array", [np.array([1, "a"], object), np.array(["a"]), np.zeros(2, [("a", "i4")])])
def test_arrays_that_are_not_numbers_are_refused(tmp_path, array):
    (tmp_path / "f").write_bytes(pickle.dumps(array, protocol=2))
    with pytest.raises(DataError, match="cannot be read"):
        read_pickle(tmp_path / "f")


@pytest.mark.parametrize("content", [b"", b"\x80\x02}(", b"hello", pickle.dumps(3)])
def test_damaged_files_are_named(tmp_path, content):
    (tmp_path / "f.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"f\.pt"):
        read_torch(tmp_path / "f.pt")


def test_a_zip_file_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "f.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match=r"without a data\.pkl"):
        read_torch(tmp_path / "f.pt")
