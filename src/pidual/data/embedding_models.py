"""Models that turn texts or pictures into vectors, by name: loaded when they are first needed, never fetched unnamed.

sentence-transformers/all-MiniLM-L6-v2     a model of the Hugging Face hub, of texts or (CLIP) pictures
models/minilm                              a folder that sentence-transformers reads
timm:NAME, torchvision:NAME                pretrained networks, without their last layer
model.onnx                                 a network of pictures
package.module:function                    any function from a list of texts or pictures to an array
"""

import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..errors.messages import first_line, quoted
from ..files import fingerprint
from .images import fit_image

LIBRARIES = ("timm", "torchvision")
USUAL_SIDE = 224  # pixels, where a network reads pictures of any size
IMAGENET = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)  # mean and standard deviation

Encode = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Model:
    """A model by name.

    Parameters
    ----------
    name : str
    key : str
        What tells its vectors from those of others: name and version, or a digest of its files.
    encode : callable
        From a list of texts or pictures to an array with a row for each.
    checked : bool
        Whether its key may be that of another model as well, so that what is kept must be compared.
    """

    name: str
    key: str
    encode: Encode
    checked: bool = False


def find_model(named: str | Path | Encode, kind: str, *, of_run: bool = False) -> Model:
    """Find a model that the user names for "texts" or "pictures".

    `of_run`: a run names it. Nothing of a run is executed, read or fetched: that takes a model of the hub that is
    already on this machine.
    """
    if callable(named):
        return _of_function(named)
    name = str(named)
    path, library = Path(name).expanduser(), name.partition(":")[0]
    of_hub = re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name) is not None and not name.endswith(".onnx")
    if of_run and (path.exists() or not of_hub):
        raise UsageError(
            "The inputs of the fit were embedded by a model that is not on the hub, and no run loads code or files by "
            f"itself; if you trust the model, name it again: --embed {name} (in Python embed=)."
        )
    if kind == "texts" and (library in LIBRARIES or name.endswith(".onnx")):
        raise UsageError(f"The model {quoted(name)} reads pictures, not texts; name one of sentence-transformers.")
    if library in LIBRARIES and library != name:
        return _of_library(name)
    if name.endswith(".onnx") and path.is_file():
        return _of_onnx(name, path)
    if path.is_dir():
        return _of_sentence_transformers(name, str(path), _digest(sorted(path.rglob("*"))))
    if re.fullmatch(r"[\w.]+:[\w.]+", name):
        return _of_function(_import_function(name))
    if not of_hub:
        raise UsageError(f"There is no model {quoted(name)}: no file or folder has this name; check the path.")
    return _of_hub(name, fetch=not of_run)


def _of_function(function: Encode) -> Model:
    """Return a model that is a function of the user's own, told from others by its name and its code."""
    home, own = getattr(function, "__module__", ""), getattr(function, "__qualname__", type(function).__qualname__)
    version = fingerprint(_code_of(getattr(function, "__code__", None)))
    return Model(f"{home}:{own}", f"{home}:{own} {version}", function, checked=True)


def _code_of(code: CodeType | None) -> Iterator[bytes]:
    """Yield what a function does, and the functions in it: the same in every process."""
    if code is not None:
        yield from (code.co_code, repr(code.co_names).encode())
        for value in code.co_consts:
            if isinstance(value, CodeType):
                yield from _code_of(value)
            elif isinstance(value, str | bytes | int | float):
                yield repr(value).encode()


