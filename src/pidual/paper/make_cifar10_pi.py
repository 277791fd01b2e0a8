"""Make CIFAR-10-PI: train 16 small CNNs on CIFAR-10 and write their answers (`pidual data relabel cifar10_pi`).

They see the images at half size, which makes them quick to train, and differ in width and in how long they learnt.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from ..data.datasets.cifar import CLASSES_10, Images, load_cifar10
from ..data.datasets.cifar10_pi import ABOUT, FOLDER, LEAST_ACCURACY, NOISE, item_names, training_images
from ..data.datasets.imagenet_pi import write_imagenet_pi
from ..data.datasets.relabel import accuracy, calibrate_rate, sample_annotations
from ..errors import DataWarning
from ..files import write_json
from ..learn.nets import SmallCNN, Standardize

# Width and epochs of each annotator.
ANNOTATORS = (
    *((16, 8), (16, 12), (16, 16), (20, 8), (20, 12), (24, 6), (24, 9), (24, 12)),
    *((28, 6), (28, 9), (32, 5), (32, 8), (36, 6), (40, 5), (40, 7), (48, 6)),
)
LEARNING_RATE, WEIGHT_DECAY, BATCH_SIZE = 0.2, 5e-4, 64


def make_cifar10_pi(data: Path, *, seed: int = 0, note: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Train the annotators on what is there of CIFAR-10's training images, and write their answers at both levels.

    `data`: folder with CIFAR-10; gets cifar-10-pi.
    `seed`: of the annotators and of their answers.
    `note`: called with each annotator as it is ready.
    Returned: what about.json holds: the annotators with their accuracy on the images they relabel and on the test
        images, and rate and noise of each level.
    """
    train, test = training_images(data), load_cifar10(data, "test")
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
