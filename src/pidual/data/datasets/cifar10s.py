"""CIFAR-10S: 6,723 answers of 248 people to 1,000 CIFAR-10 test images, with how sure they were and how long it took.

    DATA/cifar-10s/annotations.csv    one row per answer: annotator, cifar10_test_index, label, gold, confidence (0 to
                                      100), rt_ms, trial_index, ...
    DATA/cifar-10-batches-bin/        (or -py) the images

Its test set are the CIFAR-10 test images nobody was asked about.

Collins et al., "Eliciting and learning with soft labels from every annotator", HCOMP 2022.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError
from .base import NoisyDataset, need_file, read_columns, whole_numbers
from .cifar import CLASSES_10, Images, load_cifar10

SOURCE = "https://github.com/cambridge-mlg/cifar-10s"
FOLDER, NAME = "cifar-10s", "annotations.csv"
PI = {"annotator": "category", "confidence": "number", "rt_ms": "duration", "trial_index": "number"}


def load_cifar10s(data: Path) -> NoisyDataset:
    """CIFAR-10S; PI: the annotator, their confidence, reaction time in milliseconds, and number of the trial.

    `data`: folder with cifar-10s and CIFAR-10's test images.
    """
    answers, images = read_answers(data), load_cifar10(data, "test")
    check_answers(answers, images, data)
    asked, item = np.unique(answers["image"], return_inverse=True)
    unseen = np.setdiff1d(images.rows, asked)
    frame = answers.assign(item=item)[["item", "label", "y", *PI]]
    return NoisyDataset("cifar10s", frame, PI, images.x[asked], images.x[unseen], images.y[unseen], list(CLASSES_10))


def read_answers(data: Path) -> pd.DataFrame:
    """One row per answer: image (number of the CIFAR-10 test image), label, y and the PI."""
    path = need_file(data / FOLDER, NAME, source=SOURCE)
    frame = read_columns(path, ["cifar10_test_index", "label", "gold", *PI], SOURCE)
    columns = {"image": "cifar10_test_index", "label": "label", "y": "gold"}
    numbers = {name: whole_numbers(frame, column, path) for name, column in columns.items()}
    return pd.DataFrame(numbers | {name: frame[name] for name in PI})


def check_answers(answers: pd.DataFrame, images: Images, data: Path) -> None:
    """Raise unless the answers are about these images."""
    path = data / FOLDER / NAME
    image: NDArray[np.int64] = answers["image"].to_numpy()
    if image.min() < 0 or image.max() >= len(images.y):
        raise DataError(f"{path} names images {image.min()} to {image.max()}; there are {len(images.y):,}.")
    differ = answers["y"].to_numpy() != images.y[image]
    if differ.any():
        row = int(np.argmax(differ))
        raise DataError(
            f"{path}, row {row} (counted from 0): image {image[row]} is of class {answers['y'][row]} there and "
            f"{images.y[image[row]]} in CIFAR-10; the images must be CIFAR-10's test images in their published order."
        )
    if not answers["label"].between(0, len(CLASSES_10) - 1).all():
        raise DataError(f"{path} has labels that are not numbers from 0 to {len(CLASSES_10) - 1}.")
