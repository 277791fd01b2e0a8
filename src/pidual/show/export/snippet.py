"""Write the Python file beside a state dict (templates/network.py.jinja): it makes the network, loads and predicts."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ...fit.load_model import FETCHING
from ...learn.closed_form.kernels import CLIP, CONSTANT
from ...run.files import CLOSED_FORM
from ...run.records.model import InputSchema, Model, StoredNetwork


def stand_ins(inputs: InputSchema) -> list[float]:
    """Return by column of x the number that stands for a missing one; NaN where none was missing in training."""
    fill = {} if inputs.missing is None else dict(zip(inputs.missing.columns, inputs.missing.medians, strict=True))
    return [fill.get(at, math.nan) for at in range(inputs.shape[0] - len(fill))]


def snippet(model: Model, state: Mapping[str, Tensor], weights: str) -> str:
    """Write a program that loads the weights in the file called `weights`.

    Parameters
    ----------
    model : Model
        What model.json holds.
    state : dict of tensors
        The weights, as `network.plain_state` names them.
    weights : str
        The name of their file.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    network, inputs, classes = model.network, model.inputs, list(model.classes)
    missing = inputs.missing
    fill = stand_ins(inputs) if missing else None
    values: dict[str, Any] = {
        "weights": weights,
        "classes": classes,
        "shape": ", ".join(map(str, inputs.shape if fill is None else [len(fill)])),
        "is_images": inputs.kind == "images",
        "plain": network.name in ("mlp", CLOSED_FORM),  # torch alone
        "fill": repr(fill).replace("nan", "torch.nan") if fill else None,
        "filled": missing.columns if missing and fill else None,
    }
    if network.name == CLOSED_FORM:
        values |= {"kernels": [tuple(kernel) for kernel in network.options["kernels"]]}
        values |= {"shapes": {name: tuple(value.shape) for name, value in state.items()}}
        values |= {"constant": CONSTANT, "clip": CLIP}
    else:
        values["member"] = layers(state) if values["plain"] else builder(network, len(classes))
        values["n_members"] = len({name.split(".")[1] for name in state if name.startswith("members.")})
        values["n_standardised"] = len(state.get("mean", ()))
    templates = FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8")
    environment = Environment(  # of Python, not HTML: every text in it is a `repr`
        loader=templates, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["python"] = repr
    return environment.get_template("network.py.jinja").render(values)


def layers(state: Mapping[str, Tensor]) -> str:
    """Write a member that is an MLP, by the sizes of its weights."""
    sizes = [state[name].shape for name in state if name.startswith("members.0.") and name.endswith(".weight")]
    linear = [f"nn.Linear({inputs}, {outputs})" for outputs, inputs in sizes]
    return f"nn.Sequential({', nn.ReLU(), '.join(linear)})"


def builder(network: StoredNetwork, n_classes: int) -> str:
    """Write a member that is one of pidual's networks, or of a library's."""
    size = network.standardize
    given = [f"in_shape={tuple(network.in_shape)}", f"n_classes={n_classes}"]
    given += [f"standardize=Standardize([0.0] * {size}, [1.0] * {size})"] if size else []
    options = {name: value for name, value in network.options.items() if name not in FETCHING}
    given += [f"**{options!r}"] if options else []
    return f"build_network({network.name!r}, {', '.join(given)})"
