"""The Python file beside a state dict: it makes the network, loads the weights and predicts."""

import math
from collections.abc import Mapping

from torch import Tensor

from ...fit.load_model import FETCHING
from ...learn.closed_form.kernels import CLIP, CONSTANT
from ...run.files import CLOSED_FORM
from ...run.records.model import InputSchema, Model, StoredNetwork

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


{network}


def load(path=Path(__file__).with_name({weights!r})):
    network = Network()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval()


if __name__ == "__main__":
    with torch.inference_mode():
        p = load()(torch.zeros(2, {shape}{dtype}))
    print(f"{{len(CLASSES)}} classes; of an input of zeros: {{CLASSES[p[0].argmax()]}}, {{p[0].max():.3f}}")
'''
MEMBERS = '''\
def member():
    return {member}


class Network(nn.Module):
    """Probabilities of CLASSES: the average of {n_members} networks."""

    def __init__(self):
        super().__init__()
{buffers}        self.members = nn.ModuleList(member() for _ in range({n_members}))

    def forward(self, x):
{prepare}        return sum(member(x).softmax(1) for member in self.members) / {n_members}'''
MIXTURE = '''\
KERNELS = {kernels}  # kind, scale, settings
SHAPES = {shapes}


def gauss(a, b, width):
    distances = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
    return (distances.clamp(min=0) / -width).exp()


def relu(a, b):
    a, b = (nn.functional.pad(z / z.shape[1] ** 0.5, (0, 1), value={constant}) for z in (a, b))
    dot = a @ b.T
    norms = a.norm(dim=1)[:, None] * b.norm(dim=1)
    cosine = (dot / norms).clamp(-1, 1)
    away = 1 - cosine.acos() / torch.pi
    return norms * ((1 - cosine.square()).sqrt() / torch.pi + away * cosine) + dot * away


class Network(nn.Module):
    """Probabilities of CLASSES: a mixture of kernel regressions, in double precision."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def forward(self, x):
{prepare}        x, total = x.flatten(1).double(), 0.0
        for at, (kind, scale, n) in enumerate(KERNELS):
            part, clip = (lambda name: getattr(self, f"{{name}}_{{at}}")), {clip}[scale]
            a, b = (((z - self.mean) * getattr(self, scale)).clamp(-clip, clip) for z in (x, self.landmarks))
            k = a if kind == "linear" else gauss(a, b, part("width")) if kind == "gauss" else relu(a, b)
            scores = (k @ part("coefficients") - part("offset")).unflatten(1, (n, len(CLASSES)))
            total = total + (part("weight")[:, None] * (self.log_mean + scores).softmax(2)).sum(1)
        return (total / total.sum(1, keepdim=True)).float()'''
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


def stand_ins(inputs: InputSchema) -> list[float]:
    """By column of x the number that stands for a missing one; NaN where none was missing in training."""
    fill = {} if inputs.missing is None else dict(zip(inputs.missing.columns, inputs.missing.medians, strict=True))
    return [fill.get(at, math.nan) for at in range(inputs.shape[0] - len(fill))]


def snippet(model: Model, state: Mapping[str, Tensor], weights: str) -> str:
    """A program that loads the weights in the file called `weights`.

    Parameters
    ----------
    model : Model
        What model.json holds.
    state : dict of tensors
        The weights, as `network.plain_state` names them.
    weights : str
        The name of their file.
    """
    network, inputs = model.network, model.inputs
    own = network.name in ("mlp", CLOSED_FORM)
    fill = stand_ins(inputs) if inputs.missing else None
    prepare = FILL.format(fill=_numbers(fill), columns=inputs.missing.columns) if inputs.missing and fill else ""
    return BEGIN.format(
        weights=weights,
        needs="torch alone" if own else "torch and pidual",
        shape=", ".join(map(str, inputs.shape if fill is None else [len(fill)])),
        n_classes=len(model.classes),
        imports="" if own else "\nfrom pidual.learn.nets import Standardize, build_network\n",
        classes=repr(list(model.classes)),
        network=mixture(network, state, prepare) if network.name == CLOSED_FORM else members(model, state, prepare),
        dtype=", dtype=torch.uint8" if inputs.kind == "images" else "",
    )


def members(model: Model, state: Mapping[str, Tensor], prepare: str) -> str:
    """Python for networks whose answers are averaged; `prepare` fills in what is missing."""
    network, plain = model.network, model.network.name == "mlp"
    standardised = "mean" in state
    return MEMBERS.format(
        member=layers(state) if plain else builder(network, len(model.classes)),
        n_members=len({name.split(".")[1] for name in state if name.startswith("members.")}),
        buffers=BUFFERS.format(size=len(state["mean"])) if standardised else "",
        prepare=prepare
        + (STANDARDISE if standardised else "")
        + ("        x = x.flatten(1).float()\n" if plain else ""),
    )


def mixture(network: StoredNetwork, state: Mapping[str, Tensor], prepare: str) -> str:
    """Python for a closed form."""
    return MIXTURE.format(
        kernels=repr([tuple(kernel) for kernel in network.options["kernels"]]),
        shapes=repr({name: tuple(value.shape) for name, value in state.items()}),
        constant=CONSTANT,
        clip=CLIP,
        prepare=prepare,
    )


def _numbers(fill: list[float]) -> str:
    """A list of numbers as Python has it."""
    return repr(fill).replace("nan", "torch.nan")


def layers(state: Mapping[str, Tensor]) -> str:
    """Python for a member that is an MLP, by the sizes of its weights."""
    sizes = [state[name].shape for name in state if name.startswith("members.0.") and name.endswith(".weight")]
    linear = [f"nn.Linear({inputs}, {outputs})" for outputs, inputs in sizes]
    return f"nn.Sequential({', nn.ReLU(), '.join(linear)})"


def builder(network: StoredNetwork, n_classes: int) -> str:
    """Python for a member that is one of pidual's networks, or of a library's."""
    size = network.standardize
    given = [f"in_shape={tuple(network.in_shape)}", f"n_classes={n_classes}"]
    given += [f"standardize=Standardize([0.0] * {size}, [1.0] * {size})"] if size else []
    options = {name: value for name, value in network.options.items() if name not in FETCHING}
    given += [f"**{options!r}"] if options else []
    return f"build_network({network.name!r}, {', '.join(given)})"
