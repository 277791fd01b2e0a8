"""CIFAR-10S with the paper's protocol and network; it is not in the paper.

    pidual benchmark cifar10s --scale paper --data DIR --out DIR

Cost: 6,050 answers x 90 epochs through WRN-28-10 a fit; an hour or less on a GPU, not run by us.
Expected: the paper has no number.
"""

from . import Recipe
from .shared import AUTHORS_CIFAR10, HET_CIFAR, MIDDLE_OF_GRID, PAPER_CIFAR, PI_DUAL_PLUS, WIDTH_1024, Methods, merge

OWN: Methods = {"cores_star": {"consistency": 0.2}}  # the authors' at 20% noise; here are 16%

RECIPE = Recipe(
    dataset="cifar10s",
    scale="paper",
    settings=PAPER_CIFAR,
    methods=merge(MIDDLE_OF_GRID, HET_CIFAR, PI_DUAL_PLUS, AUTHORS_CIFAR10, WIDTH_1024, OWN),
    split_seed=0,
    other_network={"network": "resnet34"},
)
