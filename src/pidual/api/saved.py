"""A fitted classifier as a folder of plain files. There is no pickle in it, so that reading one runs no code of others.

estimator.json         parameters, classes, the network, summary, history
model.safetensors      weights
label_issues.parquet   one row per training row; items.parquet; annotators.parquet
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta
from msgspec.structs import asdict, replace
from torch import nn

from ..data.inputs import shape_as_given
from ..errors import RunError, UsageError
from ..errors.messages import first_line
from ..files import replacing_folder, write_json
from ..fit.factories import method_maker
from ..fit.load_model import build_trained
from ..learn.batch import Spec
from ..learn.engine.checkpoint import load_tensors, readable, save_tensors, shape_mismatch
from ..learn.methods import Method
from ..run.records.model import Model
from ..run.records.reading import Options, Positive, Record, Shape, file_digest, read_record
from ..run.records.summary import AnswerChoice, Summary

DESCRIBED, WEIGHTS = "estimator.json", "model.safetensors"
FRAMES = ("label_issues", "items", "annotators")


class SavedClasses(Record, frozen=True):
    """The classes of a classifier, and the type of the array that holds them."""

    dtype: str
    values: Annotated[list[str | int | float | bool], Meta(min_length=1)]


class Learned(Record, frozen=True, forbid_unknown_fields=True):
    """What a classifier has learned, by the names of its attributes."""

    n_features_in_: Positive
    feature_names_in_: list[str] | None
    in_shape_: Shape
    summary_: Summary
    history_: list[dict[str, Any]]
    model_selection_: list[AnswerChoice]

    def __post_init__(self) -> None:
        names = self.feature_names_in_
        if self.n_features_in_ != self.in_shape_[0] or (names is not None and len(names) != self.n_features_in_):
            raise ValueError("must have as many features as in_shape_ says")


class SavedClassifier(Record, frozen=True):
    """What estimator.json holds; `digest` is that of the weights."""

    format: int
    parameters: Options
    own_module: bool
    classes: SavedClasses
    model: Model
    learned: Learned
    digest: str = ""

    def __post_init__(self) -> None:
        classes = {(type(value), value) for value in self.classes.values}  # noqa: PD011
        if not len(classes) == len(self.classes.values) == self.model.spec.n_classes:
            raise ValueError("must have as many classes as model.spec.n_classes says, each once")
        if self.learned.in_shape_ != shape_as_given(self.model.inputs.to_json()):
            raise ValueError("must have in_shape_ as model.inputs.shape says")


SAVE_AGAIN = "save the classifier again"


class Saved(NamedTuple):
    """What a folder holds.

    `described` is estimator.json; frames that the classifier did not have are missing.
    """

    described: SavedClassifier
    method: Method
    frames: dict[str, pd.DataFrame]


def save_fitted(
    folder: Path, described: SavedClassifier, method: Method, frames: Mapping[str, pd.DataFrame | None]
) -> None:
    """Write a folder; an earlier one of its kind is replaced when the new one is complete."""
    if folder.exists() and not (folder.is_dir() and ((folder / DESCRIBED).exists() or not any(folder.iterdir()))):
        raise UsageError(f"{folder} exists and is not a saved classifier; choose another place.")
    if folder.resolve() == Path.cwd():
        raise UsageError("A classifier needs a folder of its own, not the one you are in; name one to be made.")
    try:
        with replacing_folder(folder) as new:
            save_tensors(new / WEIGHTS, {f"method.{name}": value for name, value in method.state_dict().items()})
            for name, frame in frames.items():
                if frame is not None:
                    write_with_index(new / f"{name}.parquet", frame)
            write_json(new / DESCRIBED, replace(described, digest=file_digest(new / WEIGHTS)).to_json())
    except OSError as error:
        raise RunError(f"Cannot write {folder} ({error.strerror or error}); choose another place.") from error


def write_with_index(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame whose index counts."""
    try:
        pq.write_table(pa.Table.from_pandas(frame), path)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UsageError(
            f"The index of X (or y) cannot be written to {path.name}, because its values have several types or "
            "one that cannot be saved; fit with another index, such as text."
        ) from error


def read_with_index(path: Path) -> pd.DataFrame:
    """Read what `write_with_index` wrote."""
    if not path.is_file():
        raise RunError(f"{path} is missing or is not a file; {SAVE_AGAIN}.")
    try:
        frame: pd.DataFrame = pq.read_table(path).to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({first_line(error)}); {SAVE_AGAIN}.") from error
    return frame


def load_fitted(folder: Path, make: Callable[[], nn.Module] | None = None) -> Saved:
    """Read a folder; `make` makes the network, where it was a module of the user's own."""
    described = read_record(folder / DESCRIBED, SavedClassifier, way_out=SAVE_AGAIN)
    model = described.model
    with readable(folder / WEIGHTS):
        if file_digest(folder / WEIGHTS) != described.digest:
            raise ValueError("its contents have changed since it was written")
    if make is None:
        method, _ = build_trained(folder / DESCRIBED, model, folder / WEIGHTS)
    else:
        spec = Spec(**asdict(model.spec))
        method = method_maker(model.method, model.method_options, spec, make, twice=True)()
        tensors = load_tensors(folder / WEIGHTS)
        weights = {name.removeprefix("method."): value for name, value in tensors.items()}
        if wrong := shape_mismatch(method.state_dict(), weights):
            raise UsageError(f"The module is not the one that {folder} was saved with: {wrong}; give that one.")
        method.load_state_dict(weights)
    paths = {name: folder / f"{name}.parquet" for name in FRAMES}
    frames = {name: read_with_index(path) for name, path in paths.items() if name != "annotators" or path.exists()}
    return Saved(described, method.eval(), frames)
