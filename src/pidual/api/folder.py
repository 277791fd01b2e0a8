"""A fitted classifier in a folder of plain files, and one made of a run directory."""

import copy
import math
import numbers
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from msgspec.structs import replace
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ..data.inputs import shape_as_given
from ..errors import RunError, UsageError
from ..options import option_names
from ..run.files import WITHOUT_TRAINING
from ..run.records.model import Model
from ..run.records.reading import FORMAT, read_record
from .run import Run
from .saved import DESCRIBED, SAVE_AGAIN, Learned, SavedClasses, SavedClassifier, load_fitted, save_fitted

NOT_SAVED = ("module", "estimator", "callbacks")  # parameters that are objects


def save_classifier(model: Any, path: str | Path) -> Path:
    """Write a fitted classifier."""
    check_is_fitted(model)
    if hasattr(model, "estimator_"):
        raise UsageError("A classifier with an estimator in place of a network cannot be saved; use joblib.")
    state, params = model.__getstate__(), model.get_params(deep=False)
    seed = params["random_state"]
    params["random_state"] = int(seed) if isinstance(seed, numbers.Integral) else None
    described = SavedClassifier(
        format=FORMAT,
        parameters={name: as_json(value) for name, value in params.items() if name not in NOT_SAVED},
        own_module=model._own_module,
        classes=SavedClasses(model.classes_.dtype.str, model.classes_.tolist()),
        model=model._model,
        learned=Learned(
            n_features_in_=model.n_features_in_,
            feature_names_in_=as_json(getattr(model, "feature_names_in_", None)),
            in_shape_=list(model.in_shape_),
            summary_=state["summary_"],
            history_=as_json(state["history_"]),
            model_selection_=state["model_selection_"],
        ),
    )
    frames = {name: state[f"{name}_"] for name in ("label_issues", "items", "annotators")}
    save_fitted(Path(path), described, model.method_, frames)
    return Path(path)


def load_classifier(make_one: Callable[..., Any], path: str | Path, module: Any = None) -> Any:
    """Read what `save_classifier` wrote into a classifier that `make_one` makes."""
    described = Path(path) / DESCRIBED
    needs = read_record(described, SavedClassifier, way_out=SAVE_AGAIN).own_module
    if needs and module is None:
        raise UsageError(f"The classifier in {path} has a network of its own; give it again, with module=.")
    if not needs and module is not None:
        raise UsageError(f"The classifier in {path} has no network of its own; leave module= out.")
    found = load_fitted(Path(path), None if module is None else lambda: made_by(module))
    saved = found.described
    params = {name: value for name, value in saved.parameters.items() if name not in (*NOT_SAVED, "self")}
    model = make_one(**params, module=module)
    model._own_module = needs
    try:
        model.classes_ = np.array(saved.classes.values, dtype=np.dtype(saved.classes.dtype))
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise RunError(f"{described} cannot be used: classes are not of the type it says; {SAVE_AGAIN}.") from error
    model.method_, model._model = found.method, saved.model
    model.in_shape_ = tuple(saved.learned.in_shape_)
    if saved.learned.feature_names_in_ is not None:
        model.feature_names_in_ = np.array(saved.learned.feature_names_in_, dtype=object)
    for name in ("n_features_in_", "summary_", "history_", "model_selection_"):
        setattr(model, name, getattr(saved.learned, name))
    for name in ("label_issues", "items", "annotators"):
        setattr(model, f"{name}_", with_classes(found.frames.get(name), model.classes_))
    return model


def made_by(module: Any) -> nn.Module:
    """Make the network that a user gives: a copy of a module, or what a callable makes."""
    if not callable(module):
        raise UsageError(f"module must be an nn.Module or a callable that makes one, not {module!r}.")
    made = module if isinstance(module, nn.Module) else module()
    if not isinstance(made, nn.Module):
        raise UsageError(f"module() must make an nn.Module, not {type(made).__name__}.")
    return copy.deepcopy(made).cpu()


def with_classes(frame: pd.DataFrame | None, classes: NDArray[Any]) -> pd.DataFrame | None:
    """Make columns of classes that may be missing categories again, because Parquet keeps those of text alone."""
    if frame is None:
        return None
    found = [name for name in ("worst_class", "favourite_label") if name in frame]
    return frame.assign(**{name: pd.Categorical(frame[name], categories=classes.tolist()) for name in found})


def classifier_of_run(make_one: Callable[..., Any], run: Run | str | Path) -> Any:
    """Make a classifier, by `make_one`, that has learned what a run has."""
    run = run if isinstance(run, Run) else Run.open(run)
    config, stored = run.config, run.model
    kind = stored.inputs.kind
    if kind not in ("array", "columns", "images"):
        instead = "Run.predict" if kind == "text" else "Run.items and Run.predictions"
        raise UsageError(f"The inputs of {run.path} are of the kind '{kind}' and no array X; use {instead}.")
    options: dict[str, Any] = {}
    if stored.network.name not in WITHOUT_TRAINING:
        options = {
            f"training__{name}": value
            for name, value in config.training.items()
            if name in option_names() and name != "seed"
        }
        options |= {f"method__{name}": value for name, value in config.method_options.items()}
        options |= {f"network__{name}": value for name, value in stored.network.options.items()}
        options |= {"network": stored.network.name}
    model = make_one(config.method, setting=config.setting, random_state=config.seed, **options)
    model.classes_ = np.array(stored.classes)
    model.method_ = run.load()
    model._model = numbered_classes(stored)
    model.in_shape_ = tuple(shape_as_given(stored.inputs.to_json()))
    model.n_features_in_ = model.in_shape_[0]
    model._own_module = False
    if kind == "columns":
        model.feature_names_in_ = np.array(stored.inputs.columns, dtype=object)
    model.history_, model.summary_ = run.history, run.summary
    model.model_selection_ = run.summary.model_selection
    model.items_, model.annotators_ = run.items, run.annotators
    model.label_issues_ = model._issues(run.predictions)
    return model


def numbered_classes(model: Model) -> Model:
    """Return the model with numbers as classes, as a classifier has their names."""
    return replace(model, classes=list(range(len(model.classes))), pi=[])


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: plain numbers and lists in place of NumPy's, null if not finite."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
