"""What recipes share.

The paper searches options on grids (`pidual.paper.grids`) and does not say what it chose: MIDDLE_OF_GRID has the middle
of each grid, of two values one. Rate and weight decay are 0.1 and 1e-4 of the paper's grid. Where the paper is silent
its code base counts (`paper_protocol(codebase=True)`).
"""

from collections.abc import Mapping
from typing import Any

from ..protocol import PI_DUAL_PLUS_SCHEDULE, paper_protocol

Methods = Mapping[str, Mapping[str, Any]]


def merge(*parts: Methods) -> dict[str, dict[str, Any]]:
    """Settings by method; later parts win, option by option."""
    methods = dict.fromkeys(method for part in parts for method in part)
    return {method: {k: v for part in parts for k, v in part.get(method, {}).items()} for method in methods}


PAPER_CIFAR: dict[str, Any] = {
    **paper_protocol("cifar", codebase=True),
    "network": "wrn_28_10",
    "network.statistics": "cifar10",
}
PAPER_IMAGENET: dict[str, Any] = {
    **paper_protocol("imagenet", codebase=True),
    "crop_pad": 0,
    "network": "resnet50",
    "network.statistics": "unit",
}
MIDDLE_OF_GRID: Methods = {
    "elr": {"beta": 0.7, "lam": 3.0},
    "sop": {"lr_u": 10.0, "lr_v": 100.0},
    "het": {"tau": 1.25},
    "tram_plus_plus": {"width": 1024, "random_pi": 14, "head_weight": 0.5},
    "pi_dual": {"random_pi": 8},
    "pi_dual_plus": {"random_pi": 8, "smoothing": 0.4, "lam": 1.0},
}
WIDTH_1024: Methods = {"pi_dual": {"width": 1024}, "pi_dual_plus": {"width": 1024}}  # CIFAR-10H; CIFAR-N: 2048
HET_CIFAR: Methods = {"het": {"draws": 10_000}}  # the code base's, on CIFAR
PI_DUAL_PLUS: Methods = {"pi_dual_plus": PI_DUAL_PLUS_SCHEDULE}
# Methods that the paper quotes train as their authors do; forward_t and co_teaching, which it names, as the rest.
PYTORCH = {"decay_convention": "pytorch", "momentum_convention": "pytorch", "valid_whole_batches": False}
AS_AUTHORS = {**PYTORCH, "lr_scale_batch": None, "warmup_epochs": 0, "crop_pad": 4}
PREACT = {**AS_AUTHORS, "nesterov": False, "network": "preact_resnet18", "lr": 0.02, "weight_decay": 5e-4}
RESNET = {**AS_AUTHORS, "network": "resnet34"}
COSINE_300 = {"epochs": 300, "batch_size": 128, "weight_decay": 5e-4, "schedule": "cosine"}
PLAIN_SGD = {"momentum": 0.0, "weight_decay": 0.0}
PES = {**RESNET, "nesterov": False}
AUTHORS_CIFAR10: Methods = {
    # 256 rows are the authors' 64 labelled and 64 unlabelled ones for either network, or ELR+'s 128 for either.
    "divide_mix": {**PREACT, "epochs": 300, "batch_size": 256, "milestones": [150], "lr_decay": 0.1},
    "elr_plus": {**PREACT, "epochs": 200, "batch_size": 256, "milestones": [150], "lr_decay": 0.1},
    "sop_plus": {**PREACT, **COSINE_300, "lr_end": 0.01, "weight_decay": 1e-3},
    "pes": {**PES, "epochs": 200, "batch_size": 128, "milestones": [100, 150], "lr_decay": 0.1},
    "pes_semi": {**PES, **COSINE_300, "lr_end": 0.01, "lr": 0.02},
    "cores": {**RESNET, **PLAIN_SGD, "epochs": 100, "batch_size": 64, "milestones": [50], "lr_decay": 0.1},
    # The authors give the second stage 1,600 epochs, which would cost more than all other methods together.
    "cores_star": {**RESNET, **COSINE_300},
}
AUTHORS_CIFAR100: Methods = {
    "divide_mix": {"warmup": 30 / 300},
    # 40,000 of 250 epochs of 391 steps are 0.41.
    "elr_plus": {"epochs": 250, "milestones": [200], "ramp": 0.41, "beta": 0.9, "lam": 7.0, "refine_labels": True},
    "pes_semi": {"t1": 35 / 300, "lam": 75.0},
    "forward_t": {"outlier_filter": False},
}

# What two cores can do, the same for all methods; see docs/settings.md for how the gate begins and for small crowds.
CPU_CNN: dict[str, Any] = {
    "network": "small_cnn",
    "network.width": 16,
    "epochs": 12,
    "batch_size": 64,
    "schedule": "cosine",
}
CPU_MLP: dict[str, Any] = {
    "network": "mlp",
    "network.width": 128,
    "network.depth": 2,
    "epochs": 30,
    "batch_size": 64,
    "schedule": "cosine",
}
CPU_METHODS: Methods = {  # narrower PI networks and fewer draws than the paper's
    "tram": {"width": 256},
    "tram_plus_plus": {"width": 256},
    "afm": {"width": 256, "draws": 200},
    "distill_pi": {"width": 256},
    "het": {"draws": 100},
    "het_xl": {"draws": 100},
    "pi_dual": {"width": 256},
    "pi_dual_plus": {"width": 256},
}
CPU_CNN_METHODS = merge(
    MIDDLE_OF_GRID, CPU_METHODS, {"pi_dual": {"gate_bias": -4.0}, "pi_dual_plus": {"gate_bias": -4.0}}
)
CPU_MLP_METHODS = merge(
    MIDDLE_OF_GRID, CPU_METHODS, {"pi_dual": {"gate_bias": -2.0}, "pi_dual_plus": {"gate_bias": -2.0}}
)
SMALL_CROWD: Methods = {"pi_dual": {"random_pi": 0}, "pi_dual_plus": {"random_pi": 0}}
CPU_WIDTHS = (64, 128, 256, 512)
