"""A fitted classifier as a folder of plain files. There is no pickle in it, so that reading one runs no code of others.

estimator.json         parameters, classes, the network, summary, history
model.safetensors      weights
label_issues.parquet   one row per training row; items.parquet; annotators.parquet
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from torch import nn

from ..batch import Spec
from ..engine.checkpoint import load_tensors, save_tensors
from ..errors import RunError, UsageError
from ..files import write_json
from ..methods import Method
from ..schemas import FORMAT, MODEL, list_of, mapping, plain, read_record, record, text
from .makers import method_maker
from .trained import build_trained

DESCRIBED, WEIGHTS = "estimator.json", "model.safetensors"
FRAMES = ("label_issues", "items", "annotators")
SAVED = record(
    {
        "parameters": mapping(plain),
        "classes": record({"dtype": text, "values": list_of(plain, least=1)}),
        "model": MODEL,
        "learned": mapping(plain),
    }
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
        raise UsageError(f"{folder} is there and is not a classifier that was saved; choose another place.")
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        save_tensors(beside / WEIGHTS, {f"method.{name}": value for name, value in method.state_dict().items()}, {})
        for name, frame in frames.items():
            if frame is not None:
                pq.write_table(pa.Table.from_pandas(frame), beside / f"{name}.parquet")
        write_json(beside / DESCRIBED, {"format": FORMAT, **described})
        old = folder.with_name(f".{folder.name}.old")
        if folder.exists():
            folder.rename(old)
        beside.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise RunError(f"Cannot write {folder} ({error.strerror or error}); choose another place.") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


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
        try:
            method.load_state_dict({name.removeprefix("method."): value for name, value in tensors.items()})
        except RuntimeError as error:
            raise UsageError(f"The module is not the one that {folder} was saved with: {error}") from error
    paths = {name: folder / f"{name}.parquet" for name in FRAMES}
    frames = {name: pq.read_table(path).to_pandas() for name, path in paths.items() if path.exists()}
    return Saved(described, method.eval(), frames)
