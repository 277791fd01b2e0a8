"""NoisyDataset: what every dataset here is once it is read: annotations, inputs, and a clean test set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..inputs import Inputs


@dataclass(frozen=True, eq=False)
class NoisyDataset:
    """A training set with noisy labels and privileged information, and a test set with clean labels.

    Parameters
    ----------
    name : str
        Key of DATASETS, with the variant behind a colon where there is one ("cifar10n:aggregate").
    frame : DataFrame
        One row per annotation: item (row of `x`), label and y (clean), both as numbers of `classes`; and the PI.
    pi : mapping
        PI column to its kind: "category", "number" or "duration".
    x, x_test : array or Inputs
        Vectors (N, D), uint8 images (N, 3, H, W), or inputs that are read from disk when they are needed.
    y_test : int array
        Clean labels of `x_test`.
    classes : list of str
        Names of the classes.
    about : mapping
        What is worth knowing beside it, such as how many files it came from.
    """

    name: str
    frame: pd.DataFrame
    pi: Mapping[str, str]
    x: NDArray[Any] | Inputs
    x_test: NDArray[Any] | Inputs
    y_test: NDArray[np.int64]
    classes: list[str]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def noise_rate(self) -> float:
        """Share of annotations whose label is wrong."""
        return float((self.frame["label"] != self.frame["y"]).mean())
