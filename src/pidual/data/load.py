"""Read inputs: an array, a table's columns, a folder of images or a column of text.

inputs = load_inputs("features.parquet")
rows = x_rows(inputs, table)          # inputs.array[rows[i]] belongs to annotation i
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import first_line
from ..files import fingerprint
from .embedding import Embedder, Items, Progress, embed_inputs
from .features import inputs_from_source
from .images import IMAGE_ENDINGS, MAX_BYTES, MAX_SIDE, LazyImages, check_size, find_images, read_folder
from .inputs import Inputs, schema_of, shape_as_given
from .opening import KINDS, open_source
from .paths import check_file, find_files, is_folder
from .people import listed
from .probabilities import check_probabilities, columns_of
from .roles import find_item
from .sources import Source


def load_inputs(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    text: str | None = None,
    item: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    centre_crop: bool = False,
    schema: dict[str, Any] | None = None,
    tensors: dict[str, NDArray[Any]] | None = None,
    max_bytes: int = MAX_BYTES,
    embed: Embedder | None = None,
    progress: Progress | None = None,
) -> Inputs:
    """Read inputs: an array, columns of numbers, a folder of images, or a column of text.

    Parameters
    ----------
    source : path, array or DataFrame
        A .npy file (memory-mapped), a .npz file with `x` and optionally `item`, a CSV, Parquet or JSON Lines file, a
        folder of parts of one or of images, or an array or frame in memory.
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
    schema : dict, optional
        `Inputs.schema` of the inputs a model was trained with; it replaces the other options.
    tensors : dict, optional
        Their `Inputs.tensors`.
    max_bytes : int
        Images that need more memory than this stay on disk.
    embed : str, path or callable, optional
        A model that turns texts or pictures into vectors: the name of one on the Hugging Face hub, a folder that
        sentence-transformers reads, "timm:NAME", "torchvision:NAME", an ONNX file, or a function from a list of texts
        or of pictures (`PIL.Image.Image`) to an array; "package.module:function" names one. Each item is embedded once,
        and its vector is kept for the next time. Beside `schema`: the model again, where that is not on the hub.
    progress : callable, optional
        Called with how many items are embedded, and how many there are.

    Returns
    -------
    Inputs
        One row per input.

    See Also
    --------
    read_table : Read the labels.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from pidual import load_inputs, make_crowd
    >>> crowd = make_crowd(60)
    >>> np.save("features.npy", crowd.x)
    >>> load_inputs("features.npy")
    Inputs(60 rows of shape 10, float32, kind 'array')
    >>> boxes = pd.DataFrame(crowd.x[:, :2], columns=["width", "height"])
    >>> load_inputs(boxes, columns=["width"])
    Inputs(60 rows of shape 1, float32, kind 'columns')
    """
    if schema is not None:
        if schema["kind"] == "none":
            raise UsageError(
                "the run was fitted without inputs (--no-x), so it cannot predict; fit with --x or --probs."
            )
        if schema["kind"] == "probabilities":
            return _like_schema(load_probabilities(source, schema["shape"][0], item=item), schema)
        columns, text, image_size = schema.get("columns"), schema.get("text"), schema.get("image_size")
        item, centre_crop = schema.get("item"), schema.get("centre_crop", False)
    embeds = embed is not None if schema is None else schema.get("embed") is not None
    if isinstance(source, np.ndarray):
        inputs = Inputs.from_array(source, schema=schema)
    elif isinstance(source, str | Path) and is_folder(source) and not _is_table(source):
        inputs = _from_folder(source, image_size, centre_crop, max_bytes, embeds)
    elif _is_numpy(source):
        inputs = Inputs.from_array(*load_numpy(source), source=str(source), schema=schema)
    else:
        opened = open_source(source, items=True)
        inputs = inputs_from_source(opened, _names_of_rows(opened, item), False, columns, text, schema, tensors)
    if schema is None:
        _check_options_used(inputs, columns, text, image_size, centre_crop)
    return _like_schema(_embedded(inputs, embed, schema, tensors, progress), schema)


def table_inputs(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    text: str | None = None,
    item: str | None = None,
    schema: dict[str, Any] | None = None,
    tensors: dict[str, NDArray[Any]] | None = None,
    embed: Embedder | None = None,
    progress: Progress | None = None,
) -> Inputs:
    """Read inputs from columns of the annotation table itself, each item stored once.

    Parameters
    ----------
    source : path, pandas.DataFrame or Source
        The table, as for `read_table`.
    columns, text, schema, tensors, embed, progress
        As for `load_inputs`; one of `columns`, `text` and `schema` must be given.
    item : str, optional
        The column of items; by default `item` or `task`. Without one, every row is an input of its own.
    """
    if schema is not None:
        columns, text = schema.get("columns"), schema.get("text")
    if not columns and not text:
        raise UsageError("inputs from the table itself need columns= (--x-columns) or text= (--x-text) to say which.")
    opened = source if isinstance(source, Source) else open_source(source)
    inputs = inputs_from_source(opened, find_item(opened, item), True, columns, text, schema, tensors)
    return _like_schema(_embedded(inputs, embed, schema, tensors, progress), schema)


def load_probabilities(
    source: Any, classes: Sequence[str | int] | int, *, item: str | None = None, sets: bool = False
) -> Inputs:
    """Read what a classifier says about every class, one row per item: probabilities that sum to one.

    `source`: a .npy file (memory-mapped), a .npz file with `pred_probs` (or `x`) and optionally `item`, a CSV, Parquet
        or JSON Lines file with a column for every class, or an array or frame in memory. Columns are in the order of
        the classes, sorted; those of a table may be in any order if they are named as the classes, or p_CLASS.
    `classes`: the classes (`AnnotationTable.classes`), or how many there are.
    `item`: the column that names the rows; by default `item` or `task` where there is one.
    `sets`: each class has a probability of its own, as where labels are sets: they need not sum to one.
    """
    if isinstance(source, np.ndarray):
        read = Inputs.from_array(source, kind="probabilities", source="pred_probs")
    elif _is_numpy(source):
        array, names = load_numpy(source, ("pred_probs", "x"), mode="r")
        read = Inputs.from_array(array, names, kind="probabilities", source=str(source))
    else:
        opened = open_source(source)
        columns, named = columns_of(opened, classes), _names_of_rows(opened, item)
        read = inputs_from_source(opened, named, False, columns, None, None, None, finite=False)
        assert isinstance(read.array, np.ndarray)
        read = Inputs.from_array(read.array, read.names, kind="probabilities", source=read.source)
    assert isinstance(read.array, np.ndarray)
    check_probabilities(read.array, classes, read.source, sets=sets)
    return read


def _names_of_rows(opened: Source, item: str | None) -> str | None:
    """Return the column that names the rows: `item` if there is one of that name, else a usual one."""
    return item if item is not None and item in opened else opened.find("item", "task")


def _is_table(folder: str | Path) -> bool:
    """Return whether a folder holds parts of a table, and no images."""
    if any(path.suffix.lower() in IMAGE_ENDINGS for path in Path(folder).rglob("*")):
        return False
    return any(file.kind in KINDS for file in find_files(folder))


def _is_numpy(source: Any) -> TypeGuard[str | Path]:
    return isinstance(source, str | Path) and Path(source).suffix.lower() in (".npy", ".npz")


def load_numpy(
    source: str | Path, keys: Sequence[str] = ("x",), mode: Literal["c", "r"] = "c"
) -> tuple[NDArray[Any], NDArray[np.str_] | None]:
    """Read an array and the names of its rows; of an archive the array under the first of these keys that it has."""
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
                what = f"{'inputs' if key == 'x' else 'probabilities'} are '{key}' and their names 'item'"
                text = f"{listed(unused, 5)} of {source} not used: {what}; save what is meant under these names."
                warnings.warn(text, DataWarning, stacklevel=3)
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


def _embedded(
    inputs: Inputs,
    named: Embedder | None,
    schema: dict[str, Any] | None,
    tensors: dict[str, NDArray[Any]] | None,
    progress: Progress | None,
) -> Inputs:
    """Return inputs with the vectors of a model, where one is named, or was in the fit of a schema."""
    if schema is not None and schema.get("embed") is None and named is not None:
        raise UsageError("the inputs of the fit were not embedded; leave embed= (--embed) out.")
    if named is None and (schema is None or schema.get("embed") is None):
        return inputs
    if inputs.kind == "text":
        items = Items.of_texts(pc.fill_null(inputs.texts, "").to_pylist(), inputs.source)
    elif inputs.kind == "images":
        assert inputs.names is not None
        how = check_size(inputs.schema.get("image_size")), inputs.schema.get("centre_crop", False)
        items = Items.of_files(Path(inputs.source), inputs.names.tolist(), *how)
        inputs = replace(inputs, pictures=inputs.array, fingerprint=fingerprint(items.digests.tolist()))
    else:
        assert isinstance(inputs.array, np.ndarray)
        items = Items.of_array(inputs.array, inputs.source)
        inputs = replace(inputs, pictures=inputs.array, fingerprint=inputs.digest())
    return embed_inputs(inputs, items, named, schema, tensors, progress)


def _from_folder(
    source: str | Path, image_size: int | Sequence[int] | None, centre_crop: bool, max_bytes: int, embeds: bool
) -> Inputs:
    if embeds:  # by their files, of any size; what people see of them is small
        files, size = find_images(source), check_size(image_size)
        shown = LazyImages(Path(source), files, (MAX_SIDE, MAX_SIDE), resize=True)
        schema = schema_of("images", shown) | ({"image_size": list(size)} if size else {})
        schema |= {"centre_crop": True} if centre_crop else {}
        return Inputs(shown, np.asarray(files, dtype=np.str_), "images", schema, source=str(source))
    array, files = read_folder(source, image_size, centre_crop, max_bytes)
    schema = schema_of("images", array) | {"image_size": list(array.shape[2:])}
    schema |= {"centre_crop": True} if centre_crop else {}
    return Inputs(array, np.asarray(files, dtype=np.str_), "images", schema, source=str(source))


def _check_options_used(inputs: Inputs, columns: Any, text: str | None, image_size: Any, centre_crop: bool) -> None:
    """Raise for an option that means nothing for this kind of input, rather than leave it out of account."""
    if inputs.kind not in ("columns", "text") and (columns or text):
        raise UsageError(f"{inputs.source} has no columns; leave columns= (--x-columns) and text= (--x-text) out.")
    if inputs.kind != "images" and image_size is not None:
        raise UsageError(f"{inputs.source} is not a folder of images; leave image_size= (--image-size) out.")
    if centre_crop and image_size is None:
        raise UsageError("centre_crop needs a size for all images; give image_size= (--image-size), such as 224.")


def _like_schema(inputs: Inputs, schema: dict[str, Any] | None) -> Inputs:
    """Check that rows have the shape the schema says."""
    if schema is not None and inputs.schema["shape"] != schema["shape"]:
        expected, found = ("x".join(map(str, shape_as_given(one))) for one in (schema, inputs.schema))
        what = f"{inputs.source} has {found} features per input where the model was trained with {expected}"
        raise DataError(f"{what}; give inputs made in the same way.")
    return inputs
