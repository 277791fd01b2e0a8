"""A fitted classifier as a folder, and one made of a run. There is no pickle: reading a folder runs no code of others.

estimator.json                    parameters, classes, summary, history
model.json, model.safetensors     the method, as a run directory has it
label_issues.parquet, items.parquet, annotators.parquet    with the index of X
"""

import copy
import math
import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta
from msgspec.structs import asdict, replace
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ..data.inputs import shape_as_given
from ..errors import RunError, UsageError
from ..errors.messages import first_line
from ..files import replacing_folder, write_json
from ..fit.factories import method_maker
from ..fit.load_model import build_trained
from ..fit.refit import run_options
from ..learn.batch import Spec
from ..learn.engine.checkpoint import load_tensors, save_tensors, shape_mismatch
from ..learn.methods import Method
from ..options import option_names, signature
from ..run.records.config import Model
from ..run.records.reading import FORMAT, Options, Record, read_record
from ..run.records.summary import Summary
from .run import Run

DESCRIBED, MODEL, WEIGHTS = "estimator.json", "model.json", "model.safetensors"
FRAMES = ("label_issues", "items", "annotators")
NOT_SAVED = ("module", "estimator", "callbacks")  # parameters that are objects
SAVE_AGAIN = "save the classifier again"
LARGEST_CLASS = 2**20  # bytes: no folder takes memory by a number in it


class _SavedEstimator(Record, frozen=True):
    """What estimator.json holds; `dtype` is that of the array of classes."""

    format: int
    classifier: str
    parameters: Options
    own_module: bool
    dtype: str
    classes: Annotated[list[str | int | float | bool], Meta(min_length=1)]
    feature_names: list[str] | None
    summary: Summary
    history: list[dict[str, Any]]


def save_classifier(model: Any, path: str | Path) -> Path:
    """Write a fitted classifier; an earlier one in its folder is replaced when the new one is complete."""
    check_is_fitted(model)
    if hasattr(model, "estimator_"):
        raise UsageError("A classifier with an estimator in place of a network cannot be saved; use joblib.")
    folder = Path(path)
    if folder.exists() and not (folder.is_dir() and ((folder / DESCRIBED).exists() or not any(folder.iterdir()))):
        raise UsageError(f"{folder} exists and is not a saved classifier; choose another place.")
    if folder.resolve() == Path.cwd():
        raise UsageError("A classifier needs a folder of its own, not the one you are in; name one to be made.")
    state, params = model.__getstate__(), model.get_params(deep=False)
    seed = params["random_state"]
    params["random_state"] = int(seed) if isinstance(seed, numbers.Integral) else None
    described = _SavedEstimator(
        format=FORMAT,
        classifier=type(model).__name__,
        parameters={name: _as_json(value) for name, value in params.items() if name not in NOT_SAVED},
        own_module=model._own_module,
        dtype=model.classes_.dtype.str,
        classes=model.classes_.tolist(),
        feature_names=_as_json(getattr(model, "feature_names_in_", None)),
        summary=state["summary_"],
        history=_as_json(state["history_"]),
    )
    try:
        with replacing_folder(folder) as new:
            weights = model.method_.state_dict()
            save_tensors(new / WEIGHTS, {f"method.{name}": value for name, value in weights.items()})
            write_json(new / MODEL, model._model.to_json())
            for name in FRAMES:
                if state[f"{name}_"] is not None:
                    _write_frame(new / f"{name}.parquet", state[f"{name}_"])
            write_json(new / DESCRIBED, described.to_json())
    except OSError as error:
        raise RunError(f"Cannot write {folder} ({error.strerror or error}); choose another place.") from error
    return folder


def load_classifier(kind: type[Any], path: str | Path, module: Any = None) -> Any:
    """Read what `save_classifier` wrote into a classifier of this kind."""
    folder = Path(path)
    saved = read_record(folder / DESCRIBED, _SavedEstimator, way_out=SAVE_AGAIN)
    if saved.classifier != kind.__name__:
        raise UsageError(f"{folder} is a {saved.classifier}; read it with {saved.classifier}.load.")
    if saved.own_module and module is None:
        raise UsageError(f"The classifier in {folder} has a network of its own; give it again, with module=.")
    if not saved.own_module and module is not None:
        raise UsageError(f"The classifier in {folder} has no network of its own; leave module= out.")
    stored = read_record(folder / MODEL, Model, way_out=SAVE_AGAIN)
    if module is None:
        method = build_trained(folder / MODEL, stored, folder / WEIGHTS)[0]
    else:
        method = _around_module(folder, stored, module)
    try:
        dtype = np.dtype(saved.dtype)
        if dtype.itemsize > LARGEST_CLASS:
            raise ValueError(f"a class has {dtype.itemsize} bytes")
        classes = np.array(saved.classes, dtype=dtype)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise RunError(f"{folder / DESCRIBED}: classes are not of the type it says; {SAVE_AGAIN}.") from error
    if not len(classes) == len(np.unique(classes)) == stored.spec.n_classes:
        raise RunError(f"{folder} has not as many classes as its model, each once; {SAVE_AGAIN}.")
    known = {name: value for name, value in saved.parameters.items() if name not in (*NOT_SAVED, "self")}
    model = kind(**known, module=module)
    _learned(model, stored, method, classes, saved.summary, saved.history)
    model._own_module = saved.own_module
    if saved.feature_names is not None:
        model.feature_names_in_ = np.array(saved.feature_names, dtype=object)
    for name in FRAMES:
        there = name != "annotators" or (folder / "annotators.parquet").exists()
        setattr(model, f"{name}_", _read_frame(folder / f"{name}.parquet", classes) if there else None)
    return model


