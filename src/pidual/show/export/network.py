"""Write the prediction network of a run for programs that know nothing of pidual: ONNX, or a plain state dict.

Both take inputs as the run took them, standardise them, and give a probability of every class; several networks give
their average, and a closed form that of its kernels.
"""

import contextlib
import importlib.util
import io
import json
import logging
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import RunError, UsageError
from ...files import replacing
from ...fit.load_model import load_method
from ...learn.closed_form.network import KernelMixture
from ...learn.methods import LatentTruth, Method
from ...learn.methods.fitted_truth import FittedTruth
from ...learn.nets import MLP, Standardize
from ...run.files import RunFiles
from ...run.records.model import InputSchema
from . import snippet_path
from .snippet import snippet, stand_ins

CLOSE = 1e-5  # how far probabilities of the exported network may be from ours
N_CHECKED = 64  # made-up inputs that are compared
DRAWING = ("afm", "het", "het_xl")  # methods that average over draws made in Python


class Probabilities(nn.Module):
    """Gives the probabilities that a method has for inputs.

    Parameters
    ----------
    method : Method
        A trained one.
    inputs : InputSchema
        The schema of its inputs. Missing numbers (NaN) are filled in as `data.inputs` does it.
    """

    fill: Tensor | None

    def __init__(self, method: Method, inputs: InputSchema) -> None:
        super().__init__()
        self.method = method
        self.columns = [] if inputs.missing is None else inputs.missing.columns
        self.register_buffer("fill", torch.tensor(stand_ins(inputs)) if self.columns else None)

    def forward(self, x: Tensor) -> Tensor:
        """Return class probabilities (B, K)."""
        if self.fill is not None:
            gaps = x.isnan()
            x = torch.cat([torch.where(gaps, self.fill, x), gaps[:, self.columns].float()], 1)
        return self.method.logits(x).softmax(1).float()


def load_network(run: RunFiles) -> Method:
    """Load the trained method of a run; an error where it reads no array of numbers."""
    kind = run.model.inputs.kind
    if kind == "none":
        raise UsageError(f"{run.path} was fitted without inputs (--no-x), so it has no network to export.")
    if kind == "text":
        raise UsageError(
            f"{run.path} was fitted on text, which pidual turns into numbers first; predict with `pidual predict`."
        )
    if run.model.method in DRAWING:
        raise UsageError(f"The method {run.model.method} averages over random draws, which cannot be exported.")
    return load_method(run)[0]


def write_onnx(run: RunFiles, out: Path) -> float | None:
    """Write the prediction network as ONNX: `x` (any number of rows) to `probabilities`, classes in the metadata.

    Parameters
    ----------
    run : RunFiles
        A finished run.
    out : Path
        The file.

    Returns
    -------
    float or None
        The largest difference from our own probabilities in onnxruntime; None where that is not installed. One above
        1e-5 is an error, and nothing is written.
    """
    network = Probabilities(load_network(run), run.model.inputs).eval()
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"ONNX needs {' and '.join(missing)}: pip install 'pidual[onnx]'.")
    x = made_up_inputs(run.model.inputs, network)
    program = trace(network, torch.from_numpy(x))
    program.model.metadata_props["classes"] = json.dumps(run.model.classes, ensure_ascii=False)
    program.model.producer_name = "pidual"
    with replacing(out) as temporary:
        program.save(temporary)
        return compare(network, temporary, x)


def trace(network: Probabilities, x: Tensor) -> Any:
    """Make the ONNX program of a network, for any number of rows."""
    batch = torch.export.Dim("batch", min=1)
    try:
        with quiet_torch():
            return torch.onnx.export(
                network,
                (x,),
                dynamo=True,
                input_names=["x"],
                output_names=["probabilities"],
                dynamic_shapes=({0: batch},),
                custom_translation_table={torch.ops.aten.acos.default: exact_acos},
                verbose=False,
            )
    except (torch.onnx.errors.OnnxExporterError, RuntimeError, ValueError, TypeError) as error:
        raise RunError(f"torch cannot write this network as ONNX ({type(error).__name__}); use --to torch.") from error


def exact_acos(x: Any) -> Any:
    """Write arc cosine in double precision as ONNX; onnxruntime has one of single precision alone, and sines of both.

    The angle from the nearer end, in single precision, then a step of Newton's method.
    """
    import onnxscript

    op: Any = onnxscript.opset18
    numbers = (onnxscript.ir.tensor(np.array(number)) for number in (1.0, 0.5, 0.0, 1e-300, math.pi))
    one, half, none, tiny, pi = (op.CastLike(op.Constant(value=number), x) for number in numbers)
    nearer = op.Abs(x)
    angle = op.CastLike(op.Asin(op.Cast(op.Sqrt(op.Mul(op.Sub(one, nearer), half)), to=1)), x)
    angle = op.Add(angle, angle)
    angle = op.Add(angle, op.Div(op.Sub(op.Cos(angle), nearer), op.Max(op.Sin(angle), tiny)))
    return op.Where(op.Less(x, none), op.Sub(pi, angle), angle)


