"""The inputs x: one row per item, from an array, a table's columns, a folder of images or a column of text.

    inputs = load_inputs("features.parquet")
    rows = x_rows(inputs, table)          # inputs.array[rows[i]] belongs to annotation i

`inputs.schema` and `inputs.tensors` are what a model keeps to read inputs for prediction in the same way.
"""

import contextlib
import hashlib
import math
import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ..errors import DataError, DataWarning, UsageError
from ..files import release
from ..messages import first_line, quoted
from .people import has_address, hides, holds_people, is_address, listed, names_annotator, names_people, shown
from .readers import Keys, Source, as_floats, as_text, check_file, is_folder, keys, native, open_source
from .readers import values as read_values
from .table import AnnotationTable, find_item

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")  # by content; Pillow would start other programs for some others
MAX_PIXELS = 50_000_000  # of an image: 200 MB while it is decoded
LARGE_PIXELS = 15_000_000  # from here on few images are decoded at a time
MAX_BYTES = 2 << 30  # decoded images beyond this are read from disk batch by batch
CENTRE = 7 / 8  # of the short side, where the centre of images is asked for: 224 of 256 pixels
CROP_AREA, CROP_ASPECT = 0.08, (3 / 4, 4 / 3)  # of random crops: least share of the image, range of width / height
N_TERMS, N_TEXT_FEATURES = 20_000, 256
NO_DIRECTION = 1e-3  # part of the largest singular value below which one counts as zero
_NOT_FEATURES = ("item", "task", "label", "y", "split")
_INDEX_COLUMNS = ("", "Unnamed: 0", "__index_level_0__")  # what pandas writes for a frame's index
_ID_NAME = r"(?i:(.*[\W_])?id)|.*[a-z0-9]I[dD]"  # id, image_id and imageId, but not humid
_LARGE = threading.Semaphore(4)
_FILTERS = threading.Lock()  # filters of warnings belong to all threads
_MAX_CODE = 0x10FFFF  # of a character
_CHECKED = 1 << 18  # probabilities looked at in one go
SUM_TOLERANCE = 0.01  # by which probabilities may sum to more or less than 1: they may be rounded
_COMPARED = 1_000  # rows of x looked at to see whether the rows of an item are alike


