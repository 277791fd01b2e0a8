"""Embeddings of texts and pictures by a model that the user names: each item once, in batches, kept for later.

    vectors, probe = embed(Items.of_texts(texts, "texts.csv"), find_model("all-MiniLM-L6-v2", "texts"))

`probe` is the vector of an item that is always the same. A run keeps it, and finds out by it that a model is another
one than that of its fit.

What is embedded is kept, whatever stops the work. A folder per model has `embeddings.npy`: a record for each item, its
digest and its vector. A batch is appended, and the number of records in the header is written last, so that a batch
counts once it is whole. `numpy.load` reads the file.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import DataError, PidualError, UsageError
from ..errors.messages import explaining_failed_writes, first_line, quoted
from ..files import fingerprint, lock, write_json
from .embedding_models import Encode, Model, find_model
from .images import as_image, as_pixels, fit_image, is_picture, small_image
from .inputs import Inputs

DIGEST = np.dtype("S32")  # hexadecimal digits
Digests = NDArray[np.bytes_]
Floats = NDArray[np.float32]


def cache_folder() -> Path:
    """Return the folder of all embeddings: in `PIDUAL_CACHE`, or in `pidual` of the user's folder for caches."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pidual"
    return Path(os.environ.get("PIDUAL_CACHE") or usual) / "embeddings"


class EmbeddingCache:
    """What is kept of the model whose vectors `key` tells from those of others."""

    def __init__(self, key: str):
        self.key, self.folder = key, cache_folder() / fingerprint([key.encode()])
        self.path = self.folder / "embeddings.npy"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the cache against other processes, which wait: what one embeds the others find."""
        way_out = "free some space, or set PIDUAL_CACHE to a folder that can be written."
        with explaining_failed_writes(f"embeddings to {self.folder}", way_out):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self.folder / "model.json", {"key": self.key})
            file = (self.folder / "lock").open("w")
        with file:
            while True:
                try:
                    lock(file)
                    break
                except BlockingIOError:
                    time.sleep(0.2)
            yield

    def read(self) -> NDArray[Any]:
        """Return the records `item`, `vector` of all whole batches, as a memory map."""
        try:
            return np.asarray(np.load(self.path, mmap_mode="r"))
        except (OSError, ValueError, EOFError):  # nothing is kept yet
            return np.empty(0, [("item", DIGEST), ("vector", np.float32, (0,))])

    def find(self, digests: Digests) -> NDArray[np.int64]:
        """Return the number of each item's record, -1 where it is not kept."""
        kept = np.array(self.read()["item"])
        if not len(kept):
            return np.full(len(digests), -1, np.int64)
        order = np.argsort(kept)
        place = order[np.searchsorted(kept, digests, sorter=order).clip(max=len(kept) - 1)]
        return np.where(kept[place] == digests, place, -1)

    def add(self, digests: Digests, vectors: Floats) -> None:
        """Append a batch, while this process is writing."""
        kept = self.read()
        rows = np.empty(len(digests), [("item", DIGEST), ("vector", np.float32, vectors.shape[1:])])
        rows["item"], rows["vector"] = digests, vectors
        if len(kept) and kept.dtype != rows.dtype:
            sizes = f"{kept['vector'].shape[1]} and of {vectors.shape[1]} numbers"
            raise DataError(f"The model {self.key} gives vectors of {sizes}; all must have as many.")
        writing = explaining_failed_writes(f"embeddings to {self.folder}", "free some space; earlier ones are kept.")
        with writing, self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.seek(_write_header(file, rows.dtype, len(kept)) + kept.nbytes)
            file.truncate()  # what a killed process has left
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
            _write_header(file, rows.dtype, len(kept) + len(rows))


def _write_header(file: IO[bytes], dtype: np.dtype[Any], n: int) -> int:
    """Write the header of n records, which has room for any number, and return where they begin."""
    file.seek(0)
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, described)
    return file.tell()


