"""Digits-PI at CPU scale: an MLP on 1,257 labels by 16 classifiers, 60 epochs; `digits_pi:low` and `digits_pi:high`.

    pidual benchmark digits_pi:low,digits_pi:high --scale cpu --data DIR --out DIR

Cost: about 5 s a fit on one core. It needs no files.
Expected after the last epoch (docs/results.md). High noise: ce 30.9, divide_mix 76.0, elr 28.3, elr_plus 45.2, sop
39.8, sop_plus 31.2, cores_star 29.0, pes_semi 83.5, het 29.6, tram 35.6, tram_plus_plus 31.8, afm 16.9, pi_dual 77.3,
pi_dual_plus 48.8; detection AUC of pi_dual 0.969. Low noise: ce 63.9, divide_mix 65.4, elr 68.0, elr_plus 86.2, sop
75.9, sop_plus 64.4, cores_star 64.4, pes_semi 93.0, het 62.5, tram 65.9, tram_plus_plus 69.1, afm 88.8, pi_dual 90.4,
pi_dual_plus 92.9; detection AUC of pi_dual 0.978.
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
