"""LabelMe at CPU scale: an MLP on pooled VGG features, 2,547 answers of 59 workers, 30 epochs.

    pidual benchmark labelme --scale cpu --data DIR --out DIR

Cost: about 10 s a fit on one core.
Expected after the last epoch (docs/results.md): ce 82.5, divide_mix 85.5, elr 83.6, elr_plus 84.3, sop 84.9, sop_plus
82.9, cores_star 84.3, pes_semi 87.6, het 82.9, tram 83.0, tram_plus_plus 83.5, afm 82.3, pi_dual 83.4, pi_dual_plus
82.4; detection AUC of pi_dual 0.877.
"""

from . import Recipe
from .shared import CPU_MLP, CPU_MLP_METHODS, CPU_WIDTHS, SMALL_CROWD, merge

SMALL = {"network.dropout": 0.5, "batch_size": 32, "weight_decay": 3e-3, "clip": 1.0}  # docs/settings.md

RECIPE = Recipe(
    dataset="labelme",
    scale="cpu",
    settings={**CPU_MLP, **SMALL},
    methods=merge(CPU_MLP_METHODS, SMALL_CROWD),
    other_network={"network.depth": 3},
    widths=CPU_WIDTHS,
    seeds=3,
)
