"""Where benchmarks/detection.py looks for wrong labels: crowds, hard cases, images, and stored probabilities.

SETS["fraud"](seed) -> NoisyDataset, or Stored where somebody's probabilities are given
"""

import dataclasses
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from common import data_folder
from crowd_data import REAL, image_vectors
from hard_cases import HARD_CASES

from pidual.data.datasets import load_dataset
from pidual.data.datasets.cifarn import KEYS_10, LABELS_10, RANDOM_10, SIDE_10, read_labels, read_side_info

DRAWS = {"idle_pi": 10}  # seeds that a set always has
CNN = {"network.width": 16, "network.convs": 1}
CIFAR_CPU = CNN | {"epochs": 12, "batch_size": 64, "schedule": "cosine"}  # of the recipe at CPU scale
OPTIONS = {"cifar10_pi:low": CIFAR_CPU, "cifar10_pi:high": CIFAR_CPU}  # other than the default setting's, for all


@dataclass(frozen=True, eq=False)
class Stored:
    """Labels, and out-of-fold probabilities of another network.

    frame    item, label, y; y is -1 where all that is known is that the label is wrong
    p        (n_items, K)
    pi       columns of the frame
    """

    frame: pd.DataFrame
    p: np.ndarray
    pi: tuple[str, ...] = ()


def package(name, seed):
    """A dataset of the package as it is."""
    return load_dataset(name, data_folder(), seed=seed)


def cifar100n(seed):
    """CIFAR-100N on vectors of its images; the same for every seed."""
    return load_cifar100n()


@cache
def load_cifar100n():
    data = load_dataset("cifar100n", data_folder())
    x, x_test = image_vectors(data.x, data.x_test[:100])
    return dataclasses.replace(data, x=x, x_test=x_test, y_test=data.y_test[:100])


# --- stored probabilities ---


def roman_numerals(seed):
    """Roman numerals, one label an item."""
    stored = np.load(data_folder() / "label-errors" / "roman-numeral_resnet18.npz")
    label = stored["labels"].astype(np.int64)
    frame = pd.DataFrame({"item": np.arange(len(label)), "label": label, "y": np.where(stored["wrong"], -1, label)})
    return Stored(frame, stored["pred_probs"].astype(np.float32))


def cifar10n(which, answers, seed):
    """CIFAR-10N by a ResNet-18 trained on its aggregate or worst labels: these, or the three answers an image."""
    labels = read_labels(data_folder(), LABELS_10, KEYS_10)
    stored = np.load(data_folder() / "label-errors" / f"cifar-10n-{which}_resnet18.npz")
    y = labels["clean_label"]
    p, given = np.zeros((len(y), 10), np.float32), np.zeros(len(y), np.int64)
    p[stored["image"]], given[stored["image"]] = stored["pred_probs"], stored["labels"]
    if answers == 1:
        return Stored(pd.DataFrame({"item": np.arange(len(y)), "label": given, "y": y}), p)
    side = read_side_info(data_folder(), SIDE_10, workers=3, images=10)
    item = np.tile(np.arange(len(y)), 3)
    label = np.stack([labels[key] for key in RANDOM_10]).ravel()
    frame = pd.DataFrame({"item": item, "annotator": side.annotator.ravel(), "label": label, "y": y[item]})
    return Stored(frame, p, ("annotator",))


STORED = {
    "cifar10n_aggregate": partial(cifar10n, "aggregate", 1),
    "cifar10n_worst": partial(cifar10n, "worst", 1),
    "roman_numerals": roman_numerals,
    "cifar10n_aggregate_3": partial(cifar10n, "aggregate", 3),
    "cifar10n_worst_3": partial(cifar10n, "worst", 3),
}
DIGITS = {f"digits_pi:{level}": partial(package, f"digits_pi:{level}") for level in ("low", "high")}
CIFAR_PI = {f"cifar10_pi:{level}": partial(package, f"cifar10_pi:{level}") for level in ("low", "high")}
HARD = {name: make for name, (make, _) in HARD_CASES.items()}
SETS = DIGITS | REAL | {"cifar100n": cifar100n} | HARD | STORED | CIFAR_PI
GROUPS = {
    "digits": list(DIGITS),
    "real": [*REAL, "cifar100n"],
    "hard": list(HARD),
    "stored": list(STORED),
    "images": list(CIFAR_PI),
    "cheap": [*DIGITS, *REAL, *HARD, *STORED],
}
TITLES = {
    "digits_pi:low": "Digits-PI low",
    "digits_pi:high": "Digits-PI high",
    "cifar10_pi:low": "CIFAR-10-PI low",
    "cifar10_pi:high": "CIFAR-10-PI high",
    "labelme": "LabelMe",
    "cifar10s": "CIFAR-10S",
    "cifar100_sm500": "CIFAR-100 SM500",
    "medical_treat": "Medical relations",
    "llm_emotion": "Language models",
    "cifar100n": "CIFAR-100N",
    "cifar10n_aggregate": "CIFAR-10N aggregate (given p)",
    "cifar10n_worst": "CIFAR-10N worst (given p)",
    "roman_numerals": "Roman numerals (given p)",
    "cifar10n_aggregate_3": "CIFAR-10N three answers (p of aggregate)",
    "cifar10n_worst_3": "CIFAR-10N three answers (p of worst)",
}
