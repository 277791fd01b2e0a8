"""Read the pickles some datasets are published as, without running anything that is in them.

A pickle can name any function to be called. This reader knows NumPy arrays of plain numbers and built-in containers,
makes the arrays itself, and refuses every other name.
"""

import pickle
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError

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
