"""Digits-PI with the paper's protocol; it is not in the paper, and its inputs are 64 pixels, so the network is an MLP.

    pidual benchmark digits_pi:low,digits_pi:high --scale paper --data DIR --out DIR

Cost: half a minute a fit on one core.
Expected: the paper has no number.
"""

from . import Recipe
from .shared import MIDDLE_OF_GRID, PI_DUAL_PLUS, merge

RECIPE = Recipe(
    dataset="digits_pi",
    scale="paper",
    settings={"network": "mlp", "network.width": 1024},
    methods=merge(MIDDLE_OF_GRID, PI_DUAL_PLUS),
    other_network={"network.depth": 3},
)
