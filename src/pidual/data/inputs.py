"""The inputs x: one row per item, whatever they were made from.

`inputs.schema` and `inputs.tensors` are what a model keeps to read inputs for prediction in the same way.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import fingerprint, release
from .arrays import check_array
from .images import LazyImages
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
        cls, x: NDArray[Any], names: NDArray[Any] | None = None, *, kind: str = "array", source: str = "x"
    ) -> "Inputs":
        """Make inputs from an array.

        Parameters
        ----------
        x : array (n, ...)
            Numbers, one row per input; they must be finite, except for `kind` "probabilities", which has checks of its
            own. It may be memory-mapped.
        names : array (n,), optional
            The item each row belongs to, each once; without them rows count by number.
        kind : str
            What the numbers are, where they are not just an array.
        source : str
            Name of the inputs in messages.
        """
        x = check_array(x, source, finite=kind != "probabilities")
        return cls(
            x, None if names is None else row_names(names, len(x), source), kind, schema_of(kind, x), source=source
        )

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


def schema_of(kind: str, array: NDArray[Any] | LazyImages) -> dict[str, Any]:
    """What a model keeps of its inputs at the least: their kind, and the shape of one."""
    return {"kind": kind, "shape": [int(size) for size in array.shape[1:]]}
