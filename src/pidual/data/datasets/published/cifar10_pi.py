"""CIFAR-10-PI: CIFAR-10's training images, relabelled by 16 small CNNs the way ImageNet-PI was made.

The annotators are trained on the images they relabel and are right about at least three in four of them, as those of
ImageNet-PI are: otherwise their mistakes would depend on the image more than on what is known about the label. They see
the images at half size, which makes them quick to train, and differ in width and in how long they learnt.

    DATA/cifar-10-pi/low_noise/  high_noise/     answers of all 16 annotators, in ImageNet-PI's file format
    DATA/cifar-10-pi/about.json                  the annotators, the rates of the temperatures, the noise

The answers are made once, by `pidual data relabel cifar10_pi --data DATA`.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import DataError, DataWarning
from ....files import read_json, write_json
from ..base import NoisyDataset
from ..relabel import accuracy, calibrate_rate, sample_annotations
from . import cifar
from .cifar import CLASSES_10, Images, load_cifar10
from .imagenet_pi_files import read_imagenet_pi, write_imagenet_pi

NOISE = {"low": 0.50, "high": 0.72}
LEAST_ACCURACY = 0.75
FOLDER, ABOUT = "cifar-10-pi", "about.json"
PI = {"annotator": "category", "confidence": "number", "annotator_accuracy": "number", "annotator_size": "number"}

# Width and epochs of each annotator.
ANNOTATORS = (
    *((16, 8), (16, 12), (16, 16), (20, 8), (20, 12), (24, 6), (24, 9), (24, 12)),
    *((28, 6), (28, 9), (32, 5), (32, 8), (36, 6), (40, 5), (40, 7), (48, 6)),
)
LEARNING_RATE, WEIGHT_DECAY, BATCH_SIZE = 0.2, 5e-4, 64


def load_cifar10_pi(data: Path, noise: str = "low", *, seed: int = 0, answers_per_item: int | None = 1) -> NoisyDataset:
    """CIFAR-10-PI at its low (50%) or high (72%) noise; the test set is CIFAR-10's.

    Parameters
    ----------
    data : Path
        Folder with CIFAR-10 and cifar-10-pi.
    noise : {"low", "high"}
    seed : int
        Of the choice of the annotator, uniform among the 16, of each image.
    answers_per_item : int or None
        How many of the 16 annotators' answers to keep per image; None: all.
    """
    if not (data / FOLDER / ABOUT).is_file():
        raise DataError(
            f"{data / FOLDER} has no {ABOUT}, which is written last; make the annotations first with {_relabel(data)}."
        )
    about = read_about(data)
    train, test = _images(data), load_cifar10(data, "test")
    frame = read_level(data, noise, answers_per_item=answers_per_item, seed=seed)
    rows = rows_of(frame["item"].to_numpy(), train, data)
    kept, item = np.unique(rows, return_inverse=True)
    frame = frame.assign(item=item, y=train.y[rows])
    x = train.x if len(kept) == len(train.x) else train.x[kept]
    return NoisyDataset(f"cifar10_pi:{noise}", frame, PI, x, test.x, test.y, list(CLASSES_10), about, train.whole)


def make_cifar10_pi(data: Path, *, seed: int = 0, note: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Train the annotators on what is there of CIFAR-10's training images, and write their answers at both levels.

    Parameters
    ----------
    data : Path
        Folder with CIFAR-10; gets cifar-10-pi.
    seed : int
        Of the annotators and of their answers.
    note : callable
        Called with each annotator as it is ready.

    Returns
    -------
    dict
        What about.json holds: the annotators with their accuracy on the images they relabel and on the test images, and
        rate and noise of each level.
    """
    train, test = _images(data), load_cifar10(data, "test")
    folder = data / FOLDER
    folder.mkdir(exist_ok=True)
    probs, about = [], []
    for number, (width, epochs) in enumerate(ANNOTATORS):
        p, p_test, size = fit_annotator(train, test.x, width, epochs, seed=1000 * seed + number)
        own, unseen = float(accuracy([p], train.y)[0]), float(accuracy([p_test], test.y)[0])
        probs.append(p)
        about.append(
            {"width": width, "epochs": epochs, "parameters": size, "accuracy": own, "accuracy_unseen": round(unseen, 4)}
        )
        note(f"annotator {number + 1} of {len(ANNOTATORS)}: width {width}, {epochs} epochs, {own:.1%} right")
    weak = [number for number, row in enumerate(about) if row["accuracy"] < LEAST_ACCURACY]
    if weak:
        warnings.warn(
            f"annotators {', '.join(map(str, weak))} are right about less than {LEAST_ACCURACY:.0%} of the images they "
            "relabel, so their mistakes depend on the image more than they should.",
            DataWarning,
            stacklevel=2,
        )
    (folder / ABOUT).unlink(missing_ok=True)  # so that files of two makings are never mixed
    levels = {}
    for level, noise in NOISE.items():
        rate = calibrate_rate(probs, train.y, noise, seed=seed)
        frame = sample_annotations(
            probs,
            train.y,
            rate=rate,
            answers_per_item=None,
            items=item_names(train.rows),
            sizes=np.log([row["parameters"] for row in about]),
            seed=seed,
        )
        write_imagenet_pi(folder / f"{level}_noise", frame)
        levels[level] = {"rate": rate, "noise": float((frame["label"] != frame["y"]).mean())}
    made = {"n_images": len(train.y), "seed": seed, "levels": levels, "annotators": about}
    write_json(folder / ABOUT, made)
    return made


def fit_annotator(
    train: Images, x_test: NDArray[np.uint8], width: int, epochs: int, *, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """Train one CNN; its probabilities for the training and the test images, and its number of parameters."""
    import torch
    from torch.nn import functional as F

    from ....learn.nets import SmallCNN, Standardize

    def half_size(images: NDArray[np.uint8]) -> torch.Tensor:
        return F.avg_pool2d(torch.from_numpy(images).float(), 2)

    x, y = half_size(train.x), torch.from_numpy(train.y)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = SmallCNN(len(CLASSES_10), width=width, standardize=Standardize.fit(x.numpy()))
        n_steps = max(1, len(x) // BATCH_SIZE)
        optimizer = torch.optim.SGD(
            net.parameters(), LEARNING_RATE, momentum=0.9, nesterov=True, weight_decay=WEIGHT_DECAY
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=epochs * n_steps)
        for _ in range(epochs):
            order = torch.randperm(len(x))
            for rows in order[: n_steps * BATCH_SIZE].split(BATCH_SIZE):
                optimizer.zero_grad()
                F.cross_entropy(net(x[rows]), y[rows]).backward()
                optimizer.step()
                schedule.step()
    net.eval()
    with torch.no_grad():
        probs, probs_test = (
            torch.cat([net(block).softmax(1) for block in images.split(1000)]).numpy()
            for images in (x, half_size(x_test))
        )
    return probs, probs_test, sum(parameter.numel() for parameter in net.parameters())


def item_names(rows: NDArray[np.int64]) -> NDArray[np.str_]:
    """What the files call the training images: batch and number in it."""
    return np.asarray([f"data_batch_{row // cifar.BATCH + 1}/{row % cifar.BATCH:04d}" for row in rows.tolist()])


def read_about(data: Path) -> dict[str, Any]:
    """What was written when the annotations were made."""
    path = data / FOLDER / ABOUT
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
    """The annotations of a noise level, without clean labels."""
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
    """The command that makes the annotations."""
    return f"`pidual data relabel cifar10_pi --data {data}`"


def _images(data: Path) -> Images:
    """The training images that exist; the number of annotations shows how many are missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return load_cifar10(data, "train", partial=True)
