"""CIFAR-10-PI: CIFAR-10's training images, relabelled by 16 small CNNs the way ImageNet-PI was made.

The annotators are trained on the images they relabel and are right about at least three in four of them, as those of
ImageNet-PI are: otherwise their mistakes would depend on the image more than on what is known about the label.

    DATA/cifar-10-pi/low_noise/  high_noise/     answers of all 16 annotators, in ImageNet-PI's file format
    DATA/cifar-10-pi/about.json                  the annotators, the rates of the temperatures, the noise

The answers are made once, by `pidual data relabel cifar10_pi --data DATA`.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from ...files import read_json
from . import cifar
from .base import MissingError, NoisyDataset
from .cifar import CLASSES_10, Images, load_cifar10
from .imagenet_pi import read_imagenet_pi

NOISE = {"low": 0.50, "high": 0.72}
LEAST_ACCURACY = 0.75
FOLDER, ABOUT = "cifar-10-pi", "about.json"
PI = {"annotator": "category", "confidence": "number", "annotator_accuracy": "number", "annotator_size": "number"}


def load_cifar10_pi(data: Path, noise: str = "low", *, seed: int = 0, answers_per_item: int | None = 1) -> NoisyDataset:
    """CIFAR-10-PI at its low (50%) or high (72%) noise; the test set is CIFAR-10's.

    `data`: folder with CIFAR-10 and cifar-10-pi.
    `noise` ({"low", "high"}).
    `seed`: of the choice of the annotator, uniform among the 16, of each image.
    `answers_per_item`: how many of the 16 annotators' answers to keep per image; None: all.
    """
    about = read_about(data)
    train, test = training_images(data), load_cifar10(data, "test")
    frame = read_level(data, noise, answers_per_item=answers_per_item, seed=seed)
    rows = rows_of(frame["item"].to_numpy(), train, data)
    kept, item = np.unique(rows, return_inverse=True)
    frame = frame.assign(item=item, y=train.y[rows])
    x = train.x if len(kept) == len(train.x) else train.x[kept]
    return NoisyDataset(f"cifar10_pi:{noise}", frame, PI, x, test.x, test.y, list(CLASSES_10), about, train.whole)


def item_names(rows: NDArray[np.int64]) -> NDArray[np.str_]:
    """Return what the files call the training images: batch and number in it."""
    return np.asarray([f"data_batch_{row // cifar.BATCH + 1}/{row % cifar.BATCH:04d}" for row in rows.tolist()])


def read_about(data: Path) -> dict[str, Any]:
    """Read what was written when the annotations were made."""
    path = data / FOLDER / ABOUT
    if not path.is_file():
        raise MissingError(
            f"{path.parent} has no {ABOUT}, which is written last; make the annotations first with {_relabel(data)}."
        )
    try:
        about: dict[str, Any] = read_json(path)
        accuracies = [row["accuracy"] for row in about["annotators"]]
        fine = isinstance(about["n_images"], int) and 0 <= min(accuracies) <= max(accuracies) <= 1
    except (ValueError, KeyError, TypeError):
        fine = False
    if not fine:
        raise DataError(f"{path} is broken; make the annotations again with {_relabel(data)}.")
    return about


def read_level(data: Path, level: str, *, answers_per_item: int | None = 1, seed: int = 0) -> pd.DataFrame:
    """Read the annotations of a noise level, without clean labels."""
    frame = read_imagenet_pi(data / FOLDER / f"{level}_noise", answers_per_item=answers_per_item, seed=seed)
    strange = frame["label"][~frame["label"].between(0, len(CLASSES_10) - 1)]
    if len(strange):
        raise DataError(
            f"{data / FOLDER / f'{level}_noise'} has the label {strange.iloc[0]}, not a class of CIFAR-10; make "
            f"the annotations again with {_relabel(data)}."
        )
    return frame


def rows_of(names: NDArray[Any], train: Images, data: Path) -> NDArray[np.int64]:
    """Row of `train` of each image the files name."""
    rows = np.asarray(pd.Index(item_names(train.rows)).get_indexer(pd.Index(names)), np.int64)
    if (rows < 0).any():
        raise DataError(
            f"{data / FOLDER} has answers for {(rows < 0).sum():,} images that are not in {data}, such as "
            f"{names[np.argmin(rows)]}; add the missing training batches of CIFAR-10 or make the annotations again."
        )
    return rows


def _relabel(data: Path) -> str:
    """Return the command that makes the annotations."""
    return f"`pidual data relabel cifar10_pi --data {data}`"


def training_images(data: Path) -> Images:
    """Load the training images that exist; the number of annotations shows how many are missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return load_cifar10(data, "train", partial=True)
