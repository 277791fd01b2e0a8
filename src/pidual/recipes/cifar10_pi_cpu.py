"""CIFAR-10-PI at CPU scale: a small CNN on 10,000 images, 12 epochs; `cifar10_pi:low` and `cifar10_pi:high`.

    pidual benchmark cifar10_pi:low,cifar10_pi:high --scale cpu --data DIR --out DIR

Cost: about 60 s a fit on one core (pi_dual_plus: twice that).
Expected: the results in docs/benchmark_command.md.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS

RECIPE = Recipe(
    dataset="cifar10_pi",
    scale="cpu",
    settings=CPU_CNN,
    methods=CPU_CNN_METHODS,
    n_train=10_000,
    n_test=10_000,
    other_network={"network.convs": 2},
    widths=CPU_WIDTHS,
    seeds=3,
)
