"""The grids the paper searched, by name of its dataset and by method.

Numbers in comments are sections of METHODS.md. Where the paper runs a method without a grid, or does not run it, the
values are those of its authors' experiments.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError

Grid = Mapping[str, Sequence[Any]]

SHARED: dict[str, Grid] = {
    "cifar": {"lr": (0.01, 0.1), "weight_decay": (1e-4, 1e-3)},  # 1.1
    "imagenet": {"lr": (0.1,), "weight_decay": (1e-5, 1e-4)},  # 1.2
}
METHOD_GRIDS: dict[str, Grid] = {  # as on CIFAR-10H
    "ce": {},  # 2.1
    "forward_t": {"outlier_filter": (True, False)},  # 2.2, authors: CIFAR-10 and CIFAR-100
    "co_teaching": {"noise_rate": (0.2, 0.4, 0.6)},  # 2.3: it must be given, and nobody knows it
    "divide_mix": {"lam": (0.0, 25.0, 50.0)},  # 2.4, authors
    "elr": {"beta": (0.5, 0.7, 0.9), "lam": (1.0, 3.0, 7.0)},  # 2.5
    "elr_plus": {"beta": (0.7, 0.9), "lam": (3.0, 7.0)},  # 2.6, authors: CIFAR-10 and CIFAR-100
    "sop": {"lr_u": (1.0, 10.0, 100.0), "lr_v": (1.0, 10.0, 100.0, 1000.0)},  # 2.7
    "sop_plus": {"lr_u": (1.0, 10.0, 100.0), "lr_v": (1.0, 10.0, 100.0, 1000.0)},  # 2.7, that of SOP
    "cores": {},  # 2.15
    "cores_star": {},  # 2.15
    "pes": {},  # 2.16
    "pes_semi": {"lam": (5.0, 75.0)},  # 2.16, authors: CIFAR-10N and CIFAR-100N
    "het": {"tau": (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0), "rank": (3,)},  # 2.9
    "het_xl": {},  # 2.10
    "tram": {"width": (1024,)},  # 2.12
    "tram_plus_plus": {"width": (512, 1024, 2048, 4096), "random_pi": (8, 14, 28), "head_weight": (0.1, 0.5)},  # 2.13
    "afm": {"width": (1024,)},  # 2.14
    "distill_pi": {"lam": (0.25, 0.5, 0.75)},  # 2.11, around the 0.5 of the code the paper builds on
    "pi_dual": {"width": (1024,), "random_pi": (4, 8, 12, 16)},  # 3.1
    "pi_dual_plus": {  # 3.2: rate and weight decay are not searched
        "lr": (0.1,),
        "weight_decay": (1e-4,),
        "width": (1024,),
        "random_pi": (4, 8),
        "smoothing": (0.0, 0.4),
        "lam": (0.5, 1.0),
    },
    "latent_truth": {},  # 8: it chooses among its settings itself
}
DIFFERENCES: dict[str, dict[str, Grid]] = {
    "cifar10h": {},
    "cifar10n": {"pi_dual": {"width": (2048,)}, "pi_dual_plus": {"width": (2048,)}},  # 3.1
    "cifar100n": {"het": {"rank": (6,)}, "pi_dual": {"width": (2048,)}, "pi_dual_plus": {"width": (2048,)}},  # 2.9, 3.1
    "imagenet_pi": {
        "het": {"tau": (3.0,), "rank": (15,)},  # 2.9
        "distill_pi": {"temperature": (3.0,), "pi_weight_decay": (True,)},  # 2.11, 1.4
        "tram": {"width": (2048,), "residual": (False,), "pi_weight_decay": (True,)},  # 2.12, 1.4
        "tram_plus_plus": {  # 2.13, 1.4
            "width": (2048,),
            "random_pi": (30,),
            "head_weight": (0.5,),
            "residual": (False,),
            "pi_weight_decay": (True,),
        },
        "afm": {"width": (2048,), "pi_weight_decay": (True,)},  # 2.14, 1.4
        "pi_dual": {"width": (2048,), "random_pi": (30,), "pi_weight_decay": (True,)},  # 3.1
        "pi_dual_plus": {"width": (2048,), "random_pi": (30,), "pi_weight_decay": (True,)},  # not in the paper
    },
}
GRID_NAMES = ("paper", *DIFFERENCES)  # "paper" is that of CIFAR-10H


def paper_grid(method: str, name: str = "paper") -> dict[str, list[Any]]:
    """Return what the paper searched for a method.

    `method`: key of METHODS.
    `name`: one of GRID_NAMES.
    Returned: option -> values: of training, and of the method.
    """
    if name not in GRID_NAMES:
        raise UsageError(f"There is no grid '{name}'; use one of {', '.join(GRID_NAMES)}.")
    if method not in METHOD_GRIDS:
        raise UsageError(f"There is no grid for a method '{method}'; there are those of {', '.join(METHOD_GRIDS)}.")
    dataset = "cifar10h" if name == "paper" else name
    shared = SHARED["imagenet" if dataset == "imagenet_pi" else "cifar"]
    found = {**shared, **METHOD_GRIDS[method], **DIFFERENCES[dataset].get(method, {})}
    return {option: list(values) for option, values in found.items()}


def points(grid: Grid) -> list[dict[str, Any]]:
    """All combinations of a grid's values, the last option changing fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