class LazyImages:
    """Images that stay on disk and are decoded when taken.

    Parameters
    ----------
    folder : Path
        Where the files are.
    files : list of str
        Paths relative to `folder`.
    size : tuple of int
        Height and width.
    resize : bool
        Whether an image of another size is scaled and cropped; if not, it is an error.
    centre : bool
        Scale the central 7/8 only, bicubic, as is usual on ImageNet.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, folder: Path, files: list[str], size: tuple[int, int], resize: bool, centre: bool = False):
        self._folder, self._files, self._size, self._resize = folder, files, size, resize
        self._centre = centre

    def __len__(self) -> int:
        return len(self._files)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Images, channels, height, width."""
        return (len(self), 3, *self._size)

    def check(self) -> None:
        """Raise for the first file that is not an image, by its header; a truncated one shows when it is taken."""
        for name in self._files:
            with _opened(self._folder / name):
                pass

    def take(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
        """Decode the images at `rows` to uint8 of shape (len(rows), 3, H, W)."""
        images = np.empty((len(rows), 3, *self._size), np.uint8)

        def decode(place: int) -> None:
            path = self._folder / self._files[rows[place]]
            images[place] = _decode(path, self._size if self._resize else None, self._size, self._centre)

        with ThreadPoolExecutor() as pool:
            list(pool.map(decode, range(len(rows))))
        return images

    def crops(self, rows: NDArray[np.integer[Any]], draws: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
        """Random crops of the whole images at `rows`, scaled to the size of all, bicubic.

        `draws` has the shape (V, len(rows), 4), for V crops of every image: see `random_boxes`. Returns uint8 of shape
        (V, len(rows), 3, H, W).
        """
        images = np.empty((len(draws), len(rows), 3, *self._size), np.uint8)

        def decode(place: int) -> None:
            path = self._folder / self._files[rows[place]]
            with _opened(path) as opened:
                image = _upright(opened)
                boxes = random_boxes(image.height, image.width, draws[:, place])
                for view, (top, left, height, width) in enumerate(boxes.tolist()):
                    crop = image.crop((left, top, left + width, top + height))
                    scaled = crop.resize((self._size[1], self._size[0]), Image.Resampling.BICUBIC)
                    images[view, place] = np.asarray(scaled).transpose(2, 0, 1)

        with ThreadPoolExecutor() as pool:
            list(pool.map(decode, range(len(rows))))
        return images


def random_boxes(height: int, width: int, draws: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Places of random crops of at least 8% of an image and of width / height from 3/4 to 4/3.

    The aspect is uniform, and the height is uniform between the least that the area allows and the greatest that fits,
    as TensorFlow draws them (its `sample_distorted_bounding_box`).

    Parameters
    ----------
    height, width : int
        Of the image.
    draws : array (n, 4)
        Uniform numbers in [0, 1): aspect, height, row, column.

    Returns
    -------
    numpy.ndarray of int64, shape (n, 4)
        Top, left, height, width.
    """
    aspect = CROP_ASPECT[0] + draws[:, 0] * (CROP_ASPECT[1] - CROP_ASPECT[0])
    greatest = np.minimum(np.minimum(np.sqrt(height * width / aspect), height), width / aspect)
    least = np.minimum(np.sqrt(CROP_AREA * height * width / aspect), greatest)
    high = least + draws[:, 1] * (greatest - least)
    size = np.stack([high, high * aspect], 1).round().clip(1, [height, width])
    place = np.floor(draws[:, 2:] * ([height, width] - size + 1)).clip(0, [height, width] - size)
    return np.concatenate([place, size], 1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Inputs:
    """What x is, one row per input.

    Parameters
    ----------
    array : numpy.ndarray or LazyImages
        Shape (n, ...); images are uint8 (n, 3, H, W). It may be memory-mapped.
    names : numpy.ndarray of str or None
        The item each row belongs to; None for a bare array.
    kind : str
        "array", "columns", "images" or "text"; "probabilities" where a row is what a classifier says of the classes,
        "none" where there is no x at all.
    schema : dict
        JSON-able; given back to `load_inputs` it reads inputs for prediction in the same way.
    tensors : dict of numpy.ndarray
        Fitted arrays to keep with the model; empty unless `kind` is "text".
    source : str
        What messages call the inputs.
    fingerprint : str, optional
        Digest of what the array was computed from, where it was: the same on any machine.
    """

    array: NDArray[Any] | LazyImages
    names: NDArray[np.str_] | None
    kind: str
    schema: dict[str, Any]
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    source: str = "x"
    fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self.array)


def load_inputs(
    source: str | Path | NDArray[Any] | pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    text: str | None = None,
    item: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    centre_crop: bool = False,
    schema: dict[str, Any] | None = None,
    tensors: dict[str, NDArray[Any]] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Inputs:
    """Read inputs.

    Parameters
    ----------
    source : path, numpy.ndarray or pandas.DataFrame
        A .npy file (memory-mapped), a .npz file with `x` and optionally `item`, a CSV, Parquet or JSON Lines file,
        a folder of images, or an array or frame in memory.
    columns : sequence of str, optional
        Numeric columns to use, in this order; by default all numeric columns but those an annotation table has.
    text : str, optional
        A column of text, to be turned into 256 numbers by TF-IDF and truncated SVD.
    item : str, optional
        The column that names the rows, if the source has it; else `item` or `task` does where there is one.
    image_size : int or (height, width), optional
        Scale and centre-crop images to this size; without it all images must have one size.
    centre_crop : bool
        With `image_size`: only the central part, 7/8 of the short side long, bicubic, as is usual on ImageNet.
    schema, tensors : dict, optional
        Those of the inputs a model was trained with; the other options are then taken from there.
    max_bytes : int
        Images that need more memory than this are left on disk.

    Returns
    -------
    Inputs
    """
    if schema is not None and schema["kind"] == "none":
        raise UsageError(
            "the run was fitted without inputs (--no-x), so it cannot predict; fit it with --x or --probs."
        )
    if schema is not None and schema["kind"] == "probabilities":
        return _like_schema(load_probabilities(source, schema["shape"][0], item=item), schema)
    if schema is not None:
        columns, text, image_size = schema.get("columns"), schema.get("text"), schema.get("image_size")
        item, centre_crop = schema.get("item"), schema.get("centre_crop", False)
    if isinstance(source, np.ndarray):
        inputs = _from_array(source, None, "x")
    elif not isinstance(source, pd.DataFrame) and is_folder(source):
        inputs = _from_folder(source, image_size, centre_crop, max_bytes)
    elif not isinstance(source, pd.DataFrame) and Path(source).suffix.lower() in (".npy", ".npz"):
        inputs = _from_array(*_load_numpy(source), str(source))
    else:
        opened = open_source(source)
        item = item if item is not None and item in opened else opened.find("item", "task")
        inputs = _from_source(opened, item, False, columns, text, schema, tensors)
    if schema is None:
        _check_options_used(inputs, columns, text, image_size, centre_crop)
    return _like_schema(inputs, schema)


def table_inputs(
    source: str | Path | pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    text: str | None = None,
    item: str | None = None,
    schema: dict[str, Any] | None = None,
    tensors: dict[str, NDArray[Any]] | None = None,
) -> Inputs:
    """Inputs from columns of the annotation table itself, each item stored once.

    Parameters
    ----------
    source : path or pandas.DataFrame
        The table, as for `read_table`.
    columns, text, schema, tensors
        As for `load_inputs`; one of `columns`, `text` and `schema` must be given.
    item : str, optional
        The column of items; by default `item` or `task`. Without one, every row is an input of its own.
    """
    if schema is not None:
        columns, text = schema.get("columns"), schema.get("text")
    if not columns and not text:
        raise UsageError("inputs from the table itself need columns= (--x-columns) or text= (--x-text) to say which.")
    opened = open_source(source)
    return _like_schema(_from_source(opened, find_item(opened, item), True, columns, text, schema, tensors), schema)


def load_probabilities(
    source: str | Path | NDArray[Any] | pd.DataFrame,
    classes: Sequence[str | int] | int,
    *,
    item: str | None = None,
) -> Inputs:
    """Read what a classifier says of every class, one row per item: probabilities that sum to one.

    Parameters
    ----------
    source : path, numpy.ndarray or pandas.DataFrame
        A .npy file (memory-mapped), a .npz file with `pred_probs` (or `x`) and optionally `item`, a CSV, Parquet or
        JSON Lines file with a column for every class, or an array or frame in memory. Columns are in the order of
        the classes, sorted; those of a table may be in any order if they are named as the classes, or p_CLASS.
    classes : sequence of str or int, or int
        The classes (`AnnotationTable.classes`), or how many there are.
    item : str, optional
        The column that names the rows; by default `item` or `task` where there is one.
    """
    if isinstance(source, np.ndarray):
        array, names, name = source, None, "pred_probs"
    elif not isinstance(source, pd.DataFrame) and Path(source).suffix.lower() in (".npy", ".npz"):
        array, names = _load_numpy(source, ("pred_probs", "x"), mode="r")
        name = str(source)
    else:
        opened = open_source(source)
        item = item if item is not None and item in opened else opened.find("item", "task")
        read = _from_source(opened, item, False, _columns_of(opened, classes), None, None, None, finite=False)
        assert isinstance(read.array, np.ndarray)
        array, names, name = read.array, read.names, read.source
    read = _from_array(array, names, name, finite=False)
    assert isinstance(read.array, np.ndarray)
    _check_probabilities(read.array, classes, read.source)
    return replace(read, kind="probabilities", schema=_schema("probabilities", read.array))


def no_inputs() -> Inputs:
    """What stands for x where there is none."""
    array = np.zeros((1, 1), np.float32)
    return Inputs(array, None, "none", _schema("none", array), source="no x")


def x_rows(inputs: Inputs, table: AnnotationTable) -> NDArray[np.int64]:
    """The row of x that belongs to every annotation.

    Inputs with names are joined by item. A bare array goes row by row if it is as long as the table, and is indexed by
    item if items are integers; anything else is an error that names items without input.

    Returns
    -------
    numpy.ndarray of int64, shape (len(table),)
    """
    if inputs.kind == "none":
        return np.zeros(len(table), np.int64)
    items = table.frame["item"].cat.categories
    n, whole = len(inputs), bool(pd.api.types.is_integer_dtype(items.dtype))
    if inputs.names is not None:
        rows = rows_by_name(inputs.names, items.astype(str), paths=inputs.kind == "images", source=inputs.source)
    elif n == len(table):
        _warn_if_shuffled(inputs, table, whole)
        _warn_if_rows_differ(inputs, table)
        return np.arange(n, dtype=np.int64)
    elif whole:
        rows = items.to_numpy(np.int64)
        rows = np.where((rows >= 0) & (rows < n), rows, -1)
    else:
        raise DataError(
            f"{inputs.source} has {n} rows without names and {table.source} has {len(table)} rows whose items are not "
            f"integers, so they cannot be joined; give {_called(inputs)} one row per row of the table, or a column "
            "'item'."
        )
    _check_all_found(inputs, table, items, rows)
    _warn_if_shared(inputs, table, items, rows)
    unused = n - np.count_nonzero(np.bincount(rows))
    if unused:
        what = f"{unused} of {n} {'images' if inputs.kind == 'images' else 'rows'} of {inputs.source}"
        warnings.warn(f"{what} have no annotation and are not used.", DataWarning, stacklevel=2)
    joined: NDArray[np.int64] = np.asarray(rows, np.int64)[table.item_codes]
    return joined


def rows_by_name(
    names: NDArray[Any], items: "pd.Index[str]", *, paths: bool = False, source: str = "x"
) -> NDArray[np.int64]:
    """Row of x for every item, -1 where there is none.

    Parameters
    ----------
    names : array of str
        What the rows of x are called.
    items : pandas.Index of str
        What to look for.
    paths : bool
        Names are paths of files; an item may leave out the folder or the ending where that is not ambiguous.
    source : str
        What messages call x.
    """
    known: pd.Index[str] = pd.Index(np.asarray(names, dtype=np.str_).tolist())
    if not paths:
        return np.asarray(known.get_indexer(items), np.int64)
    rows = np.full(len(items), -1, np.int64)
    items = items.str.replace("\\", "/").str.removeprefix("./")
    forms: list[Callable[[PurePosixPath], str]] = [
        str,
        lambda path: str(path.with_suffix("")),
        lambda path: path.name,
        lambda path: path.stem,
    ]
    for form in forms:
        short: pd.Index[str] = pd.Index([form(PurePosixPath(name)) for name in known])
        repeated = short.duplicated(keep=False)
        ambiguous = np.flatnonzero((rows < 0) & items.isin(short[repeated]))
        if len(ambiguous):
            item = items[ambiguous[0]]
            which = known[short == item]
            raise DataError(
                f"the item {quoted(item)} could be {quoted(which[0])} or {quoted(which[1])} in {source}; "
                "write items as paths relative to that folder."
            )
        single = np.flatnonzero(~repeated)
        place = np.asarray(short[single].get_indexer(items))
        new = (rows < 0) & (place >= 0)
        rows[new] = single[place[new]]
    return rows


# --- joining ---


def _check_options_used(inputs: Inputs, columns: Any, text: str | None, image_size: Any, centre_crop: bool) -> None:
    """Raise for an option that means nothing for this kind of input, rather than leave it out of account."""
    tabular = inputs.kind in ("columns", "text")
    if not tabular and (columns or text):
        raise UsageError(
            f"{inputs.source} has no columns to choose from, so columns= (--x-columns) and text= (--x-text) cannot be "
            "used with it; leave them out."
        )
    if inputs.kind != "images" and image_size is not None:
        raise UsageError(f"{inputs.source} is not a folder of images; leave image_size= (--image-size) out.")
    if centre_crop and image_size is None:
        raise UsageError("centre_crop needs a size for all images; give image_size= (--image-size), such as 224.")


def _check_all_found(inputs: Inputs, table: AnnotationTable, items: Any, rows: NDArray[np.int64]) -> None:
    lost = np.flatnonzero(rows < 0)
    if not len(lost):
        return
    first = ", ".join(quoted(item) for item in items[lost[:5]].tolist())
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    if inputs.names is not None:
        has = f"its names are such as {shown('', str(inputs.names[0]))}"
    else:
        has = f"it has {len(inputs)} rows, numbered from 0"
    what = "probabilities" if inputs.kind == "probabilities" else "input"
    raise DataError(
        f"{inputs.source} has no {what} for {len(lost)} of the {len(items)} items of {table.source}: "
        f"{first}{more}; {has}. Add the {what.removesuffix('s')}s, correct the items or remove their rows."
    )


def _called(inputs: Inputs) -> str:
    return "them" if inputs.kind == "probabilities" else "x"


def _warn_if_shuffled(inputs: Inputs, table: AnnotationTable, whole: bool) -> None:
    """Warn where taking x row by row is the rule, yet the items are the numbers of its rows in another order."""
    n = len(table)
    items = table.frame["item"].cat.categories
    if not whole or len(items) != n:
        return
    order = items.to_numpy(np.int64)[table.item_codes]
    if (order != np.arange(n)).any() and (np.sort(order) == np.arange(n)).all():
        warnings.warn(
            f"{inputs.source} is taken row by row, because it has as many rows as {table.source}, although the items "
            "there are row numbers in another order; if x is meant by item, give it as .npz with 'x' and 'item'.",
            DataWarning,
            stacklevel=3,
        )


def _warn_if_rows_differ(inputs: Inputs, table: AnnotationTable) -> None:
    """Warn where x is taken row by row, yet rows of one item differ, by evenly spaced rows if there are very many."""
    names, items, row_numbers = table.frame["item"].cat.categories, table.item_codes, np.arange(len(table))
    first = np.zeros(len(names), np.int64)
    first[items[::-1]] = row_numbers[::-1]  # of an item's rows the one assigned last stays
    later = np.flatnonzero(first[items] != row_numbers)
    x = inputs.array
    assert isinstance(x, np.ndarray)  # images on disk have names
    for row in later[:: max(1, -(-len(later) // _COMPARED))].tolist():
        earlier = int(first[items[row]])
        if not np.allclose(x[row], x[earlier], rtol=1e-3, atol=1e-5):  # of one item computed twice
            (name,) = names[items[row : row + 1]].tolist()
            how = "as .npz with 'x' and 'item'" if inputs.kind == "array" else "a column 'item'"
            warnings.warn(
                f"{inputs.source} is taken row by row, because it has as many rows as {table.source}, although rows "
                f"{earlier} and {row} (counted from 0) are of one item ({quoted(name)}) and differ; "
                f"if x is meant by item, give it {how}.",
                DataWarning,
                stacklevel=3,
            )
            return


def _warn_if_shared(inputs: Inputs, table: AnnotationTable, items: Any, rows: NDArray[np.int64]) -> None:
    """Warn where items written differently are found to be one input."""
    shared = np.flatnonzero(np.bincount(rows) > 1)
    if not len(shared):
        return
    one, other = items[np.flatnonzero(rows == shared[0])[:2]].tolist()
    more = f" (so are those of {len(shared) - 1} more)" if len(shared) > 1 else ""
    warnings.warn(
        f"items {quoted(one)} and {quoted(other)} of {table.source} are one input of {inputs.source} and are taken for "
        f"two items{more}; write them alike.",
        DataWarning,
        stacklevel=3,
    )


# --- arrays ---


def _load_numpy(
    source: str | Path, keys: Sequence[str] = ("x",), mode: Literal["c", "r"] = "c"
) -> tuple[NDArray[Any], NDArray[np.str_] | None]:
    """An array and the names of its rows; of an archive the array under the first of these keys that it has."""
    path = Path(source)
    check_file(path)
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode=mode, allow_pickle=False), None
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            key = next((key for key in keys if key in archive), None)
            if key is None:
                raise UsageError(
                    f"{source} has no array '{keys[0]}' (it has: {listed(list(archive))}); save it under that name."
                )
            unused = [name for name in archive if name not in (key, "item")]
            if unused:
                what = "inputs" if key == "x" else "probabilities"
                warnings.warn(
                    f"{listed(unused, 5)} of {source} not used: {what} are '{key}' and their names 'item'; save what "
                    "is meant under these names.",
                    DataWarning,
                    stacklevel=3,
                )
            x, item = archive[key], archive.get("item")
            if not isinstance(x, np.ndarray) or not isinstance(item, np.ndarray | None):
                raise ValueError(f"its {'item' if isinstance(x, np.ndarray) else key} is not an array")
            return x, item
    except UsageError:
        raise
    except Exception as error:  # NumPy, zipfile and what decompresses raise all kinds for files that are damaged
        reason = "it holds Python objects or is damaged" if "pickle" in str(error) else first_line(error)
        raise DataError(
            f"{source} cannot be read as a plain NumPy file ({reason}); save numbers with numpy.save."
        ) from None


def _from_array(array: NDArray[Any], item: NDArray[Any] | None, source: str, *, finite: bool = True) -> Inputs:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{source} holds {listed([str(array.dtype)])} values; inputs must be numbers.")
    if array.ndim < 2 or 0 in array.shape:
        raise DataError(
            f"{source} has the shape {array.shape}; it must be (inputs, features) with at least one of each."
        )
    if array.dtype != native(array.dtype):
        with np.errstate(over="ignore"):
            array = array.astype(native(array.dtype))
    if finite:
        _check_finite(
            array, lambda row, rest: f"{source}, row {row}, column {', '.join(map(str, rest))} (counted from 0)"
        )
    names = None
    if item is not None:
        if item.ndim != 1 or item.dtype.kind in "cV":
            raise DataError(
                f"{source} has an 'item' of shape {item.shape} and type {listed([str(item.dtype)])}; it must be one "
                "number or text for each row of 'x'."
            )
        frame = open_source(pd.DataFrame({"item": _decoded(item, source)}))
        frame.name = source
        found = _complete_names(frame, "item")
        if len(found.codes) != len(array):
            raise DataError(f"{source} has {len(array)} rows in 'x' and {len(item)} in 'item'; there must be as many.")
        _check_repeated(frame, "item", found)
        names = np.asarray(as_text(found.names).to_pylist(), dtype=np.str_)
    return Inputs(array, names, "array", _schema("array", array), source=source)


def _decoded(item: NDArray[Any], source: str) -> NDArray[Any]:
    """Names of inputs as text where they are bytes."""
    try:
        if item.dtype.kind == "S":
            return np.array([name.decode("utf-8") for name in item.tolist()], dtype=object)
        if item.dtype.kind != "U":
            return item
        if item.nbytes and np.ascontiguousarray(item, native(item.dtype)).view(np.uint32).max() > _MAX_CODE:
            raise ValueError("a number that is no character")
        names = item.tolist()
        "".join(names).encode()
        return np.array(names, dtype=object)
    except ValueError:
        raise DataError(f"{source} has names in 'item' that are not UTF-8 text; write them as that.") from None


def _check_finite(array: NDArray[Any], place: Callable[[int, tuple[int, ...]], str]) -> None:
    """Raise for the first NaN or infinite value, or one that float32 cannot hold, looking at 16 MB at a time."""
    if array.dtype.kind != "f":
        return
    step = max(1, (16 << 20) // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        with np.errstate(over="ignore"):
            usable = np.isfinite(array[start : start + step].astype(np.float32, copy=False))
        if usable.all():
            continue
        row, *rest = (int(index) for index in np.argwhere(~usable)[0])
        value = array[(start + row, *rest)]
        where = place(start + row, tuple(rest))
        if np.isfinite(value):
            raise DataError(f"{where}: {value:.3g} is beyond what pidual calculates with (3.4e38); scale the inputs.")
        raise DataError(f"{where}: the value is {value}; replace missing and infinite values, or remove the input.")


# --- probabilities ---


def _columns_of(source: Source, classes: Sequence[str | int] | int) -> list[str] | None:
    """Columns that are named as the classes, in their order; None where there is not one for each."""
    for form in ("{}", "p_{}"):
        columns = [] if isinstance(classes, int) else [form.format(one) for one in classes]
        if columns and all(column in source for column in columns):
            return columns
    return None


def _check_probabilities(array: NDArray[Any], classes: Sequence[str | int] | int, source: str) -> None:
    """Raise for another number of columns than classes, and for the first row that is no distribution over them."""
    n = classes if isinstance(classes, int) else len(classes)
    if array.ndim != 2 or array.shape[1] != n:
        has = f"{array.shape[1]} columns" if array.ndim == 2 else f"the shape {array.shape}"
        named = "" if isinstance(classes, int) else f" ({listed([str(one) for one in classes], 5)})"
        raise DataError(
            f"{source} has {has} and the labels have {n} classes{named}; give one column of probabilities for each "
            "class, in this order."
        )
    step, ones = max(1, _CHECKED // n), np.ones(n, np.float32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # NumPy takes long for small ones
    for start in range(0, len(array), step):
        block = np.asarray(array[start : start + step])
        with np.errstate(over="ignore", invalid="ignore"):
            block = halves[block.view(np.uint16)] if block.dtype == np.float16 else block.astype(np.float32, copy=False)
            fine = (np.abs(block @ ones - 1) <= SUM_TOLERANCE) & (block.min(1) >= 0)
        if not fine.all():
            row = int(np.argmin(fine))
            _refuse_row(block[row], f"{source}, row {start + row} (counted from 0)")
        if (start // step) % 64 == 63:
            release(array)


def _refuse_row(row: NDArray[np.floating[Any]], place: str) -> None:
    """Say what is wrong with a row of probabilities."""
    strange = np.flatnonzero(~np.isfinite(row))
    if len(strange):
        raise DataError(
            f"{place}, column {strange[0]}: the probability is {row[strange[0]]}; predict it again, or remove the item."
        )
    outside = np.flatnonzero((row < 0) | (row > 1 + SUM_TOLERANCE))
    if len(outside):
        raise DataError(
            f"{place}, column {outside[0]}: {row[outside[0]]:.4g} is no probability; if these are logits, give their "
            "softmax."
        )
    raise DataError(f"{place}: the probabilities sum to {row.sum():.4g}, not to 1; divide each row by its sum.")


# --- columns and text ---


def _from_source(
    source: Source,
    item: str | None,
    repeats: bool,
    columns: Sequence[str] | None,
    text: str | None,
    schema: dict[str, Any] | None,
    tensors: dict[str, NDArray[Any]] | None,
    *,
    finite: bool = True,
) -> Inputs:
    """Read columns or text from a table, in which an item may have several rows if `repeats`.

    Numbers are checked to be finite if `finite`.
    """
    if columns and text:
        raise UsageError("inputs are numbers or text: give columns= (--x-columns) or text= (--x-text), not both.")
    chosen = [text] if text else _choose(source, item, columns, schema)
    for column in chosen:
        source.require(column, "asked for as input")
    if columns and schema is None:
        _refuse_people(source, [column for column in chosen if _holds_people(source, column)])
    data = source.read(chosen, numeric=() if text else chosen)
    if len(data[chosen[0]]) == 0:
        raise DataError(f"{source.name} has no rows; inputs need one row per item.")
    if text and schema is None:
        some = as_text(keys(source, text, data[text][:1000]).names).to_pylist()
        addresses = sum(map(is_address, some)) > len(some) / 2  # a column called `email` may hold the texts of e-mails
        _refuse_people(source, [text] if names_annotator(text) or addresses else [])
    if not columns and not text:
        _warn_of_ids(source, data)
    names, rows = None, None  # rows None: all
    if item is not None:
        found = _complete_names(source, item)
        rows = _first_rows(source, found.codes, data) if repeats else None
        names = np.asarray(as_text(found.names).to_pylist(), dtype=np.str_)
        if not repeats:
            _check_repeated(source, item, found)
    if rows is not None:
        data = {column: values.take(pa.array(rows)) for column, values in data.items()}
    if text:
        array, fitted, tensors = _encode_text(source, text, data[text], schema, tensors)
    else:
        array, fitted, tensors = _numbers(source, data, rows, finite), {"columns": chosen}, {}
    fitted |= {} if item == source.find("item", "task") else {"item": item}
    kind = "text" if text else "columns"
    digest = _text_digest(data[text]) if text else None
    return Inputs(array, names, kind, _schema(kind, array) | fitted, tensors, source.name, digest)


def _choose(
    source: Source, item: str | None, columns: Sequence[str] | None, schema: dict[str, Any] | None
) -> list[str]:
    """The numeric columns to use: those asked for, else all but the names of the items and what belongs to labels."""
    if columns:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        lost = [column for column in chosen if column not in source]
        if lost and schema is not None:
            raise DataError(
                f"{source.name} has {len(chosen) - len(lost)} of the {len(chosen)} features the model was trained "
                f"with; there is no column {quoted(lost[0])}."
            )
        if len(set(chosen)) < len(chosen):
            raise UsageError(f"the list of input columns of {source.name} names a column twice; list it once.")
        return chosen
    numeric = [column for column in source.numeric_columns() if column not in (item, *_INDEX_COLUMNS)]
    people = [column for column in numeric if _holds_people(source, column)]
    chosen = [column for column in numeric if column.casefold() not in _NOT_FEATURES and column not in people]
    if not chosen:
        raise DataError(
            f"{source.name} has no numeric column to use as input (its columns: {listed(source.columns)}); "
            "name numeric columns with columns= (--x-columns), or a column of text with text= (--x-text)."
        )
    if people:
        warnings.warn(
            f"{listed(people)} of {source.name} not used as input: who gave a label, or any other person, is no "
            "input; rename a column that holds no people.",
            DataWarning,
            stacklevel=4,
        )
    left = [column for column in numeric if column.casefold() in _NOT_FEATURES[2:]]
    if left:
        warnings.warn(
            f"{listed(left)} of {source.name} not used as input: an annotation table has columns of that name; "
            "list columns to use them all the same.",
            DataWarning,
            stacklevel=4,
        )
    mixed = [column for column in source.mixed_columns() if column.casefold() not in _NOT_FEATURES and column != item]
    mixed = [column for column in mixed if not names_people(column)]
    if mixed:
        warnings.warn(
            f"{listed(mixed)} of {source.name} not used as input: not every value is a number; correct the values, "
            "or list the columns to use.",
            DataWarning,
            stacklevel=4,
        )
    known = {item, *numeric, *mixed, *_INDEX_COLUMNS}
    rest = [column for column in source.columns if column not in known and column.casefold() not in _NOT_FEATURES]
    rest = [column for column in rest if not names_people(column) and not is_address(column)]
    if rest:
        warnings.warn(
            f"{listed(rest, 5)} of {source.name} not used as input: not numbers; write them as numbers (True as 1), or "
            "list the columns to use.",
            DataWarning,
            stacklevel=4,
        )
    return chosen


def _holds_people(source: Source, column: str) -> bool:
    """Whether a column is one of people; it is read only where its name speaks of them."""
    if has_address(column):  # a column for somebody's answers
        return True
    if not names_people(column) or source.columns.count(column) > 1:
        return False
    return holds_people(column, pd.Series(read_values(source, column, source.read([column])[column])))


def _refuse_people(source: Source, people: list[str]) -> None:
    """Raise for columns of people asked for as input."""
    if people:
        raise UsageError(
            f"column {people[0]!r} of {source.name} holds people, and who gave a label, or any other person, is no "
            "input; leave it out (--pi is the place for it), or rename it if it holds no people."
        )


def _warn_of_ids(source: Source, data: dict[str, Any]) -> None:
    """Warn of columns among those used by default that look like names of rows."""
    for column, values in data.items():
        if not re.fullmatch(_ID_NAME, column) or pa.types.is_boolean(values.type):
            continue
        integer = pa.types.is_integer(values.type)
        numbers = values if integer else as_floats(values)
        whole = integer or pc.all(pc.equal(numbers, pc.floor(numbers))).as_py()
        if whole and pc.count_distinct(numbers, mode="all").as_py() == len(numbers):
            warnings.warn(
                f"{listed([column])} of {source.name} is used as input; if it names the items, use item= (--item) or "
                "call it 'item', else list the columns to use.",
                DataWarning,
                stacklevel=4,
            )


def _numbers(
    source: Source, data: dict[str, Any], rows: NDArray[np.int64] | None, finite: bool = True
) -> NDArray[np.float32]:
    """Columns side by side as float32."""
    array = np.empty((len(next(iter(data.values()))), len(data)), np.float32)
    for place, (column, values) in enumerate(data.items()):
        try:
            numbers = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values
            with np.errstate(over="ignore"):
                array[:, place] = as_floats(numbers).to_numpy()
        except pa.ArrowException as error:
            why = "" if hides(column, str(error)) else f" ({first_line(error)})"
            raise DataError(
                f"{source.name}, column {quoted(column)} does not hold numbers{why}; choose others."
            ) from None
    chosen = list(data)

    def place_of(row: int, rest: tuple[int, ...]) -> str:
        return f"{source.place(int(rows[row]) if rows is not None else row)}, column {quoted(chosen[rest[0]])}"

    if finite:
        _check_finite(array, place_of)
    return array


def _encode_text(
    source: Source,
    column: str,
    values: Any,
    schema: dict[str, Any] | None,
    tensors: dict[str, NDArray[Any]] | None,
) -> tuple[NDArray[np.float32], dict[str, Any], dict[str, NDArray[Any]]]:
    """Text as dense vectors: TF-IDF of words and word pairs, then truncated SVD."""
    from sklearn.decomposition import TruncatedSVD  # slow to import, and needed for text only
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    texts = pc.fill_null(as_text(values), "").to_pylist()
    blank = sum(not text.strip() for text in texts)
    if blank:
        warnings.warn(f"{blank} of {len(texts)} texts in {source.name} are empty.", DataWarning, stacklevel=4)
    options: dict[str, Any] = {"ngram_range": (1, 2), "sublinear_tf": True, "dtype": np.float32}
    if schema is not None:
        if not tensors:
            raise UsageError("inputs of text for prediction need the tensors the model was trained with.")
        terms = schema["vocabulary"]
        vectoriser = TfidfVectorizer(vocabulary=terms, **options)
        vectoriser.idf_ = tensors["idf"]
        components = tensors["components"]
        weights = vectoriser.transform(texts)
    else:
        vectoriser = TfidfVectorizer(max_features=N_TERMS, **options)
        try:
            weights = vectoriser.fit_transform(texts)
        except ValueError:
            raise DataError(f"{source.name}, column {quoted(column)} holds no words; name a column of text.") from None
        with threadpool_limits(1):  # so that the features do not depend on the number of threads
            svd = TruncatedSVD(min(N_TEXT_FEATURES, *weights.shape), random_state=0).fit(weights)
        # Directions the texts do not have hold rounding errors, which standardising would make as large as the rest.
        real = svd.singular_values_ > NO_DIRECTION * svd.singular_values_.max()
        components = svd.components_[real].astype(np.float32)
        terms = vectoriser.get_feature_names_out().tolist()
    fitted = {"text": column, "vocabulary": terms}
    kept = {"idf": vectoriser.idf_.astype(np.float32), "components": components}
    return np.asarray(weights @ components.T, np.float32), fitted, kept


def _text_digest(values: Any) -> str:
    """A digest of texts, each with its length: computed features differ by the last bits between machines."""
    digest = hashlib.blake2b(digest_size=16)
    for text in pc.fill_null(as_text(values), "").to_pylist():
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def _first_rows(source: Source, codes: NDArray[np.int32], data: dict[str, Any]) -> NDArray[np.int64]:
    """The first row of each item; its other rows must hold the same."""
    _, first = np.unique(codes, return_index=True)
    for column, values in data.items():
        same = pc.fill_null(pc.equal(values, values.take(pa.array(first[codes]))), True).to_numpy()
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            raise DataError(
                f"{source.place(row)}, column {quoted(column)}: {shown(column, str(values[row]))} differs from an "
                "earlier row of the same item; an input must be the same in all rows of its item."
            )
    return first


def _complete_names(source: Source, item: str) -> Keys:
    """The items of a table, none of them missing."""
    found = keys(source, item, source.read([item])[item])
    missing = np.flatnonzero(found.codes < 0)
    if len(missing):
        raise DataError(f"{source.place(int(missing[0]))}, column {quoted(item)}: the item is missing; fill it in.")
    return found


def _check_repeated(source: Source, item: str, found: Keys) -> None:
    """Raise if two rows have the same name; else names are in row order, for that is the order of first appearance."""
    if len(found.names) < len(found.codes):
        second = int(np.flatnonzero(pd.Index(found.codes).duplicated())[0])
        first = int(np.flatnonzero(found.codes == found.codes[second])[0])
        name = shown(item, found.names[found.codes[second]].as_py())
        raise DataError(
            f"{source.place(second)}, column {quoted(item)}: {name} was named before ({source.place(first)}); "
            "x has one row per item, so remove one of them."
        )


# --- images ---


def _from_folder(source: str | Path, image_size: int | Sequence[int] | None, centre: bool, max_bytes: int) -> Inputs:
    folder = Path(source)
    found = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS and not path.is_dir())
    files = sorted(
        path.as_posix()
        for path in (path.relative_to(folder) for path in found)
        if not any(part.startswith(".") for part in path.parts)
    )
    unreadable = [name for name in files if not name.isascii() and not _is_text(name)]
    if unreadable:
        raise DataError(
            f"{source} has a file whose name is not UTF-8 ({quoted(unreadable[0])}), so no table names it; rename it."
        )
    if not files:
        raise DataError(f"{source} has no images in it or in its folders; pidual reads {', '.join(IMAGE_ENDINGS)}.")
    size = None
    if image_size is not None:
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        size = (int(height), int(width))
        if math.prod(size) > MAX_PIXELS:
            raise UsageError(
                f"images of {height}x{width} pixels are larger than pidual works with ({MAX_PIXELS / 1e6:.0f} million "
                "pixels); choose a smaller image_size= (--image-size), such as 224."
            )
    shown = size or _decode(folder / files[0], None, None).shape[1:]
    images = LazyImages(folder, files, (shown[0], shown[1]), resize=size is not None, centre=centre)
    array: NDArray[Any] | LazyImages = images
    if np.prod(images.shape, dtype=float) <= max_bytes:
        array = images.take(np.arange(len(files)))
    else:
        images.check()
    schema = _schema("images", images) | {"image_size": list(images.shape[2:])}
    schema |= {"centre_crop": True} if centre else {}
    return Inputs(array, np.asarray(files, dtype=np.str_), "images", schema, source=str(source))


def _decode(
    path: Path, size: tuple[int, int] | None, expected: tuple[int, int] | None, centre: bool = False
) -> NDArray[np.uint8]:
    """An image as uint8 (3, H, W), upright, in RGB."""
    with _opened(path) as opened:
        image = _upright(opened)
        if size is not None:
            method = Image.Resampling.BICUBIC if centre else Image.Resampling.BILINEAR
            border = (1 - CENTRE) / 2 if centre else 0.0
            image = ImageOps.fit(image, (size[1], size[0]), method, border)
        pixels = np.asarray(image).transpose(2, 0, 1)
    if expected is not None and (image.height, image.width) != expected:
        raise DataError(
            f"{path} is {image.height}x{image.width} pixels and the first image {expected[0]}x{expected[1]}; "
            "choose one size for all with image_size= (--image-size)."
        )
    return pixels


def _upright(opened: Image.Image) -> Image.Image:
    """An opened image turned as its camera was, in RGB."""
    opened.load()
    ImageOps.exif_transpose(opened, in_place=True)
    image = opened
    if image.mode.startswith("I"):  # 16 bits of grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """An image of a format that Pillow decodes by itself and of a size that memory holds, with errors that name it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep us waiting
            raise OSError("it is not a regular file")
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(path, formats=IMAGE_FORMATS)
        with opened:
            pixels = opened.width * opened.height
            if pixels > MAX_PIXELS:
                raise Image.DecompressionBombError
            with _LARGE if pixels > LARGE_PIXELS else contextlib.nullcontext():
                yield opened
    except (DataError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(
            f"{path} has more than the {MAX_PIXELS / 1e6:.0f} million pixels that pidual reads in an image; shrink it, "
            "for example with Pillow's Image.thumbnail((4000, 4000)), or remove the file."
        ) from None
    except FileNotFoundError:
        raise DataError(f"{path} is a link to a file that does not exist; replace or remove it.") from None
    except Exception as error:  # Pillow's decoders raise all kinds for files that are damaged
        reason = first_line(error).replace(str(path), path.name)
        raise DataError(f"{path} cannot be read as an image ({reason}); replace or remove the file.") from None


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# --- schema ---


def _schema(kind: str, array: Any) -> dict[str, Any]:
    return {"kind": kind, "shape": [int(size) for size in array.shape[1:]]}


def _like_schema(inputs: Inputs, schema: dict[str, Any] | None) -> Inputs:
    """`inputs`, if rows have the shape the schema says."""
    if schema is not None and inputs.schema["shape"] != schema["shape"]:
        expected, found = ("x".join(map(str, shape["shape"])) for shape in (schema, inputs.schema))
        raise DataError(
            f"{inputs.source} has {found} features per input where the model was trained with {expected}; "
            "give inputs made in the same way."
        )
    return inputs