def _import_function(name: str) -> Encode:
    module, _, inner = name.partition(":")
    try:
        found = functools.reduce(getattr, inner.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        way_out = "check the name, and that its folder is on the Python path (PYTHONPATH)"
        raise UsageError(f"There is no function {quoted(name)} ({first_line(error)}); {way_out}.") from None
    if not callable(found):
        raise UsageError(f"{quoted(name)} is not a function; name one from a list of items to an array.")
    return found


# --- sentence-transformers ---


def _of_hub(name: str, *, fetch: bool) -> Model:
    """Return a model of the hub, by its commit; it is downloaded if the user has named it."""
    _need("sentence_transformers", name, "text")
    hub: Any = importlib.import_module("huggingface_hub")
    repository = name if "/" in name else f"sentence-transformers/{name}"

    def commit() -> str | None:
        places = (hub.try_to_load_from_cache(repository, file) for file in ("modules.json", "config.json"))
        return next((Path(place).parent.name for place in places if isinstance(place, str)), None)

    found = commit()
    if found is None and not fetch:
        raise UsageError(
            f"The inputs of the fit were embedded by {quoted(name)}, which is not on this machine; to download it, "
            f"name it again: --embed {name} (in Python embed=)."
        )
    if found is None:
        try:
            hub.HfApi().model_info(repository, timeout=10)
            hub.snapshot_download(repository, ignore_patterns=["*.onnx", "*.h5", "*.ot", "*.msgpack", "openvino/*"])
        except Exception as error:  # of the hub or of any library that connects to it
            raise UsageError(
                f"There is no model {quoted(name)} on this machine, and it cannot be downloaded ({first_line(error)}); "
                "check its name and the connection, or give the folder of a model."
            ) from None
        found = commit()
    return _of_sentence_transformers(name, repository, f"commit {found}")


def _of_sentence_transformers(name: str, place: str, version: str) -> Model:
    """Return a model in a folder, or one of the hub that is on this machine."""
    _need("sentence_transformers", name, "text")

    @functools.cache
    def load() -> Any:
        library: Any = importlib.import_module("sentence_transformers")
        bars: Any = importlib.import_module("transformers.utils.logging")
        shown = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
        try:
            return library.SentenceTransformer(place, local_files_only=True)
        except Exception as error:  # it raises all kinds for folders that hold no model
            raise _unreadable(name, "sentence-transformers", error) from None
        finally:
            if shown:
                bars.enable_progress_bar()

    return Model(name, f"sentence-transformers {version}", lambda items: load().encode(items, show_progress_bar=False))


# --- networks of pictures ---


def _of_library(name: str) -> Model:
    """Return a pretrained network of timm or torchvision without its last layer; the library downloads its weights."""
    library, _, inner = name.partition(":")
    _need(library, name, "vision")

    @functools.cache
    def load() -> tuple[Any, Any]:
        try:
            return (_from_timm if library == "timm" else _from_torchvision)(inner)
        except Exception as error:  # also RuntimeError of a torchvision that does not fit torch
            raise _unreadable(name, library, error) from None

    def encode(pictures: list[Any]) -> NDArray[Any]:
        import torch

        network, prepare = load()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.inference_mode():
            found: NDArray[Any] = network.to(device)(torch.stack([*map(prepare, pictures)]).to(device)).cpu().numpy()
        return found

    return Model(name, f"{name} {metadata.version(library)}", encode)


def _from_timm(inner: str) -> tuple[Any, Any]:
    timm, data = importlib.import_module("timm"), importlib.import_module("timm.data")
    network = timm.create_model(inner, pretrained=True, num_classes=0).eval()
    return network, data.create_transform(**data.resolve_model_data_config(network))


def _from_torchvision(inner: str) -> tuple[Any, Any]:
    from torch import nn

    models = importlib.import_module("torchvision.models")
    weights = models.get_model_weights(inner).DEFAULT
    network = models.get_model(inner, weights=weights).eval()
    last = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)][-1]
    parent, _, own = last.rpartition(".")
    setattr(network.get_submodule(parent), own, nn.Identity())
    return network, weights.transforms()


def _of_onnx(name: str, path: Path) -> Model:
    """Return a network in an ONNX file: bytes as they are, or floats standardised as is usual on ImageNet."""
    _need("onnxruntime", name, "onnx")

    @functools.cache
    def load() -> tuple[Any, bool, tuple[int, int]]:
        try:
            session = importlib.import_module("onnxruntime").InferenceSession(path)
            shape = session.get_inputs()[0].shape
            if len(shape) != 4 or 3 not in (shape[1], shape[3]):
                raise ValueError(f"its input has the shape {shape}, not (pictures, 3, height, width)")
        except Exception as error:  # onnxruntime has exceptions of its own
            raise _unreadable(name, "onnxruntime", error) from None
        first = shape[1] == 3
        sides = [size if isinstance(size, int) else USUAL_SIDE for size in (shape[2:] if first else shape[1:3])]
        return session, first, (sides[0], sides[1])

    def encode(pictures: list[Any]) -> NDArray[Any]:
        session, first, size = load()
        given = session.get_inputs()[0]
        x = np.stack([np.asarray(fit_image(picture, size)) for picture in pictures])
        if given.type != "tensor(uint8)":
            x = (x.astype(np.float32) / 255 - IMAGENET[0]) / IMAGENET[1]
        found: NDArray[Any] = session.run(None, {given.name: x.transpose(0, 3, 1, 2) if first else x})[0]
        return found.mean((2, 3)) if found.ndim == 4 else found

    return Model(name, f"onnx {_digest(sorted(path.parent.glob(f'{path.name}*')))}", encode)


# --- what they share ---


def _need(module: str, name: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        library = module.replace("_", "-")
        raise UsageError(f"Embeddings by {quoted(name)} need {library}: pip install 'pidual[{extra}]'.")


def _unreadable(name: str, library: str, error: Exception) -> UsageError:
    why = f"{library} cannot load the model {quoted(name)} ({first_line(error)})"
    return UsageError(f"{why}; check its name or its files.")


def _digest(paths: Sequence[Path]) -> str:
    return fingerprint(path.read_bytes() for path in paths if path.is_file())
