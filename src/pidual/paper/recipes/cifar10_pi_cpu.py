"""CIFAR-10-PI at CPU scale: a small CNN on 10,000 images, 12 epochs; `cifar10_pi:low` and `cifar10_pi:high`.

    pidual benchmark cifar10_pi:low,cifar10_pi:high --scale cpu --data DIR --out DIR

Cost: about 60 s a fit on one core (pi_dual_plus: twice that).
Expected after the last epoch (docs/results.md). High noise: ce 41.1, elr 39.8, sop 39.6, het 39.3, tram 45.1,
tram_plus_plus 42.9, afm 47.1, pi_dual 50.5, pi_dual_plus 42.1; detection AUC of pi_dual 0.893. Low noise: ce 53.3, elr
49.3, sop 52.1, het 50.0, tram 54.5, tram_plus_plus 53.0, afm 55.4, pi_dual 56.4, pi_dual_plus 49.6; detection AUC of
pi_dual 0.874.
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