BATCH = {"texts": 256, "pictures": 64}  # items that are embedded, and kept, at once
SIDE = 1024  # pixels a side of a picture; larger ones are made smaller first
SAME = 1e-2  # share of its length by which the vector of the probe differs between machines at most
PROBE = "The quick brown fox jumps over the lazy dog."

Progress = Callable[[int, int], object]  # called with how many items are done, and how many there are
Embedder = str | Path | Encode  # a model by name, or a function from a list of items to an array


@dataclass(frozen=True)
class Items:
    """What is to be embedded.

    Parameters
    ----------
    source : str
        What messages call it.
    kind : "texts" or "pictures"
    digests : array (n,)
        Digests of the contents; equal items are embedded once.
    take : callable
        From rows to a list of texts, or of pictures in RGB (`PIL.Image.Image`).
    sizes : int array (n,), optional
        Larger items come first, so that those of a batch are of about one size.
    """

    source: str
    kind: str
    digests: Digests
    take: Callable[[Sequence[int]], list[Any]]
    sizes: NDArray[np.int64] | None = None

    @classmethod
    def of_texts(cls, texts: Sequence[str], source: str) -> "Items":
        """Make items of texts."""
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        digests = [fingerprint([text.encode()]) for text in texts]
        return cls(source, "texts", np.array(digests, DIGEST), lambda rows: [texts[row] for row in rows], sizes)

    @classmethod
    def of_files(cls, folder: Path, files: Sequence[str], size: tuple[int, int] | None, centre: bool) -> "Items":
        """Make items of the pictures in a folder, scaled and cropped to a size if one is given."""
        how = repr((size, centre)).encode()

        def open_one(row: int) -> Any:
            picture = small_image(folder / files[row], SIDE)
            return picture if size is None else fit_image(picture, size, centre)

        def digest(row: int) -> str:
            return fingerprint([(folder / files[row]).read_bytes(), how])

        def in_threads(function: Callable[[int], Any], rows: Sequence[int]) -> list[Any]:
            with ThreadPoolExecutor() as pool:
                return list(pool.map(function, rows))

        found = in_threads(digest, range(len(files)))
        return cls(str(folder), "pictures", np.array(found, DIGEST), partial(in_threads, open_one))

    @classmethod
    def of_array(cls, x: NDArray[Any], source: str) -> "Items":
        """Make items of an array of pictures, in bytes."""
        if x.dtype != np.uint8 or not is_picture(x.shape[1:]):
            what = f"{source} has the shape {x.shape[1:]} and the type {x.dtype}"
            raise UsageError(f"embed= (--embed) is for texts and for pictures of bytes, (3, H, W), and {what}.")
        digests = [fingerprint([repr(x.shape[1:]).encode(), row.tobytes()]) for row in x]
        taken = np.array(digests, DIGEST)
        return cls(source, "pictures", taken, lambda rows: [as_image(as_pixels(x[row])) for row in rows])


def embed(items: Items, model: Model, progress: Progress | None = None) -> tuple[Floats, Floats]:
    """Return the vectors of items (n, d), and that of the probe (d,).

    Parameters
    ----------
    items : Items
    model : Model
    progress : callable, optional
        Called while there is something to do.
    """
    n, probe = len(items.digests), _probe(items.kind)
    digests = np.append(items.digests, np.array(fingerprint([b"probe of pidual", items.kind.encode()]), DIGEST))
    digests, first, row = np.unique(digests, return_index=True, return_inverse=True)
    cache, at_probe = EmbeddingCache(model.key), row[n : n + 1]

    def encode(numbers: NDArray[np.int64]) -> Floats:
        rows = first[numbers]
        taken = iter(items.take(rows[rows < n].tolist()))
        return _checked(model, items, [probe if at == n else next(taken) for at in rows.tolist()])

    place = cache.find(digests)
    if model.checked or (place < 0).any():
        with cache.writing():
            kept, place = cache.read()["vector"], cache.find(digests)
            if model.checked and len(kept) and not _same(kept[place[at_probe]], encode(at_probe)):  # of another model
                cache.path.unlink()
                place[:] = -1
            missing = np.flatnonzero(place < 0)
            sizes = np.zeros(n, np.int64) if items.sizes is None else items.sizes
            sizes = np.append(sizes, sizes.max(initial=0) + 1)  # the probe comes first: what is kept is compared by it
            missing = missing[np.argsort(-sizes[first[missing]], kind="stable")]
            for begin in range(0, len(missing), BATCH[items.kind]):
                batch = missing[begin : begin + BATCH[items.kind]]
                cache.add(digests[batch], encode(batch))
                if progress is not None:
                    progress(begin + len(batch), len(missing))
            place = cache.find(digests)
    vectors = cache.read()["vector"]
    return np.asarray(vectors[place[row[:n]]]), np.array(vectors[place[at_probe[0]]])


