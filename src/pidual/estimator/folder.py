"""A fitted classifier in a folder of plain files, and one made of a run directory."""

import copy
import numbers
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ..errors import UsageError
from ..run import Run
from ..run.saved import DESCRIBED, SAVE_AGAIN, SAVED, load_fitted, save_fitted
from ..schemas import read_record


def save_classifier(model: Any, path: str | Path) -> Path:
    """Write a fitted classifier."""
    check_is_fitted(model)
    if model.estimator is not None:
        raise UsageError("A classifier with an estimator in the place of a network cannot be saved; use joblib.")
    state, params = model.__getstate__(), model.get_params(deep=False)
    left_out = ("module", "estimator", "callbacks")
    seed = params["random_state"]
    params["random_state"] = int(seed) if isinstance(seed, numbers.Integral) else None
    described = {
        "parameters": {name: as_json(value) for name, value in params.items() if name not in left_out},
        "own_module": model.module is not None,
        "classes": {"dtype": model.classes_.dtype.str, "values": model.classes_.tolist()},
        "model": model._model,
        "learned": {
            "n_features_in_": model.n_features_in_,
            "feature_names_in_": as_json(getattr(model, "feature_names_in_", None)),
            "in_shape_": list(model.in_shape_),
            **{name: as_json(getattr(model, name)) for name in ("summary_", "history_", "model_selection_")},
        },
    }
    frames = {name: state[f"{name}_"] for name in ("label_issues", "items", "annotators")}
    save_fitted(Path(path), described, model.method_, frames)
    return Path(path)


def load_classifier(make_one: Callable[..., Any], path: str | Path, module: Any = None) -> Any:
    """Read what `save_classifier` wrote into a classifier that `make_one` makes."""
    needs = read_record(Path(path) / DESCRIBED, SAVED, way_out=SAVE_AGAIN).get("own_module")
    if needs and module is None:
        raise UsageError(f"The classifier in {path} has a network of its own; give it again, with module=.")
    make = None if module is None else lambda: copy.deepcopy(module) if isinstance(module, nn.Module) else module()
    found = load_fitted(Path(path), make)
    model = make_one(**found.described["parameters"]).set_params(module=module if needs else None)
    classes, learned = found.described["classes"], found.described["learned"]
    model.classes_ = np.array(classes["values"], dtype=np.dtype(classes["dtype"]))
    model.method_, model._model = found.method, found.described["model"]
    model.in_shape_ = tuple(learned.pop("in_shape_"))
    names = learned.pop("feature_names_in_")
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    for name, value in learned.items():
        setattr(model, name, value)
    for name in ("label_issues", "items", "annotators"):
        setattr(model, f"{name}_", found.frames.get(name))
    return model


def classifier_of_run(make_one: Callable[..., Any], run: Run | str | Path) -> Any:
    """A classifier, made by `make_one`, that has learned what a run has."""
    run = run if isinstance(run, Run) else Run.open(run)
    config, stored = run.config, run.model
    kind = stored["inputs"]["kind"]
    if kind not in ("array", "columns", "images"):
        raise UsageError(f"The inputs of {run.path} are of the kind '{kind}' and no array X; use Run.predict.")
    options = {f"training__{name}": value for name, value in config["training"].items() if name != "seed"}
    options |= {f"method__{name}": value for name, value in config["method_options"].items()}
    options |= {f"network__{name}": value for name, value in stored["network"]["options"].items()}
    model = make_one(
        config["method"],
        setting=config["setting"],
        network=stored["network"]["name"],
        random_state=config["seed"],
        **options,
    )
    model.classes_ = np.array(stored["classes"])
    model.method_ = run.load()
    model._model = stored | {"classes": list(range(len(model.classes_))), "pi": []}
    model.in_shape_ = tuple(stored["inputs"]["shape"])
    model.n_features_in_ = model.in_shape_[0]
    model.history_, model.summary_ = run.history, run.summary
    model.model_selection_ = run.summary.get("model_selection", [])
    model.items_, model.annotators_ = run.items, run.annotators
    model.label_issues_ = model._issues(run.predictions)
    return model


def as_json(value: Any) -> Any:
    """A value as JSON has it: NumPy's numbers and arrays as plain ones."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
