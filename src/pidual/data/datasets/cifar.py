"""CIFAR-10 and CIFAR-100: images and clean labels, from the binary or the python version their author publishes.

    DATA/cifar-10-batches-bin/   data_batch_1.bin .. data_batch_5.bin, test_batch.bin
    DATA/cifar-10-batches-py/    the same names without .bin
    DATA/cifar-100-binary/       train.bin, test.bin, fine_label_names.txt, coarse_label_names.txt
    DATA/cifar-100-python/       train, test, meta

Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

Pickles are read without running anything that is in them. One can name any function to be called: the reader knows
NumPy arrays of plain numbers and built-in containers, makes the arrays itself, and refuses every other name.
"""

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from .base import MissingError

TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # first of the pickles in a file torch wrote before it used zip
DTYPES = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} | {"f4", "f8", "b1"}


def read_pickle(path: Path) -> Any:
    """Read the object in a pickle file, such as those of CIFAR's python version; text of Python 2 is Latin-1."""
    with path.open("rb") as file:
        return _load(file, path)


def read_torch(path: Path) -> Any:
    """Read the object in a file `torch.save` has written, zipped or not; it may hold NumPy arrays, but no tensors."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            if len(members) != 1:
                raise DataError(f"{path} is a zip file without a data.pkl, so torch has not written it; get it again.")
            with archive.open(members[0]) as file:
                return _load(file, path)
    with path.open("rb") as file:
        if _load(file, path) != TORCH_MAGIC:
            raise DataError(f"{path} is not a file torch has written; get it again from its authors.")
        _load(file, path)  # version of the protocol
        _load(file, path)  # sizes of the machine's numbers
        return _load(file, path)


def _load(file: IO[bytes], path: Path) -> Any:
    try:
        return _arrays(_Unpickler(file, encoding="latin1").load())
    except _RefusedError as error:
        raise DataError(
            f"{path} asks for {error} to be called; only NumPy arrays and plain containers are read from such a file, "
            "so get it again from its authors."
        ) from None
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{path} cannot be read ({error}); get it again from its authors.") from error


class _RefusedError(Exception):
    """A name that is not to be called."""


class _Dtype:
    """Stands in for numpy.dtype: a plain number type and its byte order."""

    def __init__(self, code: str, *_: Any) -> None:
        if code not in DTYPES:
            raise ValueError(f"an array of type {code!r}")
        self.code = code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.code = {">": ">", "<": "<"}.get(state[1], "") + self.code


class _Array:
    """Stands in for numpy.ndarray: keeps what the pickle says about the array."""

    def __init__(self, *_: Any) -> None:
        self.array: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        self.array = np.frombuffer(data, np.dtype(dtype.code)).reshape(shape, order="F" if fortran else "C").copy()


def _encode(text: str, encoding: str) -> bytes:
    """Bytes as Python 3 writes them into a pickle of protocol 2."""
    if encoding != "latin1":
        raise ValueError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise _RefusedError(f"{module}.{name}")
        return KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise ValueError("it holds a tensor")


def _arrays(value: Any) -> Any:
    """`value` with the arrays in place of their stand-ins."""
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, dict):
        return {key: _arrays(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_arrays(part) for part in value)
    return value


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
    if (data / "cifar-100-python").is_dir() and not (data / "cifar-100-binary").is_dir():
        return data / "cifar-100-python" / part
    return data / "cifar-100-binary" / f"{part}.bin"


def _read(path: Path, n: int, label: str, n_classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
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
