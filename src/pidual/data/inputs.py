"""The inputs x: one row per item, whatever they were made from.

`inputs.schema` and `inputs.tensors` are what a model keeps to read inputs for prediction in the same way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import fingerprint, release
from .arrays import check_array
from .images import LazyImages
from .missing import fill_missing
from .row_names import row_names


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs x, one row per input.

    Parameters
    ----------
    array : numpy.ndarray or LazyImages
        Shape (n, ...); images are uint8 (n, 3, H, W). It may be memory-mapped.
    names : numpy.ndarray of str or None
        The item each row belongs to; None for a bare array.
    kind : str
        "array", "columns", "images" or "text"; "probabilities" where a row is what a classifier says about the classes,
        "none" where there is no x at all.
    schema : dict
        JSON-able; given back to `load_inputs` it reads inputs for prediction in the same way.
    tensors : dict of numpy.ndarray
        Fitted arrays to keep with the model; empty unless `kind` is "text".
    source : str
        Name of the inputs in messages.
    fingerprint : str, optional
        Digest of what the array was computed from, where it was: the same on any machine.
    texts : pyarrow array of text, optional
        What each row of `array` was made from, where `kind` is "text" and the inputs are to be trained on.
    """

    array: NDArray[Any] | LazyImages
    names: NDArray[np.str_] | None
    kind: str
    schema: dict[str, Any]
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    source: str = "x"
    fingerprint: str | None = None
    texts: Any = None

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

        x, gaps = check_array(x, source), dict[str, Any]()
        if kind != "probabilities":
            x, gaps = fill_missing(x, schema, place, source)
        found = None if names is None else row_names(names, len(x), source)
        return cls(x, found, kind, schema_of(kind, x) | gaps, source=source)

    def digest(self) -> str:
        """A digest of x, of evenly spaced rows where it is very large, to tell another file from the same one."""
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
    """What stands for x where there is none."""
    return Inputs.from_array(np.zeros((1, 1), np.float32), kind="none", source="no x")


def shape_as_given(schema: Mapping[str, Any]) -> list[int]:
    """The shape of an input as it comes, without the columns that say what was missing."""
    first, *rest = schema["shape"]
    return [first - len(schema.get("missing", {"columns": []})["columns"]), *rest]


def feature_names(schema: Mapping[str, Any]) -> list[str]:
    """What the numbers of an input are called, last those that say what was missing."""
    names = schema.get("columns") or [f"column {number}" for number in range(shape_as_given(schema)[0])]
    return [*names, *(f"{names[number]} is missing" for number in schema.get("missing", {"columns": []})["columns"])]


def schema_of(kind: str, array: NDArray[Any] | LazyImages) -> dict[str, Any]:
    """What a model keeps of its inputs at the least: their kind, and the shape of one."""
    return {"kind": kind, "shape": [int(size) for size in array.shape[1:]]}
