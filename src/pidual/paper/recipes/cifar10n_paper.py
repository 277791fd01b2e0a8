"""CIFAR-10N (worst labels) at the paper's scale.

    pidual benchmark cifar10n --scale paper --data DIR --out DIR

Cost: 49,000 images x 90 epochs through WRN-28-10 a fit (pi_dual_plus: two views x 300 epochs); hours on the paper's
kind of GPU (A100); not run by us.
Expected at the selected epoch, the paper's: ce 80.6, elr 86.6, sop 85.0, het 81.9, tram 80.5, tram_plus_plus 83.9,
afm 82.0, pi_dual 84.9, pi_dual_plus 93.3; detection AUC of pi_dual 0.962.
"""

from . import Recipe
from .shared import AUTHORS_CIFAR10, HET_CIFAR, MIDDLE_OF_GRID, PAPER_CIFAR, PI_DUAL_PLUS, Methods, merge

OWN: Methods = {
    "pi_dual": {"width": 2048},
    "pi_dual_plus": {"width": 2048},
    "cores_star": {"consistency": 0.4},  # the authors' at 40% noise
}

RECIPE = Recipe(
    dataset="cifar10n",
    scale="paper",
    settings=PAPER_CIFAR,
    methods=merge(MIDDLE_OF_GRID, HET_CIFAR, PI_DUAL_PLUS, AUTHORS_CIFAR10, OWN),
    valid_fraction=0.02,
    split_seed=0,
    pi_kinds={"seconds": "raw:46.6797:21.1822"},  # as they are, as in the paper's code base
    other_network={"network": "resnet34"},
)
