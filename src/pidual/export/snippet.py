"""The Python file beside a state dict: it makes the network, loads the weights and predicts."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..run.trained import FETCHING

BEGIN = '''\
"""Loads the prediction network of a pidual run from the weights beside this file; it needs {needs}.

network = load()
p = network(x)                      # x: tensor of shape (rows, {shape}), as the run read it; p: (rows, {n_classes})
labels = [CLASSES[i] for i in p.argmax(1)]
"""

from pathlib import Path

import torch
from torch import nn
{imports}
CLASSES = {classes}


def member():
    return {member}


class Network(nn.Module):
    """Probabilities of CLASSES: the average of {n_members} networks."""

    def __init__(self):
        super().__init__()
{buffers}        self.members = nn.ModuleList(member() for _ in range({n_members}))

    def forward(self, x):
{prepare}        return sum(member(x).softmax(1) for member in self.members) / {n_members}


def load(path=Path(__file__).with_name({weights!r})):
    network = Network()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval()


if __name__ == "__main__":
    with torch.inference_mode():
        p = load()(torch.zeros(2, {shape}{dtype}))
    print(f"{{len(CLASSES)}} classes; of an input of zeros: {{CLASSES[p[0].argmax()]}}, {{p[0].max():.3f}}")
'''
BUFFERS = """\
        self.register_buffer("mean", torch.zeros({size}))
        self.register_buffer("std", torch.ones({size}))
"""
STANDARDISE = """\
        shape = (-1,) + (1,) * (x.ndim - 2)
        x = (x.float() - self.mean.view(shape)) / self.std.view(shape)
"""
FILL = """\
        gaps, fill = x.isnan(), torch.tensor({fill}).to(x)  # where a number is missing; nan: in no column to learn from
        x = torch.cat([torch.where(gaps, fill, x), gaps[:, {columns}].to(x)], 1)
"""


def stand_ins(inputs: Mapping[str, Any]) -> list[float]:
    """By column of x the number that stands for a missing one; NaN where none was missing in training."""
    missing = inputs["missing"]
    fill = dict(zip(missing["columns"], missing["medians"], strict=True))
    return [fill.get(at, math.nan) for at in range(inputs["shape"][0] - len(fill))]


def snippet(model: Mapping[str, Any], state: Mapping[str, Tensor], weights: str) -> str:
    """A program that loads the weights in the file called `weights`.

    Parameters
    ----------
    model : dict
        What model.json holds.
    state : dict of tensors
        The weights, as `network.plain_state` names them.
    weights : str
        The name of their file.
    """
    network = model["network"]
    plain = network["name"] == "mlp"
    standardised = "mean" in state
    fill = stand_ins(model["inputs"]) if model["inputs"].get("missing") else None
    shape = ", ".join(map(str, model["inputs"]["shape"] if fill is None else [len(fill)]))
    return BEGIN.format(
        weights=weights,
        needs="torch alone" if plain else "torch and pidual",
        shape=shape,
        n_classes=len(model["classes"]),
        imports="" if plain else "\nfrom pidual.nets import Standardize, build_network\n",
        classes=repr(list(model["classes"])),
        member=layers(state) if plain else builder(network, len(model["classes"])),
        n_members=len({name.split(".")[1] for name in state if name.startswith("members.")}),
        buffers=BUFFERS.format(size=len(state["mean"])) if standardised else "",
        prepare=(
            "" if fill is None else FILL.format(fill=_numbers(fill), columns=model["inputs"]["missing"]["columns"])
        )
        + (STANDARDISE if standardised else "")
        + ("        x = x.flatten(1).float()\n" if plain else ""),
        dtype=", dtype=torch.uint8" if model["inputs"]["kind"] == "images" else "",
    )


def _numbers(fill: list[float]) -> str:
    """A list of numbers as Python has it."""
    return repr(fill).replace("nan", "torch.nan")


def layers(state: Mapping[str, Tensor]) -> str:
    """Python for a member that is an MLP, by the sizes of its weights."""
    sizes = [state[name].shape for name in state if name.startswith("members.0.") and name.endswith(".weight")]
    linear = [f"nn.Linear({inputs}, {outputs})" for outputs, inputs in sizes]
    return f"nn.Sequential({', nn.ReLU(), '.join(linear)})"


def builder(network: Mapping[str, Any], n_classes: int) -> str:
    """Python for a member that is one of pidual's networks, or of a library's."""
    size = network["standardize"]
    given = [f"in_shape={tuple(network['in_shape'])}", f"n_classes={n_classes}"]
    given += [f"standardize=Standardize([0.0] * {size}, [1.0] * {size})"] if size else []
    options = {name: value for name, value in network["options"].items() if name not in FETCHING}
    given += [f"**{options!r}"] if options else []
    return f"build_network({network['name']!r}, {', '.join(given)})"