def classifier_of_run(kind: type[Any], run: Run | str | Path) -> Any:
    """Make a classifier of this kind that has learned what a run has."""
    run = run if isinstance(run, Run) else Run.open(run)
    stored, asked = run.model, run_options(run)
    how = {"method": asked.method, "setting": asked.setting}
    if "method" not in signature(kind):  # it has one alone
        if how != {name: getattr(kind, name) for name in how}:
            raise UsageError(f"{run.path} was fitted by the method '{asked.method}'; use PiDualClassifier.from_run.")
        how = {}
    of = stored.inputs.kind
    if of not in ("array", "columns", "images") or stored.inputs.embed is not None:
        instead = "Run.items and Run.predictions" if of in ("probabilities", "none") else "Run.predict"
        raise UsageError(f"The inputs of {run.path} are of the kind '{of}' and no array X; use {instead}.")
    options = {}
    for name, value in asked.options.items():
        word = "training__" if name in option_names() else "" if name.startswith("network.") else "method__"
        options[word + name.replace("network.", "network__")] = value
    model = kind(**how, network=asked.network, random_state=asked.seed, **options)
    numbered = numbered_classes(stored)
    _learned(model, numbered, run.load(), np.array(stored.classes), run.summary, run.history)
    if of == "columns":
        model.feature_names_in_ = np.array(stored.inputs.columns, dtype=object)
    model.items_, model.annotators_ = run.items, run.annotators
    model.label_issues_ = model._issues(run.predictions)
    return model


def _learned(
    model: Any, stored: Model, method: Method, classes: NDArray[Any], summary: Summary, history: list[dict[str, Any]]
) -> None:
    """Let a classifier have learned this."""
    model.classes_, model.method_, model._model, model._own_module = classes, method, stored, False
    model.in_shape_ = tuple(shape_as_given(stored.inputs.to_json()))
    model.n_features_in_ = model.in_shape_[0]
    model.summary_, model.history_, model.model_selection_ = summary, history, summary.model_selection


def _around_module(folder: Path, stored: Model, module: Any) -> Method:
    """Return the method in a folder around a network of the user's own."""
    spec = Spec(**asdict(stored.spec))
    how: dict[str, Any] = {"twice": True, "answers": stored.answers}
    method = method_maker(stored.method, stored.method_options, spec, lambda: made_by(module), **how)()
    weights = {name.removeprefix("method."): value for name, value in load_tensors(folder / WEIGHTS).items()}
    if wrong := shape_mismatch(method.state_dict(), weights):
        raise UsageError(f"The module is not the one that {folder} was saved with: {wrong}; give that one.")
    method.load_state_dict(weights)
    return method.eval()


def made_by(module: Any) -> nn.Module:
    """Make the network that a user gives: a copy of a module, or what a callable makes."""
    if not callable(module):
        raise UsageError(f"module must be an nn.Module or a callable that makes one, not {module!r}.")
    made = module if isinstance(module, nn.Module) else module()
    if not isinstance(made, nn.Module):
        raise UsageError(f"module() must make an nn.Module, not {type(made).__name__}.")
    return copy.deepcopy(made).cpu()


def numbered_classes(model: Model) -> Model:
    """Return the model with numbers as classes, as a classifier has their names."""
    return replace(model, classes=list(range(len(model.classes))), pi=[])


def _write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame whose index counts."""
    try:
        pq.write_table(pa.Table.from_pandas(frame), path)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UsageError(
            f"The index of X (or y) cannot be written to {path.name}, because its values have several types or "
            "one that cannot be saved; fit with another index, such as text."
        ) from error


def _read_frame(path: Path, classes: NDArray[Any]) -> pd.DataFrame:
    """Read what `_write_frame` wrote; classes are categories again, as Parquet keeps those of text alone."""
    if not path.is_file():
        raise RunError(f"{path} is missing or is not a file; {SAVE_AGAIN}.")
    try:
        frame: pd.DataFrame = pq.read_table(path).to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({first_line(error)}); {SAVE_AGAIN}.") from error
    found = [name for name in ("worst_class", "favourite_label") if name in frame]
    return frame.assign(**{name: pd.Categorical(frame[name], categories=classes.tolist()) for name in found})


def _as_json(value: Any) -> Any:
    """Return a value as JSON has it: plain numbers and lists in place of NumPy's, null if not finite."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
