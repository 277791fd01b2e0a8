"""CIFAR-10N and CIFAR-100N: human labels of CIFAR's training images, with worker and work time.

    DATA/cifar-n/CIFAR-10_human.pt    side_info_cifar10N.csv
    DATA/cifar-n/CIFAR-100_human.pt   side_info_cifar100N.csv
    DATA/cifar-10-batches-bin/, DATA/cifar-100-binary/   (or their python version) the images

Row r of the side information is about images 10 r .. 10 r + 9 (CIFAR-10N) or 5 r .. 5 r + 4 (CIFAR-100N) in CIFAR's own
order. Every image of CIFAR-10N has three answers, `random_label1` to `random_label3`, by the three workers of its row.

Wei et al., "Learning with noisy labels revisited", ICLR 2022.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from .base import NoisyDataset, need_file, read_columns, whole_numbers
from .cifar import CLASSES_10, Depth, Images, cifar100_classes, load_cifar10, load_cifar100, read_torch

SOURCE = "https://github.com/UCSC-REAL/cifar-10-100n"
FOLDER = "cifar-n"
LABELS_10, SIDE_10 = "CIFAR-10_human.pt", "side_info_cifar10N.csv"
LABELS_100, SIDE_100 = "CIFAR-100_human.pt", "side_info_cifar100N.csv"
RANDOM_10 = ("random_label1", "random_label2", "random_label3")
RELEASED_10 = {"worst-official": "worse_label", "aggregate": "aggre_label"}
KEYS_10 = ("clean_label", *RELEASED_10.values(), *RANDOM_10)
KEYS_100 = {"fine": ("clean_label", "noisy_label"), "coarse": ("clean_coarse_label", "noisy_coarse_label")}
PI = {"annotator": "category", "seconds": "duration"}

Labels = dict[str, NDArray[np.int64]]


class SideInfo(NamedTuple):
    """Worker and work time in seconds of each image, by the worker's place: two int arrays of shape (places, N)."""

    annotator: NDArray[np.int64]
    seconds: NDArray[np.int64]


def load_cifar10n(data: Path, label: str = "worst") -> NoisyDataset:
    """CIFAR-10N; PI: the worker who gave the label, and the seconds they took for their ten images.

    `data`: folder with cifar-n and CIFAR-10. If some of its training batches are missing, the images of the others are
        used, with a warning.
    `label` ({"worst", "worst-official", "aggregate", "random1", "random2", "random3"}): "worst" is the first wrong one
        of the three answers, else the first, as in the code behind the paper; "worst-official" and "aggregate" are the
        released labels, with the first of the workers who gave that answer.
    """
    labels, side = read_labels(data, LABELS_10, KEYS_10), read_side_info(data, SIDE_10, workers=3, images=10)
    train, test = load_cifar10(data, "train", partial=True), load_cifar10(data, "test")
    _check_aligned(labels["clean_label"], train, data / FOLDER / LABELS_10)
    chosen, place = choose(labels, label)
    frame = _make_frame(chosen, labels["clean_label"], side, place, train.rows)
    return NoisyDataset(f"cifar10n:{label}", frame, PI, train.x, test.x, test.y, list(CLASSES_10), whole=train.whole)


def load_cifar100n(data: Path, label: Depth = "fine") -> NoisyDataset:
    """CIFAR-100N; PI: the worker, and the seconds they took for their five images.

    `data`: folder with cifar-n and CIFAR-100.
    `label` ({"fine", "coarse"}): the 100 classes, or the 20 they belong to.
    """
    if label not in KEYS_100:
        raise UsageError(f"the labels of CIFAR-100N are 'fine' or 'coarse', not {label!r}")
    clean, noisy = KEYS_100[label]
    labels, side = read_labels(data, LABELS_100, (clean, noisy)), read_side_info(data, SIDE_100, workers=1, images=5)
    train, test = load_cifar100(data, "train", label), load_cifar100(data, "test", label)
    _check_aligned(labels[clean], train, data / FOLDER / LABELS_100)
    first = np.zeros(len(labels[clean]), np.int64)
    frame = _make_frame(labels[noisy], labels[clean], side, first, train.rows)
    return NoisyDataset(f"cifar100n:{label}", frame, PI, train.x, test.x, test.y, cifar100_classes(data, label))


