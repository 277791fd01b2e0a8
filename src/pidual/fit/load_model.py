"""The trained method of a run, read back, and its predictions for new inputs.

What model.json says decides how much memory a method takes, so it is compared with the weights before any is taken: the
method is first built without memory, from sizes alone.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from msgspec import structs
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode

from ..data import load_inputs
from ..data.embedding import Embedder, Progress
from ..errors import DataError, RunError, UsageError
from ..errors.messages import quoted
from ..learn.batch import Spec, as_storage
from ..learn.engine import predicting_fabric
from ..learn.engine.checkpoint import load_shapes, load_tensors, shape_mismatch
from ..learn.engine.predict import predict_probabilities
from ..learn.methods import Method, check_method
from ..learn.nets import Standardize
from ..run.files import RunFiles
from ..run.predictions import label_column
from ..run.records.config import InputSchema, Model
from ..run.records.reading import DAMAGED
from .factories import method_maker, network_maker

FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.rand, torch.randn)
WEIGHTS = {"selected": "model.safetensors", "last": "model-last.safetensors"}
LARGEST_OPTION = 1_000_000  # of those that are not a size of a network, such as draws
FETCHING = (  # options of other libraries that read files or the network; a run has its own weights
    *("weights", "weights_backbone", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path"),
    "cache_dir",
)


def load_method(run: RunFiles, weights: str = "selected") -> tuple[Method, dict[str, NDArray[Any]]]:
    """Load the trained method of a run, and the arrays its inputs are made with.

    `weights` ("selected" or "last"): of which epoch.
    """
    if weights not in WEIGHTS:
        raise UsageError(f"weights must be one of {', '.join(WEIGHTS)}, not {quoted(weights)}.")
    if run.summary.label_sets is not None:
        raise UsageError(
            f"{run.path} has judged sets of labels and keeps no classifier; train yours on what `pidual export --soft` "
            "writes."
        )
    name = WEIGHTS[weights]
    run.checked(name)
    return build_trained(run.path / "model.json", run.model, run.path / name)


def build_trained(described: Path, model: Model, path: Path) -> tuple[Method, dict[str, NDArray[Any]]]:
    """Build the method that a file like model.json describes, with the weights at `path`, and the arrays of inputs."""
    shapes = load_shapes(path)
    build = method_of(described, model, sum(math.prod(shape) for shape in shapes.values()))
    sizes = sizes_of(build, 100 + 20 * len(shapes), of_library=":" in model.network.name)
    own = {f"method.{name}": shape for name, shape in sizes.items()}
    wrong = shape_mismatch(own | _array_shapes(model.inputs), shapes)
    if wrong is not None:
        raise RunError(f"{path} does not fit {described}: {wrong}; {DAMAGED}.")
    tensors = load_tensors(path)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise RunError(f"{path} holds numbers that are not finite in {name}; {DAMAGED}.")
    parts: dict[str, dict[str, torch.Tensor]] = {"method": {}, "inputs": {}}
    for key, tensor in tensors.items():
        part, _, name = key.partition(".")
        parts[part][name] = tensor
    method = build()
    method.load_state_dict(parts["method"])
    return method.eval(), {name: value.numpy() for name, value in parts["inputs"].items()}


def sizes_of(build: Callable[[], Method], most: int, *, of_library: bool) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of the method that `build` makes, at most `most`, without making them.

    Networks of other libraries may compute with numbers when they are made; they are then made as usual.
    """
    try:
        with WithoutMemory(most):
            state = build().state_dict()
    except RunError:
        if not of_library:
            raise
        state = build().state_dict()
    return {name: tuple(value.shape) for name, value in state.items()}


