"""ImageNet-PI at the paper's scale; `imagenet_pi:low` and `imagenet_pi:high`.

    pidual benchmark imagenet_pi:low,imagenet_pi:high --scale paper --data DIR --out DIR

Cost: 1.28 M images x 90 epochs through ResNet-50 a fit; the paper used a TPU v3-8; not run by us.
Several GPUs: start it under torchrun.
Expected at the selected epoch, the paper's, low and high: ce 68.2 and 47.2, het 69.4 and 51.9, tram 69.4 and 54.0,
tram_plus_plus 69.5 and 53.8, afm 70.3 and 55.3, pi_dual 71.6 and 62.1; detection AUC of pi_dual 0.953 and 0.986. The
paper could not run elr and sop here.
The paper's text has PI towers of width 2048; its 32M parameters of TRAM++ fit 1024.
"""

from . import Recipe
from .shared import PAPER_IMAGENET, Methods, merge

WIDE = {"width": 2048, "pi_weight_decay": True}
OWN: Methods = {
    "het": {"rank": 15, "tau": 3.0},
    "tram": {**WIDE, "residual": False},
    "tram_plus_plus": {**WIDE, "residual": False, "random_pi": 30, "head_weight": 0.5},
    "afm": WIDE,
    "distill_pi": {**WIDE, "temperature": 3.0},
    "pi_dual": {**WIDE, "random_pi": 30},
    "pi_dual_plus": {**WIDE, "random_pi": 30},
}

RECIPE = Recipe(
    dataset="imagenet_pi",
    scale="paper",
    settings=PAPER_IMAGENET,
    methods=merge(OWN),
    valid_fraction=0.01,
    split_seed=0,
    seeds=3,
)
