"""CIFAR-10-PI with the paper's protocol and network; made as ImageNet-PI was; `cifar10_pi:low` and `cifar10_pi:high`.

    pidual benchmark cifar10_pi:low,cifar10_pi:high --scale paper --data DIR --out DIR

Cost: 49,000 images x 90 epochs through WRN-28-10 a fit where all of CIFAR-10 is there; hours on a GPU, not run by us.
Expected: the paper has no number.
"""

from . import Recipe
from .shared import AUTHORS_CIFAR10, HET_CIFAR, MIDDLE_OF_GRID, PAPER_CIFAR, PI_DUAL_PLUS, WIDTH_1024, merge

RECIPE = Recipe(
    dataset="cifar10_pi",
    scale="paper",
    settings=PAPER_CIFAR,
    methods=merge(MIDDLE_OF_GRID, HET_CIFAR, PI_DUAL_PLUS, AUTHORS_CIFAR10, WIDTH_1024),
    valid_fraction=0.02,
    split_seed=0,
    other_network={"network": "resnet34"},
)
