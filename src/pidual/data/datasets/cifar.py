"""CIFAR-10 and CIFAR-100: images and clean labels, from the binary or the python version their author publishes.

    DATA/cifar-10-batches-bin/   data_batch_1.bin .. data_batch_5.bin, test_batch.bin
    DATA/cifar-10-batches-py/    the same names without .bin
    DATA/cifar-100-binary/       train.bin, test.bin, fine_label_names.txt, coarse_label_names.txt
    DATA/cifar-100-python/       train, test, meta

Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

import warnings
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from .locate import MissingError
from .unpickle import read_pickle

Part = Literal["train", "test"]
Depth = Literal["fine", "coarse"]

SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"
BATCH = 10_000  # images in a file of CIFAR-10, and in CIFAR-100's test file; its training file has five times as many
PIXELS = 3 * 32 * 32
CLASSES_10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
N_CLASSES_100: dict[str, int] = {"fine": 100, "coarse": 20}


class Images(NamedTuple):
    """Images of a part of CIFAR."""

    x: NDArray[np.uint8]  # (N, 3, 32, 32)
    y: NDArray[np.int64]  # (N,), clean labels
    rows: NDArray[np.int64]  # (N,), number of each image in the published order of its part
    whole: bool = True  # whether it is all of its part


def load_cifar10(data: Path, part: Part, *, partial: bool = False) -> Images:
    """Images of CIFAR-10.

    `data`: folder that holds cifar-10-batches-bin or cifar-10-batches-py.
    `part` ({"train", "test"}).
    `partial`: continue, with a warning, when some of the training batches are missing.
    """
    files = cifar10_files(data, part)
    present = {number: path for number, path in enumerate(files) if path.is_file()}
    missing = [path.name for path in files if not path.is_file()]
    if missing and not (partial and present):
        raise MissingError(f"{files[0].parent} has no {', '.join(missing)}; get CIFAR-10 from {SOURCE}.")
    if missing:
        warnings.warn(
            f"{', '.join(missing)} not in {files[0].parent}: {len(present) * BATCH:,} of {len(files) * BATCH:,} "
            "training images of CIFAR-10 are used.",
            DataWarning,
            stacklevel=2,
        )
    read = [_read(path, BATCH, "labels", len(CLASSES_10)) for path in present.values()]
    rows = np.concatenate([np.arange(BATCH) + number * BATCH for number in present])
    return Images(np.concatenate([x for x, _ in read]), np.concatenate([y for _, y in read]), rows, not missing)


def load_cifar100(data: Path, part: Part, label: Depth = "fine") -> Images:
    """Images of CIFAR-100 with their fine (100) or coarse (20) labels.

    `data`: folder that holds cifar-100-binary or cifar-100-python.
    `part` ({"train", "test"}).
    `label` ({"fine", "coarse"}).
    """
    path = _cifar100_file(data, part)
    if not path.is_file():
        raise MissingError(f"{path} is missing; get CIFAR-100 from {SOURCE}.")
    n = BATCH if part == "test" else 5 * BATCH
    x, y = _read(path, n, f"{label}_labels", N_CLASSES_100[label])
    return Images(x, y, np.arange(n))


def cifar100_classes(data: Path, label: Depth = "fine") -> list[str]:
    """Names of the fine or the coarse classes of CIFAR-100."""
    folder = _cifar100_file(data, "train").parent
    path = folder / (f"{label}_label_names.txt" if folder.name == "cifar-100-binary" else "meta")
    if not path.is_file():
        raise MissingError(f"{path} is missing; get CIFAR-100 from {SOURCE}.")
    if path.suffix == ".txt":
        names = path.read_text(encoding="utf-8", errors="replace").split()
    else:
        content = read_pickle(path)
        names = list(content.get(f"{label}_label_names", [])) if isinstance(content, dict) else []
    if len(names) != N_CLASSES_100[label]:
        raise DataError(f"{path} names {len(names)} classes instead of {N_CLASSES_100[label]}; get it again.")
    return names


def cifar10_files(data: Path, part: Part) -> list[Path]:
    """Where the files of a part are, or would be: in the binary version unless only the python version is there."""
    names = [f"data_batch_{k}" for k in range(1, 6)] if part == "train" else ["test_batch"]
    folder = data / "cifar-10-batches-py"
    if folder.is_dir() and not (data / "cifar-10-batches-bin").is_dir():
        return [folder / name for name in names]
    return [data / "cifar-10-batches-bin" / f"{name}.bin" for name in names]


def _cifar100_file(data: Path, part: Part) -> Path:
    """Where the file of a part is, or would be."""
    if (data / "cifar-100-python").is_dir() and not (data / "cifar-100-binary").is_dir():
        return data / "cifar-100-python" / part
    return data / "cifar-100-binary" / f"{part}.bin"


def _read(path: Path, n: int, label: str, n_classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and labels of one file, which must have n of them."""
    pixels, y = _read_binary(path, n, label) if path.suffix == ".bin" else _read_python(path, label)
    if pixels.shape != (n, PIXELS) or y.shape != (n,):
        raise DataError(
            f"{path} holds {pixels.shape[0]:,} images of {pixels.shape[1]:,} numbers and {len(y):,} labels instead of "
            f"{n:,} of {PIXELS:,}; get it again from {SOURCE}."
        )
    if y.min() < 0 or y.max() >= n_classes:
        row = int(np.argmax((y < 0) | (y >= n_classes)))
        raise DataError(f"{path}: image {row} has the label {y[row]}, not one from 0 to {n_classes - 1}; get it again.")
    return np.ascontiguousarray(pixels).reshape(-1, 3, 32, 32), y


def _read_binary(path: Path, n: int, label: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read records of label bytes (CIFAR-10: the label; CIFAR-100: coarse, fine) and pixels."""
    columns = {"labels": ["labels"]}.get(label, ["coarse_labels", "fine_labels"])
    size = len(columns) + PIXELS
    found = path.stat().st_size
    if found != n * size:
        raise DataError(f"{path} has {found:,} bytes instead of {n * size:,}; get it again from {SOURCE}.")
    records = np.fromfile(path, np.uint8).reshape(n, size)
    return records[:, len(columns) :], records[:, columns.index(label)].astype(np.int64)


def _read_python(path: Path, label: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a pickled dict with the array `data` and a list of labels."""
    content: Any = read_pickle(path)
    if not isinstance(content, dict) or "data" not in content or label not in content:
        raise DataError(f"{path} has no 'data' and '{label}' in it; get CIFAR's python version from {SOURCE}.")
    pixels, y = np.asarray(content["data"]), np.asarray(content[label])
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or y.dtype.kind not in "iu":
        raise DataError(f"{path} holds {pixels.dtype} pixels and {y.dtype} labels; get it again from {SOURCE}.")
    return pixels, y.astype(np.int64)
