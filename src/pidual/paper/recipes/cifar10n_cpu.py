"""CIFAR-10N (worst labels) at CPU scale: a small CNN on 10,000 images, 12 epochs.

    pidual benchmark cifar10n --scale cpu --data DIR --out DIR

Cost: about 60 s a fit on one core (pi_dual_plus: twice that; semi-supervised methods: two to ten times).
Expected after the last epoch (docs/results.md): ce 52.8, divide_mix 46.3, elr 50.0, elr_plus 48.8, sop 51.7, sop_plus
52.1, cores_star 46.8, pes_semi 41.0, het 50.2, tram 52.3, tram_plus_plus 51.8, afm 53.3, pi_dual 52.2, pi_dual_plus
49.7; detection AUC of pi_dual 0.820. Its PI says next to nothing of the errors.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS

RECIPE = Recipe(
    dataset="cifar10n",
    scale="cpu",
    settings=CPU_CNN,
    methods=CPU_CNN_METHODS,
    n_train=10_000,
    n_test=10_000,
    other_network={"network.convs": 2},
    widths=CPU_WIDTHS,
    seeds=3,
)
