"""Digits-PI at CPU scale: an MLP on 1,257 labels by 16 classifiers, 60 epochs; `digits_pi:low` and `digits_pi:high`.

    pidual benchmark digits_pi:low,digits_pi:high --scale cpu --data DIR --out DIR

Cost: about 5 s a fit on one core. It needs no files.
Expected: docs/benchmarks.md has the same data with tuned settings.
"""

from . import Recipe
from .shared import CPU_MLP, CPU_MLP_METHODS, CPU_WIDTHS

RECIPE = Recipe(
    dataset="digits_pi",
    scale="cpu",
    settings={**CPU_MLP, "epochs": 60},
    methods=CPU_MLP_METHODS,
    other_network={"network.depth": 3},
    widths=CPU_WIDTHS,
    seeds=3,
)
