import zipfile

import numpy as np
import pytest
from published import raw_csv, raw_rows, write_cifar10

from pidual.data.datasets import load_dataset
from pidual.data.datasets.cifar10h import read_answers
from pidual.errors import DataError, DataWarning

pytestmark = pytest.mark.usefixtures("small_cifar")


@pytest.fixture
def data(tmp_path):
    """CIFAR-10 and a raw table about its test images; returns the folder and the rows."""
    _, (_, y) = write_cifar10(tmp_path)
    rows = raw_rows(y)
    (tmp_path / "cifar-10h").mkdir()
    (tmp_path / "cifar-10h" / "cifar10h-raw.csv").write_text(raw_csv(rows))
    return tmp_path, rows


def worst_by_loops(rows, n_images):
    """Of each image the first row in the file that is wrong, else the first."""
    chosen = []
    for image in range(n_images):
        about = [row for row in rows if row[8] == image]
        wrong = [row for row in about if row[6] != row[5]]
        chosen.append((wrong or about)[0])
    return chosen


def test_labels_and_pi_are_those_of_the_first_wrong_answer(data):
    folder, rows = data
    loaded = load_dataset("cifar10h", folder)
    chosen = worst_by_loops(rows, 20)
    assert loaded.frame["item"].tolist() == list(range(20))
    for column, place in {"annotator": 0, "trial_index": 1, "y": 5, "label": 6, "reaction_time": 11}.items():
        assert loaded.frame[column].tolist() == [row[place] for row in chosen]
    assert loaded.noise_rate == np.mean([row[5] != row[6] for row in chosen])
    assert 0 < loaded.noise_rate < 1
    assert dict(loaded.pi) == {"annotator": "category", "reaction_time": "duration", "trial_index": "number"}
    assert loaded.about == {"n_answers": 120, "n_annotators": 6}


def test_attention_checks_are_dropped(data):
    folder, rows = data
    answers = read_answers(folder)
    assert len(rows) == 126
    assert len(answers) == 120
    assert answers["item"].between(0, 19).all()
    check = next(number for number, row in enumerate(rows) if row[2])
    (folder / "cifar-10h" / "cifar10h-raw.csv").write_text(raw_csv(change(rows, check, 6, "")))
    assert read_answers(folder).equals(answers)  # whatever such a row holds


def test_trains_on_test_images_and_tests_on_training_images(tmp_path):
    (x, y), (x_test, y_test) = write_cifar10(tmp_path)
    (tmp_path / "cifar-10h").mkdir()
    (tmp_path / "cifar-10h" / "cifar10h-raw.csv").write_text(raw_csv(raw_rows(y_test)))
    loaded = load_dataset("cifar10h", tmp_path)
    assert np.array_equal(loaded.x, x_test)
    assert np.array_equal(loaded.frame["y"], y_test)
    assert np.array_equal(loaded.x_test, x)
    assert np.array_equal(loaded.y_test, y)
    for batch in (2, 3, 4, 5):
        (tmp_path / "cifar-10-batches-bin" / f"data_batch_{batch}.bin").unlink()
    with pytest.warns(DataWarning, match="20 of 100"):
        assert len(load_dataset("cifar10h", tmp_path).y_test) == 20


@pytest.mark.parametrize("member", ["cifar10h-raw.csv", "data/cifar10h-raw.csv"])
@pytest.mark.parametrize("place", ["", "data"])
def test_the_table_may_be_zipped_and_in_the_repositorys_folder(data, member, place):
    folder, _ = data
    plain = load_dataset("cifar10h", folder).frame
    csv = folder / "cifar-10h" / "cifar10h-raw.csv"
    (folder / "cifar-10h" / place).mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "cifar-10h" / place / "cifar10h-raw.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._cifar10h-raw.csv", b"\x00")
        archive.writestr(member, csv.read_text())
    csv.unlink()
    assert load_dataset("cifar10h", folder).frame.equals(plain)


def change(rows, row, column, value):
    return [[*r[:column], value, *r[column + 1 :]] if number == row else r for number, r in enumerate(rows)]


def test_answers_about_other_images_are_refused(data):
    folder, rows = data
    first = next(number for number, row in enumerate(rows) if row[8] == 7)
    for column, value, message in [
        (5, (rows[first][5] + 1) % 10, r"image 7 has the true label \d there and \d in CIFAR-10"),
        (8, 20, "images go from 0 to 19"),
        (6, 10, "labels from 0 to 9"),
        (6, "cat", "'chosen_label': 'cat' is not a whole number"),
    ]:
        (folder / "cifar-10h" / "cifar10h-raw.csv").write_text(raw_csv(change(rows, first, column, value)))
        with pytest.raises(DataError, match=message):
            load_dataset("cifar10h", folder)


def test_images_without_an_answer_are_named(data):
    folder, rows = data
    (folder / "cifar-10h" / "cifar10h-raw.csv").write_text(raw_csv([row for row in rows if row[8] != 3]))
    with pytest.raises(DataError, match="1 of 20 images have no answer, such as number 3"):
        load_dataset("cifar10h", folder)


def test_a_missing_or_damaged_table_is_named(data):
    folder, _ = data
    path = folder / "cifar-10h" / "cifar10h-raw.csv"
    path.write_text(path.read_text().replace("chosen_label", "answer"))
    with pytest.raises(DataError, match="no column 'chosen_label'"):
        load_dataset("cifar10h", folder)
    path.unlink()
    with pytest.raises(
        DataError, match=r"no cifar10h-raw\.csv or cifar10h-raw\.zip; .*github\.com/jcpeterson/cifar-10h"
    ):
        load_dataset("cifar10h", folder)
    (folder / "cifar-10h" / "cifar10h-raw.zip").write_bytes(b"PK\x03\x04 half of it")
    with pytest.raises(DataError, match="not a whole zip file"):
        load_dataset("cifar10h", folder)
