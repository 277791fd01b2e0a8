"""The inputs x: one row per item, whatever they were made from.

`inputs.schema` and `inputs.tensors` are what a model keeps to read inputs for prediction in the same way. For missing
numbers the median of their column stands, and a column more says where they were; the schema of the inputs to train on
says which columns have such numbers, {"columns": [2, 5], "medians": [0.5, 12.0]}, so that inputs for prediction get the
same columns.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, DataWarning
from ..files import fingerprint, release
from .images import LazyImages
from .people import listed
from .row_names import row_names
from .sources.in_arrow import native

Place = Callable[[int, tuple[int, ...]], str]


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs x, one row per input; made by `load_inputs` or `from_array`.

    Parameters
    ----------
    array : array or LazyImages
        Shape (n, ...); images are uint8 (n, 3, H, W). It may be memory-mapped.
    names : array of str or None
        The item each row belongs to; None for a bare array.
    kind : str
        "array", "columns", "images" or "text"; "probabilities" where a row is what a classifier says about the classes,
        "none" where there is no x at all.
    schema : dict
        JSON-able; given back to `load_inputs` it reads inputs for prediction in the same way.
    tensors : dict of arrays
        Fitted arrays to keep with the model; empty unless `kind` is "text" or a model has made vectors.
    source : str
        Name of the inputs in messages.
    fingerprint : str, optional
        Digest of what the array was computed from, where it was: the same on any machine.
    texts : pyarrow array of text, optional
        What each row of `array` was made from, where `kind` is "text".
    pictures : array or LazyImages, optional
        The same, where a model has made vectors of pictures.

    See Also
    --------
    load_inputs : Reads them from files and frames.
    AnnotationTable : The labels.

    Examples
    --------
    >>> import numpy as np
    >>> from pidual import Inputs, make_crowd
    >>> crowd = make_crowd(60)
    >>> x = Inputs.from_array(crowd.x, names=np.array([f"photo-{row}" for row in range(60)]))
    >>> x
    Inputs(60 rows of shape 10, float32, kind 'array')
    >>> x.names[:2].tolist()
    ['photo-0', 'photo-1']
    """

    array: NDArray[Any] | LazyImages
    names: NDArray[np.str_] | None
    kind: str
    schema: dict[str, Any]
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    source: str = "x"
    fingerprint: str | None = None
    texts: Any = None
    pictures: NDArray[Any] | LazyImages | None = None

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.array.shape[1:]))
        return f"Inputs({len(self):,} rows of shape {shape or 'none'}, {self.array.dtype}, kind {self.kind!r})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    @classmethod
    def from_array(
        cls,
        x: NDArray[Any],
        names: NDArray[Any] | None = None,
        *,
        kind: str = "array",
        source: str = "x",
        schema: dict[str, Any] | None = None,
    ) -> "Inputs":
        """Make inputs from an array.

        Parameters
        ----------
        x : array (n, ...)
            Numbers, one row per input. In an array of two dimensions they may be missing (NaN): the median of the
            column stands for them, and a column of 0 and 1 beside the others says where they were. Infinite ones are an
            error; `kind` "probabilities" has checks of its own. It may be memory-mapped.
        names : array (n,), optional
            The item each row belongs to, each once; without them rows count by number.
        kind : str
            What the numbers are, where they are not just an array.
        source : str
            Name of the inputs in messages.
        schema : dict, optional
            Of the inputs a model was trained with.
        """

        def place(row: int, rest: tuple[int, ...]) -> str:
            return f"{source}, row {row}, column {', '.join(map(str, rest))} (counted from 0)"

        x, gaps = _check_array(x, source), dict[str, Any]()
        if kind != "probabilities":
            x, gaps = fill_missing(x, schema, place, source)
        found = None if names is None else row_names(names, len(x), source)
        return cls(x, found, kind, schema_of(kind, x) | gaps, source=source)

    def digest(self) -> str:
        """Return a digest of x, of evenly spaced rows where it is very large, to recognise the same file."""
        if self.fingerprint is not None:
            return self.fingerprint
        x, n = self.array, len(self)
        rows = np.arange(0, n, max(1, (x.nbytes if isinstance(x, np.ndarray) else n * 2**20) // 2**28))

        def parts() -> Iterator[bytes]:
            for part in np.array_split(rows, max(1, len(rows) // 4096)):
                yield np.ascontiguousarray(x[part] if isinstance(x, np.ndarray) else x.take(part)).tobytes()
                release(x)

        return fingerprint(parts())


def no_inputs() -> Inputs:
    """Return what stands for x where there is none."""
    return Inputs.from_array(np.zeros((1, 1), np.float32), kind="none", source="no x")


def shape_as_given(schema: Mapping[str, Any]) -> list[int]:
    """Return the shape of an input as it comes, without the columns that say what was missing."""
    first, *rest = schema["shape"]
    return [first - len(schema.get("missing", {"columns": []})["columns"]), *rest]


def feature_names(schema: Mapping[str, Any]) -> list[str]:
    """Return what the numbers of an input are called, last those that say what was missing."""
    names = schema.get("columns") or [f"column {number}" for number in range(shape_as_given(schema)[0])]
    return [*names, *(f"{names[number]} is missing" for number in schema.get("missing", {"columns": []})["columns"])]


def schema_of(kind: str, array: NDArray[Any] | LazyImages) -> dict[str, Any]:
    """Return what a model keeps of its inputs at the least: their kind, and the shape of one."""
    return {"kind": kind, "shape": [int(size) for size in array.shape[1:]]}


# --- numbers that a network can calculate with ---


def _check_array(array: NDArray[Any], source: str) -> NDArray[Any]:
    """Return the array in this machine's types, where it can be inputs by its shape and type."""
    if array.dtype.kind not in "fiub":
        raise DataError(f"{source} holds {listed([str(array.dtype)])} values; inputs must be numbers.")
    if array.ndim < 2 or 0 in array.shape:
        raise DataError(f"{source} has the shape {array.shape}; it must be (inputs, features), at least one of each.")
    if array.dtype != native(array.dtype):
        with np.errstate(over="ignore"):
            array = array.astype(native(array.dtype))
    return array


def _check_finite(array: NDArray[Any], place: Place, *, missing: bool = False) -> NDArray[np.int64]:
    """Raise for the first infinite value, or one that float32 cannot hold, looking at 16 MB at a time.

    So is NaN unless values may be missing; the columns that hold it are returned.
    """
    if array.dtype.kind != "f":
        return np.empty(0, np.int64)
    step, holds = max(1, (16 << 20) // max(1, array[:1].nbytes)), np.zeros(array.shape[1], bool)
    for start in range(0, len(array), step):
        with np.errstate(over="ignore"):
            part = array[start : start + step].astype(np.float32, copy=False)
        usable = np.isfinite(part)
        release(array)
        if missing and not usable.all():
            holds |= np.isnan(part).any(axis=0)
            usable |= np.isnan(part)
        if usable.all():
            continue
        row, *rest = (int(index) for index in np.argwhere(~usable)[0])
        value = array[(start + row, *rest)]
        where = place(start + row, tuple(rest))
        if np.isfinite(value):
            raise DataError(f"{where}: {value:.3g} is too large for pidual (limit 3.4e38); scale the inputs.")
        raise DataError(f"{where}: the value is {value}; replace missing and infinite values, or remove the input.")
    return np.flatnonzero(holds)


def fill_missing(
    x: NDArray[Any], schema: Mapping[str, Any] | None, place: Place, source: str, names: Sequence[str] | None = None
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Fill in missing numbers, and return what the schema has to say about it: nothing where none was missing.

    Infinite numbers are an error, and so are missing ones unless x has two dimensions. `schema` is that of the inputs a
    model was trained with; `place` and `source` are what messages call a number and x, `names` the columns.
    """
    found = _check_finite(x, place, missing=x.ndim == 2)
    if schema is None:
        if not len(found):
            return x, {}
        medians = []
        for at in found.tolist():
            there = x[:, at][~np.isnan(x[:, at])]
            if not len(there):
                raise DataError(f"{place(0, (at,))}: the value is missing here and in all other rows; leave it out.")
            medians.append(float(np.median(there)))
        known: Mapping[str, Any] = {"columns": found.tolist(), "medians": medians}
        _warn_of_missing(x, found, source, names)
    else:
        known = schema.get("missing") or {"columns": [], "medians": []}
        if x.shape[1:] != (schema["shape"][0] - len(known["columns"]), *schema["shape"][1:]):
            return x, {}  # the shape is complained of elsewhere
        new = np.setdiff1d(found, known["columns"])
        if len(new):
            row = int(np.flatnonzero(np.isnan(x[:, new[0]]))[0])
            where = place(row, (int(new[0]),))
            raise DataError(f"{where}: the value is missing, and none was in this column in training; fill it in.")
    if not known["columns"]:
        return x, {}
    columns = np.array(known["columns"])
    x = np.asarray(x, np.float32 if x.dtype.itemsize < 8 else np.float64)
    gaps = np.isnan(x[:, columns])
    filled = np.concatenate([x, gaps.astype(x.dtype)], axis=1)
    filled[:, columns] = np.where(gaps, np.asarray(known["medians"], x.dtype), x[:, columns])
    return filled, {"missing": {"columns": list(known["columns"]), "medians": list(known["medians"])}}


def _warn_of_missing(x: NDArray[Any], columns: NDArray[np.int64], source: str, names: Sequence[str] | None) -> None:
    """Warn of how many numbers are missing."""
    n = int(np.isnan(x[:, columns]).sum())
    which = [str(names[at]) if names else str(at) for at in columns]
    of = f"column{'s' if len(which) > 1 else ''} {listed(which, 5)}"
    it, it_was = ("it", "it was") if n == 1 else ("them", "they were")
    warnings.warn(
        f"{source}: {n:,} of {len(x) * len(columns):,} values of the input {of} {'is' if n == 1 else 'are'} missing; "
        f"the median of the column stands for {it}, and where {it_was} missing is used, too.",
        DataWarning,
        stacklevel=4,
    )
