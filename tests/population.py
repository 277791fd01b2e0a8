"""Populations for tests; on_two_processes.py fits them on several processes, of which one is asked to stop."""

import itertools
from dataclasses import replace

import numpy as np
from by_item import crowd
from contract import everything
from safetensors.torch import save_file
from torch import nn

from pidual.engine import Interrupted, Training, fit, make_fabric
from pidual.engine.checkpoint import StateStore
from pidual.methods import LatentTruth
from pidual.nets import MLP, Standardize

TRAINING = Training(epochs=3, batch_size=14, lr=0.05, clip=1.0, seed=3, select="last")
KINDS = ("stacked", "apart")


def spec_of(rows):
    """Sizes of the crowd's rows, whose categories are annotators."""
    return replace(rows.spec(3, (6,)), code_names=("annotator",))


def build(rows, kind, network=None):
    """Makes a population of 2 x 5 MLPs, which are stacked, or of 5 networks that cannot be."""

    def make():
        if kind == "stacked":
            settings = ((1e-3, 0.0, 1.0), (1e-2, 0.5, 0.5))
            return LatentTruth(MLP(5, 3, width=16, depth=1, dropout=0.2), spec_of(rows), population=settings)
        layers = (Standardize(np.zeros(5), np.ones(5)), nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
        return LatentTruth(network() if network else nn.Sequential(*layers), spec_of(rows))

    return make


def fit_population(kind, rows=None, training=TRAINING, network=None, precision="32-true", **how):
    """Fit a population to the crowd."""
    rows = crowd() if rows is None else rows
    make, fabric = build(rows, kind, network), make_fabric("cpu", precision)
    return fit(make, rows, None, training, fabric=fabric, **how)


def stop_at(step):
    """Asks to stop at this step."""
    steps = itertools.count(1)
    return lambda: next(steps) == step


def fit_on_two(out):
    """On either of two processes: OUT/stacked.safetensors and OUT/apart.safetensors."""
    rank = make_fabric("cpu").global_rank
    for kind in KINDS:
        how = {"precision": "64-true", "store": StateStore(out / kind)}
        try:  # the second process alone is asked: in its first group, or in its second one
            fit_population(kind, stop=stop_at(11 if kind == "stacked" else 26) if rank == 1 else lambda: False, **how)
        except Interrupted:
            (out / f"{kind}-stopped-{rank}").touch()
        tensors = everything(fit_population(kind, **how))
        if rank == 0:
            save_file(tensors, out / f"{kind}.safetensors")
