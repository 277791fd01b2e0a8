"""A fitted classifier as a folder of plain files. There is no pickle in it, so that reading one runs no code of others.

estimator.json         parameters, classes, the network, summary, history
model.safetensors      weights
label_issues.parquet   one row per training row; items.parquet; annotators.parquet
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from torch import nn

from ..data.inputs import shape_as_given
from ..errors import RunError, UsageError
from ..errors.messages import first_line
from ..files import replacing_folder, write_json
from ..fit.factories import method_maker
from ..fit.load_model import build_trained
from ..learn.batch import Spec
from ..learn.engine.checkpoint import load_tensors, misfit, save_tensors
from ..learn.methods import Method
from ..run.schemas import (
    FORMAT,
    MODEL,
    FieldError,
    Record,
    flag,
    list_of,
    logged,
    mapping,
    maybe,
    plain,
    read_record,
    record,
    shape,
    text,
    whole,
)

DESCRIBED, WEIGHTS = "estimator.json", "model.safetensors"
FRAMES = ("label_issues", "items", "annotators")


def _class(value: Any) -> None:
    """A class: text, a number, or true or false."""
    if isinstance(value, list | dict) or value is None:
        raise FieldError("must be text, a number, or true or false")
    plain(value)


def _saved_rule(saved: Record) -> None:
    if len(saved["classes"]["values"]) != saved["model"]["spec"]["n_classes"]:
        raise FieldError("must be as many as model.spec.n_classes says", "classes.values")
    learned = saved["learned"]
    if learned["in_shape_"] != shape_as_given(saved["model"]["inputs"]):
        raise FieldError("must be the same as model.inputs.shape", "learned.in_shape_")
    if learned["n_features_in_"] != learned["in_shape_"][0]:
        raise FieldError("must be the first number of in_shape_", "learned.n_features_in_")
    if learned["feature_names_in_"] is not None and len(learned["feature_names_in_"]) != learned["n_features_in_"]:
        raise FieldError("must have n_features_in_ names", "learned.feature_names_in_")


SAVED = record(
    {
        "parameters": mapping(plain),
        "own_module": flag,
        "classes": record({"dtype": text, "values": list_of(_class, least=1, unique=True)}),
        "model": MODEL,
        "learned": record(
            {
                "n_features_in_": whole(1),
                "feature_names_in_": maybe(list_of(text)),
                "in_shape_": shape,
                "summary_": mapping(logged),
                "history_": list_of(mapping(logged)),
                "model_selection_": list_of(mapping(logged)),
            },
            more=None,
        ),
    },
    rule=_saved_rule,
)
SAVE_AGAIN = "save the classifier again"


class Saved(NamedTuple):
    """What a folder holds.

    `described` is estimator.json; frames that the classifier did not have are missing.
    """

    described: dict[str, Any]
    method: Method
    frames: dict[str, pd.DataFrame]


def save_fitted(
    folder: Path, described: Mapping[str, Any], method: Method, frames: Mapping[str, pd.DataFrame | None]
) -> None:
    """Write a folder; an earlier one of its kind is replaced when the new one is complete."""
    if folder.exists() and not (folder.is_dir() and ((folder / DESCRIBED).exists() or not any(folder.iterdir()))):
        raise UsageError(f"{folder} exists and is not a saved classifier; choose another place.")
    if folder.resolve() == Path.cwd():
        raise UsageError("A classifier needs a folder of its own, not the one you are in; name one to be made.")
    try:
        with replacing_folder(folder) as new:
            save_tensors(new / WEIGHTS, {f"method.{name}": value for name, value in method.state_dict().items()}, {})
            for name, frame in frames.items():
                if frame is not None:
                    write_with_index(new / f"{name}.parquet", frame)
            write_json(new / DESCRIBED, {"format": FORMAT, **described})
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
    described = read_record(folder / DESCRIBED, SAVED, way_out=SAVE_AGAIN)
    model = described["model"]
    if make is None:
        method, _ = build_trained(folder / DESCRIBED, model, folder / WEIGHTS)
    else:
        sizes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in model["spec"].items()
        }
        method = method_maker(model["method"], model["method_options"], Spec(**sizes), make, twice=True)()
        tensors, _ = load_tensors(folder / WEIGHTS)
        weights = {name.removeprefix("method."): value for name, value in tensors.items()}
        if wrong := misfit(method.state_dict(), weights):
            raise UsageError(f"The module is not the one that {folder} was saved with: {wrong}; give that one.")
        method.load_state_dict(weights)
    paths = {name: folder / f"{name}.parquet" for name in FRAMES}
    frames = {name: read_with_index(path) for name, path in paths.items() if name != "annotators" or path.exists()}
    return Saved(described, method.eval(), frames)
