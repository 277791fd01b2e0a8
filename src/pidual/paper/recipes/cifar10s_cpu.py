"""CIFAR-10S at CPU scale: a small CNN, 6,723 answers on 1,000 images, 12 epochs.

    pidual benchmark cifar10s --scale cpu --data DIR --out DIR

Cost: about 40 s a fit on one core (pi_dual_plus: twice that; semi-supervised methods: two to ten times).
Expected after the last epoch (docs/results.md): ce 39.8, divide_mix 29.3, elr 35.0, elr_plus 33.5, sop 38.5, sop_plus
40.6, cores_star 32.3, pes_semi 29.4, het 37.5, tram 38.2, tram_plus_plus 36.8, afm 41.7, pi_dual 39.7, pi_dual_plus
37.1; detection AUC of pi_dual 0.798.
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
