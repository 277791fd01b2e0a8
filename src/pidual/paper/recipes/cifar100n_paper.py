"""CIFAR-100N (fine labels) at the paper's scale.

    pidual benchmark cifar100n --scale paper --data DIR --out DIR

Cost: 49,000 images x 90 epochs through WRN-28-10 a fit (pi_dual_plus: two views x 300 epochs); hours on the paper's
kind of GPU (A100); not run by us.
Expected at the selected epoch, the paper's: ce 60.4, elr 64.0, sop 61.9, het 60.8, tram 59.7, tram_plus_plus 61.1,
afm 60.0, pi_dual 64.2, pi_dual_plus 68.0; detection AUC of pi_dual 0.911.
"""

from . import Recipe
from .shared import (
    AUTHORS_CIFAR10,
    AUTHORS_CIFAR100,
    HET_CIFAR,
    MIDDLE_OF_GRID,
    PAPER_CIFAR,
    PI_DUAL_PLUS,
    Methods,
    merge,
)

OWN: Methods = {
    "pi_dual": {"width": 2048},
    "pi_dual_plus": {"width": 2048},
    "het": {"rank": 6},
    "cores_star": {"consistency": 0.4},  # the authors' at 40% noise
}

RECIPE = Recipe(
    dataset="cifar100n",
    scale="paper",
    settings=PAPER_CIFAR,
    methods=merge(MIDDLE_OF_GRID, HET_CIFAR, PI_DUAL_PLUS, AUTHORS_CIFAR10, AUTHORS_CIFAR100, OWN),
    valid_fraction=0.02,
    split_seed=0,
    pi_kinds={"seconds": "raw:113.6694:78.1860"},  # as they are, as in the paper's code base
    other_network={"network": "resnet34"},
)
