"""CIFAR-10N (worst labels) at CPU scale: a small CNN on 10,000 images, 12 epochs.

    pidual benchmark cifar10n --scale cpu --data DIR --out DIR

Cost: about 60 s a fit on one core (pi_dual_plus: twice that).
Expected: the results in docs/benchmark_command.md. Its PI says nothing of the errors, so no gain is owed to it.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS, merge

RECIPE = Recipe(
    dataset="cifar10n",
    scale="cpu",
    settings=CPU_CNN,
    methods=merge(CPU_CNN_METHODS, {"co_teaching": {"noise_rate": 0.402}}),
    n_train=10_000,
    n_test=10_000,
    other_network={"network.convs": 2},
    widths=CPU_WIDTHS,
    seeds=3,
)