def method_of(path: Path, model: Model, n_weights: int) -> Callable[[], Method]:
    """Return a function that makes the method that the model.json at `path` describes, which has so many weights."""
    network, spec = model.network, model.spec
    given = [*network.options.items(), *model.method_options.items(), *(model.answers or {}).items()]
    for name, value in [*given, ("standardize", network.standardize), ("n_numbers", spec.n_numbers)]:
        if isinstance(value, int) and value > max(n_weights, LARGEST_OPTION):
            raise RunError(f"{path} has {name} = {value}, and the model has {n_weights} weights in all; {DAMAGED}.")
    if ":" in network.name:
        check_library_name(path, network.name)
        options = {name: value for name, value in network.options.items() if name not in FETCHING}
        network = structs.replace(network, options=options)

    def build() -> Method:
        size = network.standardize
        standardize = Standardize(np.zeros(size), np.ones(size)) if size else None
        try:
            check_method(model.method)
            sized = Spec(**structs.asdict(spec))
            make = network_maker(network, sized.n_classes, standardize)
            how: dict[str, Any] = {"network": network.name, "answers": model.answers}
            return method_maker(model.method, model.method_options, sized, make, **how)()
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise RunError(f"{path} describes a model that cannot be built ({reason}); {DAMAGED}.") from error

    return build


def check_library_name(path: Path, name: str) -> None:
    """Refuse a network of another library whose name is a place to fetch it from, as timm allows."""
    inner = name.partition(":")[2]
    if not inner.replace(".", "_").isidentifier():
        raise RunError(f"{path} names the network {name[:100]!r}, which is not a name of a network; {DAMAGED}.")


def _array_shapes(inputs: InputSchema) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that inputs of this schema are made with."""
    size = 0 if inputs.embed is None else inputs.embed.size
    shapes: dict[str, tuple[int, ...]] = {"inputs.probe": (size,)} if size else {}
    if inputs.kind == "text":
        n_terms = len(inputs.vocabulary or ())
        shapes |= {"inputs.idf": (n_terms,), "inputs.components": (inputs.shape[0] - size, n_terms)}
        shapes |= {"inputs.scale": (1,)} if size else {}
    return shapes


class WithoutMemory(TorchFunctionMode):
    """Inside, tensors that are made by their size have that size and no numbers: they are on the device "meta".

    Tensors made of numbers, and single random ones, are as usual: constructors compute with them.

    `most`: more tensors than this are not made; it is a RuntimeError to ask for them.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, on meta if it makes a tensor by size."""
        kwargs = dict(kwargs or {})
        if func in FACTORIES:
            kwargs["device"] = "meta"
            self.most -= 1
            if self.most < 0:
                raise RuntimeError("it has more layers than the weights")
        return func(*args, **kwargs)


def predict_inputs(
    trained: tuple[Method, dict[str, NDArray[Any]]],
    model: Model,
    source: Any,
    *,
    accelerator: str = "auto",
    embed: Embedder | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Predict new inputs: item, predicted_label, predicted_probability, and a probability for every class.

    `trained`: what `load_method` returns.
    `model`: model.json of its run.
    `source`: inputs of the kind the run was fitted with.
    `embed`, `progress`: as for `load_inputs`.
    """
    method, arrays = trained
    inputs = load_inputs(source, schema=model.inputs.to_json(), tensors=arrays, embed=embed, progress=progress)
    n, classes = len(inputs), model.classes
    fabric = predicting_fabric(accelerator)
    parts = predict_probabilities(method, as_storage(inputs.array), fabric)
    p = np.concatenate([np.zeros((0, len(classes))), *parts])
    lost = np.flatnonzero(~np.isfinite(p).all(1))
    if len(lost):
        raise DataError(
            f"{inputs.source}, row {lost[0]} (counted from 0): the model's answer is not a number, because values of "
            "the input are too large; give inputs made as those the model was trained with."
        )
    frame = pd.DataFrame({"item": inputs.names if inputs.names is not None else np.arange(n)})
    frame["predicted_label"] = label_column(p.argmax(1), classes)
    frame["predicted_probability"] = p.max(1)
    return pd.concat([frame, pd.DataFrame(p, columns=[f"p_{name}" for name in classes])], axis=1)
