"""What the contract fits every method on; on_two_processes.py does so on several processes at once."""

import itertools

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pidual.data.pi import EncodedPI
from pidual.learn.batch import Rows, Spec
from pidual.learn.engine import Interrupted, Session, Training, fit, make_fabric
from pidual.learn.engine.checkpoint import StateStore
from pidual.learn.methods import METHODS
from pidual.learn.nets import MLP
from pidual.options import signature

SPEC = Spec(240, 3, (6,), 2, epochs=4)
OPTIONS = {
    "elr": {"memory": "disk"},
    "sop": {"std": 0.3, "lr_v": 30.0},
    "sop_plus": {"std": 0.3, "lr_v": 30.0},
    "co_teaching": {"noise_rate": 0.3},
    "cores_star": {"ramp": (0.0, 0.5), "sieve_from": 0.2},
    "het": {"draws": 20},
    "het_xl": {"draws": 20},
    "latent_truth": {"folds": 5},
    "cores": {"ramp": (0.0, 0.5), "sieve_from": 0.2},
}
CASES = tuple(METHODS)
TRAINING = Training(epochs=4, batch_size=40, lr=0.05, clip=1.0, seed=3, guard="off")


def make_rows():
    """240 annotations of 80 items in three classes; two of six annotators guess; PI: who answered, numbers."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 80)
    x = (rng.normal(size=(80, 5)) + 3 * np.eye(3, 5)[y]).astype(np.float32)
    item = np.repeat(np.arange(80), 3)
    annotator = rng.integers(0, 6, 240)
    label = np.where(annotator < 2, rng.integers(0, 3, 240), y[item])
    numbers = rng.normal(size=(240, 2)).astype(np.float32)
    return Rows.build(x, item, label, EncodedPI(annotator[:, None].astype(np.int32), numbers), fold=item % 5)


def spec_of(rows, n_classes, cardinalities=()):
    """Sizes of a training set made of these rows."""
    return Spec(len(rows), n_classes, tuple(cardinalities), rows.numbers.shape[1], n_items=len(rows.groups))


def build(name):
    """The method, small."""
    method = METHODS[name]
    width = {"width": 16} if "width" in signature(method) else {}
    return method(MLP(5, 3, width=16, depth=1), SPEC, **width, **OPTIONS.get(name, {}))


def build_trainable(name):
    """The method as the engine trains it: a first stage is over, and its weights are frozen."""
    method = build(name)
    if method.before is not None:
        method.before.requires_grad_(False)
    return method


def fit_method(name, folder=None):
    """Fit; with a folder for its state, stop once in every stage and continue from the state."""
    rows, fabric = make_rows(), make_fabric("cpu")
    stops = (11, 18)[: METHODS[name].stages]  # of 24 steps: in the first stage, in the second
    if METHODS[name].by_item:
        stops = (4, 1, 1)  # of 8: when a second epoch is over, and in the next two
    for stop_at in stops if folder else ():
        steps = itertools.count(1)
        try:
            fit(
                lambda: build(name),
                rows,
                rows,
                TRAINING,
                Session(
                    fabric, store=StateStore(folder), stop=lambda steps=steps, stop_at=stop_at: next(steps) == stop_at
                ),
            )
        except Interrupted:
            continue
        raise AssertionError(f"was not stopped at step {stop_at}")
    return fit(lambda: build(name), rows, rows, TRAINING, Session(fabric, store=StateStore(folder) if folder else None))


def everything(fitted):
    """Last weights and memories by name."""
    memories = {f"memory.{name}": memory.values for name, memory in fitted.method.memories.items()}
    return {name: value.clone() for name, value in (fitted.last | memories).items()}


def resumed(build, folder, stop_at):
    """Last weights and memories of a fit that was stopped after so many steps, and continued."""
    rows, steps = make_rows(), itertools.count(1)
    fabric, store = make_fabric("cpu"), StateStore(folder)
    with pytest.raises(Interrupted):
        fit(build, rows, rows, TRAINING, Session(fabric, store, stop=lambda: next(steps) == stop_at))
    return everything(fit(build, rows, rows, TRAINING, Session(fabric, store)))


def fit_on_two(name, out):
    """On either of two processes: OUT/<case>.safetensors, memories among the weights."""
    tensors = everything(fit_method(name, out / name))
    fabric = make_fabric("cpu")
    for key, value in tensors.items():
        mine = value.double()
        of_all = fabric.all_gather(mine) if fabric.world_size > 1 else mine[None]
        assert all(torch.equal(other, mine) for other in of_all), f"processes differ in {key} of {name}"
    if fabric.global_rank == 0:
        save_file(tensors, out / f"{name}.safetensors")
