"""CIFAR-100N (fine labels) at CPU scale: a small CNN on 10,000 images, 12 epochs.

    pidual benchmark cifar100n --scale cpu --data DIR --out DIR

Cost: about 60 s a fit on one core (pi_dual_plus: twice that; semi-supervised methods: two to ten times).
Expected after the last epoch (docs/results.md): ce 20.1, divide_mix 12.8, elr 19.1, elr_plus 17.3, sop 17.5, sop_plus
19.4, cores_star 13.6, pes_semi 8.4, het 18.3, tram 19.8, tram_plus_plus 18.3, afm 21.0, pi_dual 20.1, pi_dual_plus
16.1; detection AUC of pi_dual 0.677.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS, Methods, merge

OWN: Methods = {"het": {"rank": 6}, "forward_t": {"outlier_filter": False}}

RECIPE = Recipe(
    dataset="cifar100n",
    scale="cpu",
    settings=CPU_CNN,
    methods=merge(CPU_CNN_METHODS, OWN),
    n_train=10_000,
    n_test=10_000,
    other_network={"network.convs": 2},
    widths=CPU_WIDTHS,
    seeds=3,
)
