"""Functions that make the network and the method of a fit, as often as they are needed."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..data import Inputs
from ..errors import UsageError
from ..errors.messages import first_line
from ..learn.batch import Spec
from ..learn.closed_form.network import KernelMixture
from ..learn.closed_form.pictures import PictureMixture
from ..learn.methods import METHODS, Method
from ..learn.methods.fitted_truth import AnswerWeights, FittedTruth
from ..learn.nets import Standardize, build_network
from ..options import check_options, signature
from ..run.files import CLOSED_FORM, WITHOUT_TRAINING
from ..run.records.config import Network

STANDARDIZE_BYTES = 2**27  # how much of x is looked at for mean and standard deviation


def standardize_inputs(inputs: Inputs, used: NDArray[np.int64]) -> Standardize:
    """Measure mean and standard deviation of the training inputs, of evenly spaced ones where there are very many."""
    used = np.flatnonzero(np.bincount(used))
    x = inputs.array
    used = used[:: max(1, len(used) * 4 * math.prod(x.shape[1:]) // STANDARDIZE_BYTES)]
    found = Standardize.fit(x[used] if isinstance(x, np.ndarray) else x.take(used))
    if (
        inputs.kind == "text"
    ):  # the directions of text vectors come in order of importance, which scaling each would undo
        return Standardize(found.mean.numpy(), np.full(len(found.std), found.std.square().mean().sqrt().item()))
    return found


def network_maker(network: Network, n_classes: int, standardize: Standardize | None) -> Callable[[], nn.Module]:
    """Return a function that makes a fresh network."""
    name, in_shape, options = network.name, tuple(network.in_shape), network.options
    given = [option for option in ("name", "in_shape", "n_classes", "standardize") if option in options]
    if given:
        raise UsageError(
            f"network.{given[0]} is not an option of --set: the data decides it, or --network; leave it out."
        )
    if name == CLOSED_FORM and "n_described" in options:
        return lambda: PictureMixture(in_shape, n_classes, **options)
    if name == CLOSED_FORM:
        return lambda: KernelMixture(math.prod(in_shape), n_classes, **options)
    return lambda: build_network(name, in_shape=in_shape, n_classes=n_classes, standardize=standardize, **options)


def method_maker(
    name: str,
    options: Mapping[str, Any],
    spec: Spec,
    make: Callable[[], nn.Module],
    *,
    network: str = "",
    twice: bool = False,
    answers: Mapping[str, Any] | None = None,
) -> Callable[[], Method]:
    """Return a function that makes the method around a fresh network, which may be one of WITHOUT_TRAINING.

    `answers` has it hold what was learned about answers. `twice` also makes the second network of a method that has
    one, where it otherwise draws the weights of a copy: what is made may have been trained before.
    """

    method: Callable[..., Method] = FittedTruth if network in WITHOUT_TRAINING else METHODS[name]
    check_options(f"method '{name}'", method, options)

    def build() -> Method:
        second = [make()] if twice and "second" in signature(method) else []
        made = method(make(), spec, *second, **options)
        if answers is not None:
            made.learned = AnswerWeights(spec, **answers)
        return made

    return build


def check_build(build: Callable[[], Method]) -> Method:
    """Build once, so that impossible options are refused before anything is written."""
    try:
        with torch.random.fork_rng(devices=[]):
            return build()
    except (RuntimeError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"The networks cannot be built with these options ({first_line(error)}).") from error
