"""CIFAR-10H (worst labels) at the paper's scale.

    pidual benchmark cifar10h --scale paper --data DIR --out DIR

Cost: 9,600 images x 90 epochs through WRN-28-10 a fit (pi_dual_plus: two views x 300 epochs); hours on the paper's
kind of GPU (A100); not run by us.
Expected at the selected epoch, the paper's: ce 51.1, elr 48.5, sop 51.3, het 50.8, tram 64.9, tram_plus_plus 66.8,
afm 64.0, pi_dual 71.3, pi_dual_plus 83.2; detection AUC of pi_dual 0.954.
"""

from . import Recipe
from .shared import AUTHORS_CIFAR10, MIDDLE_OF_GRID, PAPER_CIFAR, PI_DUAL_PLUS, merge

RECIPE = Recipe(
    dataset="cifar10h",
    scale="paper",
    settings=PAPER_CIFAR,
    methods=merge(MIDDLE_OF_GRID, PI_DUAL_PLUS, AUTHORS_CIFAR10),
    valid_fraction=0.04,
    split_seed=0,
    pi_kinds={"reaction_time": "number"},  # raw milliseconds, as in the paper's code base
    other_network={"network": "resnet34"},
)
