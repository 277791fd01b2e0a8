"""LabelMe: 2,547 answers of 59 workers to 1,000 photographs of eight kinds of scene, on pooled VGG features.

    DATA/labelme/answers.txt                    1,000 x 59, -1 where a worker was not asked
    DATA/labelme/LabelMe_VGG_avg_<part>.npy     features of the parts train, valid, test
    DATA/labelme/LabelMe_Z_<part>.txt           clean labels

Rodrigues and Pereira, "Deep learning from crowds", AAAI 2018.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from .base import NoisyDataset, load_array, need_file

SOURCE = "http://www.fprodrigues.com/publications/deep-crowds/"
FOLDER, ANSWERS = "labelme", "answers.txt"
N_CLASSES = 8
PI = {"annotator": "category"}


def load_labelme(data: Path, part: str = "test") -> NoisyDataset:
    """LabelMe; PI: the worker. The release does not name the classes, so they are called by their numbers.

    `data`: folder with labelme.
    `part` ({"test", "valid"}): the part to test on: 1,188 or 500 photographs.
    """
    if part not in ("test", "valid"):
        raise UsageError(f"LabelMe is tested on its part 'test' or 'valid', not {part!r}")
    answers = read_answers(data)
    (x, y), (x_test, y_test) = read_part(data, "train"), read_part(data, part)
    if len(answers) != len(x):
        raise DataError(f"{data / FOLDER} has answers to {len(answers):,} photographs and features of {len(x):,}.")
    item, worker = np.nonzero(answers >= 0)
    frame = pd.DataFrame({"item": item, "annotator": worker, "label": answers[item, worker], "y": y[item]})
    return NoisyDataset(f"labelme:{part}", frame, PI, x, x_test, y_test, [str(k) for k in range(N_CLASSES)])


def read_answers(data: Path) -> NDArray[np.int64]:
    """Answer of each worker (column) to each photograph (row), -1 for none."""
    answers = _read_numbers(need_file(data / FOLDER, ANSWERS, source=SOURCE))
    if answers.ndim != 2 or answers.min() < -1 or answers.max() >= N_CLASSES:
        raise DataError(f"{data / FOLDER / ANSWERS} must hold rows of numbers from -1 to {N_CLASSES - 1}.")
    return answers


def read_part(data: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and clean labels of a part."""
    x = load_array(need_file(data / FOLDER, f"LabelMe_VGG_avg_{part}.npy", source=SOURCE))
    path = need_file(data / FOLDER, f"LabelMe_Z_{part}.txt", source=SOURCE)
    y = _read_numbers(path)
    if x.ndim < 2 or x.dtype.kind not in "fiu" or not np.isfinite(x).all():
        raise DataError(f"{path.parent}: LabelMe_VGG_avg_{part}.npy must hold a row of finite numbers per photograph.")
    if y.shape != x.shape[:1] or y.min() < 0 or y.max() >= N_CLASSES:
        raise DataError(f"{path} must hold a class from 0 to {N_CLASSES - 1} for each of {len(x):,} photographs.")
    return x.reshape(len(x), -1).astype(np.float32), y


def _read_numbers(path: Path) -> NDArray[np.int64]:
    try:
        return np.loadtxt(path, dtype=np.int64)
    except ValueError as error:
        raise DataError(f"{path} must hold whole numbers ({error}).") from None
