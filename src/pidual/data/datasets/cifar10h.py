"""CIFAR-10H: the answers of 2,571 people to CIFAR-10's test images; for each image one answer, a wrong one if any is.

    DATA/cifar-10h/cifar10h-raw.csv, or cifar10h-raw.zip with that file in it
    DATA/cifar-10-batches-bin/   (or -py) the images

It trains on the CIFAR-10 test images and tests on the CIFAR-10 training images. The released counts are no substitute
for the raw table: they do not say who answered, and leave out 16 annotators.

Peterson et al., "Human uncertainty makes classification more robust", ICCV 2019.
"""

import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError
from .base import NoisyDataset, need_file, read_columns, whole_numbers
from .cifar import CLASSES_10, load_cifar10

SOURCE = "https://github.com/jcpeterson/cifar-10h (data/cifar10h-raw.zip)"
FOLDER, RAW, ZIP = "cifar-10h", "cifar10h-raw.csv", "cifar10h-raw.zip"
INDEX = "cifar10_test_test_idx"  # so in the file; its README says cifar10_test_set_idx
COLUMNS = ("annotator_id", "trial_index", "is_attn_check", "true_label", "chosen_label", INDEX, "reaction_time")
PI = {"annotator": "category", "reaction_time": "duration", "trial_index": "number"}


def load_cifar10h(data: Path) -> NoisyDataset:
    """CIFAR-10H with its worst labels; PI: who answered, in how many milliseconds, as their how-manieth.

    `data`: folder with cifar-10h and CIFAR-10. The test set is what is there of CIFAR-10's training images.
    """
    answers = read_answers(data)
    train, test = load_cifar10(data, "test"), load_cifar10(data, "train", partial=True)
    check_answers(answers, train.y, data)
    frame = worst_answers(answers)
    if len(frame) < len(train.y):
        lost = np.setdiff1d(train.rows, frame["item"])
        raise DataError(
            f"{data / FOLDER}: {len(lost):,} of {len(train.y):,} images have no answer, such as number {lost[0]}; "
            f"get the raw table again from {SOURCE}."
        )
    about = {"n_answers": len(answers), "n_annotators": int(answers["annotator"].nunique())}
    return NoisyDataset("cifar10h", frame, PI, train.x, test.x, test.y, list(CLASSES_10), about, test.whole)


def read_answers(data: Path) -> pd.DataFrame:
    """Read the raw table in file order, without attention checks: item, annotator, label, y and the other PI."""
    path = need_file(data / FOLDER, RAW, ZIP, source=SOURCE)
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                member = next((name for name in archive.namelist() if name.rpartition("/")[2] == RAW), None)
                if member is None:
                    raise DataError(f"{path} has no {RAW} in it; get it again from {SOURCE}.")
                with archive.open(member) as file:
                    frame = read_columns(file, COLUMNS, SOURCE)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise DataError(f"{path} is not a whole zip file ({error}); get it again from {SOURCE}.") from None
    else:
        frame = read_columns(path, COLUMNS, SOURCE)
    frame = frame[whole_numbers(frame, "is_attn_check", path) == 0]  # these rows may be empty elsewhere
    columns = {"item": INDEX, "annotator": "annotator_id", "label": "chosen_label", "y": "true_label"}
    numbers = {name: whole_numbers(frame, column, path) for name, column in columns.items()}
    return pd.DataFrame(numbers | {name: frame[name].to_numpy() for name in ("reaction_time", "trial_index")})


def check_answers(answers: pd.DataFrame, y: NDArray[np.int64], data: Path) -> None:
    """Raise unless the answers are about these images: indices and labels in range, true labels equal."""
    fine = answers["item"].between(0, len(y) - 1) & answers["label"].between(0, len(CLASSES_10) - 1)
    if not fine.all():
        row = answers.loc[~fine].iloc[0]
        raise DataError(
            f"{data / FOLDER}: image {row['item']:.0f} has the answer {row['label']:.0f}; images go from 0 to "
            f"{len(y) - 1:,}, labels from 0 to {len(CLASSES_10) - 1}."
        )
    differ = answers["y"].to_numpy() != y[answers["item"].to_numpy()]
    if differ.any():
        row = answers.loc[differ].iloc[0]
        raise DataError(
            f"{data / FOLDER}: image {row['item']:.0f} has the true label {row['y']:.0f} there and "
            f"{y[int(row['item'])]} in CIFAR-10; the images must be CIFAR-10's test images in their published order."
        )


def worst_answers(answers: pd.DataFrame) -> pd.DataFrame:
    """One answer per image, in the order of the images: the first wrong one in the table, else the first."""
    right = answers["label"] == answers["y"]
    order = np.lexsort((np.arange(len(answers)), right, answers["item"]))
    return answers.iloc[order].drop_duplicates("item").reset_index(drop=True)
