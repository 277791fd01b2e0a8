"""Folders that exist either in full or not at all."""

from pathlib import Path
from unittest import mock

import pytest

from pidual.files import replacing_folder


def write(folder, text):
    with replacing_folder(folder) as new:
        (new / "a.txt").write_text(text)


def test_a_new_folder_takes_the_place_of_the_old_one_when_it_is_complete(tmp_path):
    folder = tmp_path / "some" / "where"
    write(folder, "one")
    with pytest.raises(TypeError):
        write(folder, 2)  # in the middle of writing
    assert [path.name for path in folder.parent.iterdir()] == ["where"]
    assert (folder / "a.txt").read_text() == "one"
    write(folder, "two")
    assert [path.name for path in folder.parent.iterdir()] == ["where"]
    assert (folder / "a.txt").read_text() == "two"


def test_the_old_folder_comes_back_where_the_new_one_cannot_be_moved(tmp_path):
    write(tmp_path / "here", "one")
    rename = Path.rename

    def fails(path, target):
        if path.name == ".here.new":
            raise OSError("no")
        return rename(path, target)

    with mock.patch.object(Path, "rename", fails), pytest.raises(OSError, match="no"):
        write(tmp_path / "here", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / "here" / "a.txt").read_text() == "one"


def test_a_link_stays_one(tmp_path):
    write(tmp_path / "here", "one")
    (tmp_path / "link").symlink_to(tmp_path / "here", target_is_directory=True)
    write(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "here" / "a.txt").read_text() == "two"


def test_the_old_folder_comes_back_after_a_kill_between_the_two_moves(tmp_path):
    write(tmp_path / "here", "one")
    (tmp_path / "here").rename(tmp_path / ".here.old")
    with pytest.raises(TypeError):
        write(tmp_path / "here", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / "here" / "a.txt").read_text() == "one"