def embed_inputs(
    inputs: Inputs,
    items: Items,
    named: Embedder | None,
    schema: dict[str, Any] | None,
    tensors: dict[str, NDArray[Any]] | None,
    progress: Progress | None,
) -> Inputs:
    """Return inputs with vectors of their items: those of texts beside TF-IDF, as much in sum, and of pictures alone.

    `schema` and `tensors` are those of the inputs a model was trained with, which say what embedded them.
    """
    known: dict[str, Any] | None = None if schema is None else schema["embed"]
    asked: Any = named if known is None or named is not None else known["name"]
    model = find_model(asked, items.kind, of_run=named is None)
    vectors, probe = embed(items, model, progress)
    fitted = {"embed": known or {"name": model.name, "size": vectors.shape[1]}}
    if known is None:
        tensors = {"probe": probe}
    elif not tensors or not _same(tensors["probe"], probe):
        raise DataError(
            f"The model {quoted(model.name)} is not the one that embedded the inputs of the fit ({known['name']}): it "
            "gives another vector for the same item; name that model, or fit again."
        )
    array = vectors
    if items.kind == "texts":
        assert isinstance(inputs.array, np.ndarray)
        if known is None:  # neither of the two is to drown the other
            ratio = inputs.array.var(0).sum() / max(float(vectors.var(0).sum()), 1e-12)
            tensors["scale"] = np.sqrt([ratio], dtype=np.float32)
        array = np.concatenate([inputs.array, vectors * tensors["scale"]], axis=1)
    found = inputs.schema | {"shape": [array.shape[1]]} | fitted
    return replace(inputs, array=array, schema=found, tensors=inputs.tensors | tensors)


def _probe(kind: str) -> Any:
    if kind == "texts":
        return PROBE
    wave = np.add.outer(np.arange(64), np.arange(64))[..., None] * np.array([1, 3, 5]) % 256
    return Image.fromarray(wave.astype(np.uint8))


def _same(one: Floats, other: Floats) -> bool:
    one, other = np.ravel(one), np.ravel(other)
    return one.shape == other.shape and bool(np.linalg.norm(one - other) <= SAME * np.linalg.norm(one))


def _checked(model: Model, items: Items, some: list[Any]) -> Floats:
    """Return what a model says about some items, if it is one vector each."""
    try:
        found = model.encode(some)
        found = np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)
    except (PidualError, MemoryError):
        raise
    except Exception as error:  # of a library, or of a function of the user's own
        why = f"{type(error).__name__}: {first_line(error)}"
        raise DataError(
            f"{items.source}: the model {quoted(model.name)} cannot embed its {items.kind} ({why})."
        ) from error
    what = (
        f"{items.source}: the model {quoted(model.name)} gives an array of shape {found.shape} and type {found.dtype}"
    )
    if found.ndim != 2 or len(found) != len(some) or not found.shape[1] or found.dtype.kind not in "fiu":
        raise DataError(f"{what} for {len(some)} {items.kind}; it must give a row of numbers for each.")
    found = np.ascontiguousarray(found, np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"{what} with numbers that are missing or infinite; they cannot be used.")
    return found