def read_labels(data: Path, name: str, keys: Sequence[str]) -> Labels:
    """Read the released labels under these keys: as many of each, all numbers of classes."""
    path = need_file(data / FOLDER, name, source=SOURCE)
    content = read_torch(path)
    absent = [key for key in keys if not isinstance(content, dict) or key not in content]
    if absent:
        raise DataError(f"{path} has no {absent[0]!r} in it; get it again from {SOURCE}.")
    labels = {key: np.asarray(content[key]) for key in keys}
    shapes = {values.shape for values in labels.values()}
    if len(shapes) > 1 or any(values.ndim != 1 or values.dtype.kind not in "iu" for values in labels.values()):
        raise DataError(f"{path} holds labels of different lengths or types; get it again from {SOURCE}.")
    for key, values in labels.items():
        n_classes = 20 if "coarse" in key else 100 if name == LABELS_100 else 10
        strange = np.flatnonzero((values < 0) | (values >= n_classes))
        if len(strange):
            raise DataError(
                f"{path}: {key} of image {strange[0]} is {values[strange[0]]}, which is not a class from 0 to "
                f"{n_classes - 1}; get it again from {SOURCE}."
            )
    return {key: values.astype(np.int64) for key, values in labels.items()}


def read_side_info(data: Path, name: str, *, workers: int, images: int) -> SideInfo:
    """Worker and seconds of every image, from rows that are about `images` consecutive images each."""
    path = need_file(data / FOLDER, name, source=SOURCE)
    numbers = [""] if workers == 1 else [str(place) for place in range(1, workers + 1)]
    ids = [f"Worker{number}-id" for number in numbers]
    times = ["Work-time-in-seconds" + (f"-{number}" if number else "") for number in numbers]
    frame = read_columns(path, ["Image-batch", *ids, *times], SOURCE)
    expected = [f"{start}--{start + images - 1}" for start in range(0, images * len(frame), images)]
    differ = frame["Image-batch"].to_numpy() != np.asarray(expected, object)
    if differ.any():
        row = int(np.argmax(differ))
        raise DataError(
            f"{path}, row {row} (counted from 0) is about images {frame['Image-batch'][row]}, not {expected[row]}."
        )
    annotator, seconds = (
        np.stack([np.repeat(whole_numbers(frame, column, path), images) for column in columns])
        for columns in (ids, times)
    )
    return SideInfo(annotator, seconds)


def choose(labels: Labels, label: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose a label for every image of CIFAR-10N, and the place (0, 1, 2) of the worker who gave it."""
    answers = np.stack([labels[key] for key in RANDOM_10])
    images = np.arange(answers.shape[1])
    if label in RELEASED_10:
        chosen = labels[RELEASED_10[label]]
        given = answers == chosen
        if not given.any(axis=0).all():
            image = int(np.argmin(given.any(axis=0)))
            raise DataError(f"CIFAR-10N: no worker has given image {image} its {RELEASED_10[label]}, {chosen[image]}.")
        return chosen, np.argmax(given, axis=0)
    places = {"worst": np.argmax(answers != labels["clean_label"], axis=0)}  # the first, if none is wrong
    places |= {f"random{place + 1}": np.full_like(images, place) for place in range(len(answers))}
    if label not in places:
        known = ", ".join([*places, *RELEASED_10])
        raise UsageError(f"the labels of CIFAR-10N are {known}, not {label!r}")
    return answers[places[label], images], places[label]


def _make_frame(
    label: NDArray[np.int64],
    clean: NDArray[np.int64],
    side: SideInfo,
    place: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> pd.DataFrame:
    """One row for each of the images `rows`, with what is known about the worker in its position."""
    if side.annotator.shape[1] != len(label):
        raise DataError(
            f"the side information of CIFAR-N is about {side.annotator.shape[1]:,} images and the labels about "
            f"{len(label):,}; get both again from {SOURCE}."
        )
    columns = {"annotator": side.annotator[place[rows], rows], "seconds": side.seconds[place[rows], rows]}
    return pd.DataFrame({"item": np.arange(len(rows)), "label": label[rows], "y": clean[rows], **columns})


def _check_aligned(clean: NDArray[np.int64], train: Images, path: Path) -> None:
    """Raise unless the labels are about these images in this order."""
    if train.rows.max() >= len(clean):
        raise DataError(f"{path} has {len(clean):,} labels, too few for CIFAR's training images; get it again.")
    differ = clean[train.rows] != train.y
    if differ.any():
        row = int(np.argmax(differ))
        raise DataError(
            f"{path}: image {train.rows[row]} has the clean label {clean[train.rows[row]]} there and {train.y[row]} in "
            "CIFAR; the labels must be in the order of CIFAR's own files."
        )
