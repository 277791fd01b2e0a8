"""CIFAR-10S at CPU scale: a small CNN, 6,723 answers on 1,000 images, 12 epochs.

    pidual benchmark cifar10s --scale cpu --data DIR --out DIR

Cost: about 40 s a fit on one core (pi_dual_plus: twice that).
Expected: the results in docs/benchmark_command.md.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS, SMALL_CROWD, merge

RECIPE = Recipe(
    dataset="cifar10s",
    scale="cpu",
    settings={**CPU_CNN, "weight_decay": 3e-3, "clip": 1.0},  # docs/settings.md
    methods=merge(CPU_CNN_METHODS, SMALL_CROWD),
    other_network={"network.convs": 2},
    widths=CPU_WIDTHS,
    seeds=3,
)