@contextlib.contextmanager
def quiet_torch() -> Iterator[None]:
    """Hide what torch.onnx has to say to its own developers."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def compare(network: Probabilities, path: Path, x: NDArray[Any]) -> float | None:
    """Return the largest difference between onnxruntime and us, of all inputs at once and of one; None without it."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    if isinstance(session.get_inputs()[0].shape[0], int):
        raise RunError("torch cannot write this network as ONNX for any number of rows; use --to torch.")
    worst = 0.0
    for rows in (x, x[:1]):
        with torch.inference_mode():
            ours = network(torch.from_numpy(rows)).numpy()
        theirs = session.run(["probabilities"], {"x": rows})[0]
        worst = max(worst, float(np.abs(ours - theirs).max()))
    if not worst <= CLOSE:
        raise RunError(f"The ONNX network differs from ours by up to {worst:.2g} in a probability; it is not written.")
    return worst


def made_up_inputs(inputs: InputSchema, network: nn.Module) -> NDArray[Any]:
    """Draw inputs like those of the run: bytes for pictures, shares for probabilities, else numbers around the mean."""
    rng = np.random.default_rng(0)
    size = (N_CHECKED, *inputs.shape)
    if inputs.kind == "images":
        return rng.integers(0, 256, size, np.uint8)
    if inputs.kind == "probabilities":
        return rng.dirichlet(np.ones(size[1]), N_CHECKED).astype(np.float32)
    x = rng.normal(size=size)
    for module in network.modules():
        if isinstance(module, Standardize):
            shape = (-1,) + (1,) * (x.ndim - 2)
            x = x * module.std.numpy().reshape(shape) + module.mean.numpy().reshape(shape)
        elif isinstance(module, KernelMixture):
            scale = torch.maximum(module.each, module.alike).numpy()  # 0 where a column was constant, or was not used
            spread = np.divide(1, scale, out=np.ones_like(scale), where=scale > 0)
            x = x * spread.reshape(x.shape[1:]) + module.mean.numpy().reshape(x.shape[1:])
    if missing := inputs.missing:
        x = x[:, : -len(missing.columns)]
        x[::3, missing.columns] = np.nan
    return x.astype(np.float32)


def write_state_dict(run: RunFiles, out: Path) -> None:
    """Write the weights of the prediction network as a plain state dict, and beside it Python that loads them.

    Parameters
    ----------
    run : RunFiles
        A finished run.
    out : Path
        The file of weights; `torch.load` reads it. The program is at `snippet_path(out)`.
    """
    method = load_network(run)
    if not isinstance(method, LatentTruth | FittedTruth) and type(method).logits is not Method.logits:
        raise UsageError(
            f"The method {run.model.method} predicts by more than its network; use --to onnx, or Run.load()."
        )
    if run.model.inputs.kind == "probabilities":
        raise UsageError(f"{run.path} was fitted on given probabilities and has no network; use --to onnx.")
    state = plain_state(method)
    text = snippet(run.model, state, out.name)
    weights = io.BytesIO()  # torch.save to a full disk ends in a RuntimeError
    torch.save(state, weights)
    with replacing(snippet_path(out)) as program, replacing(out) as temporary:
        program.write_text(text, encoding="utf-8")
        temporary.write_bytes(weights.getbuffer())


def plain_state(method: Method) -> dict[str, Tensor]:
    """Return weights by the names that the snippet has: `members.i`; of MLPs also `mean` and `std`.

    A closed form has names of its own.
    """
    if isinstance(method.f, KernelMixture):
        return {name: value.clone() for name, value in method.f.state_dict().items()}
    members: list[Any] = method.members if isinstance(method, LatentTruth) else [method.f]
    state: dict[str, Tensor] = {}
    for i, f in enumerate(members):
        named = f.state_dict()
        if type(f) is MLP:
            linear = [layer for layer in (*f.hidden, f.head) if isinstance(layer, nn.Linear)]
            named = {f"{2 * at}.{name}": v for at, layer in enumerate(linear) for name, v in layer.named_parameters()}
        state |= {f"members.{i}.{name}": value for name, value in named.items()}
    if type(members[0]) is MLP and members[0].standardize is not None:
        state |= {"mean": members[0].standardize.mean, "std": members[0].standardize.std}
    return {name: value.detach().clone() for name, value in state.items()}
