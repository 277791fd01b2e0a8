"""CIFAR-10H (worst labels) at CPU scale: a small CNN on the 10,000 images, 12 epochs.

    pidual benchmark cifar10h --scale cpu --data DIR --out DIR

Cost: about 60 s a fit on one core (pi_dual_plus: twice that).
Expected: the order of the paper's methods, not its numbers; not run by us, since the raw answers were not available.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS

RECIPE = Recipe(
    dataset="cifar10h",
    scale="cpu",
    settings=CPU_CNN,
    methods=CPU_CNN_METHODS,
    n_test=10_000,
    valid_fraction=0.04,
    other_network={"network.convs": 2},
    widths=CPU_WIDTHS,
    seeds=3,
)
