"""Write the prediction network of a run for programs that know nothing of pidual: as ONNX, or for torch alone.

Both take inputs as the run took them, standardise them, and give a probability of every class; several networks give
their average, and a closed form that of its kernels. Both are made of one traced program, and compared with ours.
"""

import contextlib
import importlib.util
import io
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator
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
from ...learn.methods import Method
from ...learn.nets import Standardize
from ...run.files import RunFiles
from ...run.records.config import InputSchema

CLOSE = 1e-5  # how far probabilities of the exported network may be from ours
N_CHECKED = 64  # made-up inputs that are compared
DRAWING = ("afm", "het", "het_xl")  # methods that average over draws made in Python


class Probabilities(nn.Module):
    """Gives the probabilities that a method has for inputs.

    `method`: a trained one.
    `inputs`: the schema of its inputs. Missing numbers (NaN) are filled in as `data.inputs` does it.
    """

    fill: Tensor | None

    def __init__(self, method: Method, inputs: InputSchema) -> None:
        super().__init__()
        self.method = method
        known = {} if inputs.missing is None else dict(zip(inputs.missing.columns, inputs.missing.medians, strict=True))
        self.columns, fill = list(known), [known.get(at, math.nan) for at in range(inputs.shape[0] - len(known))]
        self.register_buffer("fill", torch.tensor(fill) if known else None)

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
    if kind == "text" or run.model.inputs.embed is not None:
        what = "text, which pidual turns" if kind == "text" else "pictures, which another model turns"
        raise UsageError(f"{run.path} was fitted on {what} into numbers first; predict with `pidual predict`.")
    if "n_described" in run.model.network.options:
        raise UsageError(
            f"{run.path} was fitted on features of pictures, which are no part of a network; predict with `pidual "
            "predict`, or train a network (fit --network small_cnn) to export it."
        )
    if run.model.method in DRAWING:
        raise UsageError(f"The method {run.model.method} averages over random draws, which cannot be exported.")
    return load_method(run)[0]


def write_onnx(run: RunFiles, out: Path) -> float | None:
    """Write the prediction network as ONNX: `x` (any number of rows) to `probabilities`, classes in the metadata.

    `run`: a finished run.
    `out`: the file.
    Returned: the largest difference from our own probabilities in onnxruntime; None where that is not installed. One
        above 1e-5 is an error, and nothing is written.
    """
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    network = Probabilities(load_network(run), run.model.inputs).eval()
    if missing:
        raise UsageError(f"ONNX needs {' and '.join(missing)}: pip install 'pidual[onnx]'.")
    x = made_up_inputs(run.model.inputs, network)
    with _tracing("ONNX", "torch"):
        made: Any = torch.onnx.export(
            trace(network, x),
            input_names=["x"],
            output_names=["probabilities"],
            custom_translation_table={torch.ops.aten.acos.default: _exact_acos},
            verbose=False,
        )
    made.model.metadata_props["classes"] = json.dumps(run.model.classes, ensure_ascii=False)
    made.model.producer_name = "pidual"
    with replacing(out) as temporary:
        made.save(temporary)
        return _compare_onnx(network, temporary, x)


def write_torch(run: RunFiles, out: Path) -> float:
    """Write the prediction network as a program for `torch.export.load`, with the classes as its file classes.json.

    The parameters are as for `write_onnx`; so is what is returned, which is always known here.
    """
    network = Probabilities(load_network(run), run.model.inputs).eval()
    x = made_up_inputs(run.model.inputs, network)
    with _tracing("a program of torch", "onnx"):
        program = trace(network, x)
    loaded = program.module()
    worst = compare(network, x, lambda rows: loaded(torch.from_numpy(rows)).detach().numpy())
    classes = json.dumps(run.model.classes, ensure_ascii=False)
    written = io.BytesIO()  # torch writes to a full disk with an error of its own
    torch.export.save(program, written, extra_files={"classes.json": classes})
    with replacing(out) as temporary:
        temporary.write_bytes(written.getbuffer())
    return worst


def trace(network: Probabilities, x: NDArray[Any]) -> Any:
    """Make the program of a network, for any number of rows."""
    return torch.export.export(network, (torch.from_numpy(x),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))


def _exact_acos(x: Any) -> Any:
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
def _tracing(what: str, other: str) -> Iterator[None]:
    """Hide what torch has to say to its own developers, and say in a sentence where it cannot write a network."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    except (torch.onnx.errors.OnnxExporterError, RuntimeError, ValueError, TypeError) as error:
        raise RunError(
            f"torch cannot write this network as {what} ({type(error).__name__}); use --to {other}."
        ) from error
    finally:
        logger.setLevel(level)


def _compare_onnx(network: Probabilities, path: Path, x: NDArray[Any]) -> float | None:
    """Return the largest difference between onnxruntime and us; None without it."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    if isinstance(session.get_inputs()[0].shape[0], int):
        raise RunError("torch cannot write this network as ONNX for any number of rows; use --to torch.")
    return compare(network, x, lambda rows: session.run(["probabilities"], {"x": rows})[0])


def compare(network: Probabilities, x: NDArray[Any], theirs: Callable[[NDArray[Any]], NDArray[Any]]) -> float:
    """Return the largest difference of another program from us, for all inputs at once and for one."""
    worst = 0.0
    for rows in (x, x[:1]):
        with torch.inference_mode():
            ours = network(torch.from_numpy(rows)).numpy()
        worst = max(worst, float(np.abs(ours - theirs(rows)).max()))
    if not worst <= CLOSE:
        raise RunError(f"What was made differs from ours by up to {worst:.2g} in a probability; it is not written.")
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
