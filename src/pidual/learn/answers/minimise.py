"""L-BFGS from a guess of the curvature: far fewer steps than from none, where numbers are of very different influence.

direction = -H g,    H from the last MEMORY steps, beginning with gamma / curvature
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy

MEMORY = 12  # steps that are remembered
ENOUGH = 1e-4  # part of the decrease that the slope promises
SHORTER, HALVINGS = (0.1, 0.5), 10  # of a step that does not decrease enough, at least and at most; and how often

Floats = NDArray[np.float64]


def minimise(
    objective: Callable[[Floats], tuple[float, Floats]],  # value and derivative at x
    x: Floats,  # (P,), where to begin
    curvature: Floats,  # (P,), about the second derivative by each number
    *,
    steps: int,  # at the most
    tolerance: float,  # stop where a step decreases the value by less than this part of it
) -> Floats:
    """Minimise a smooth function."""
    value, slope = objective(x)
    past: list[tuple[Floats, Floats, float]] = []
    for _ in range(steps):
        direction = _direction(slope, past, curvature)
        promised, length = float(slope @ direction), 1.0
        for _ in range(HALVINGS):
            step = length * direction
            new_value, new_slope = objective(x + step)
            missed = new_value - value - length * promised
            if new_value <= value + ENOUGH * length * promised:
                break
            least, most = SHORTER
            length *= min(max(-length * promised / (2 * missed), least), most) if np.isfinite(missed) else least
        else:
            return x
        bend = new_slope - slope
        if step @ bend > 1e-10 * (bend @ bend):
            past = [*past[1 - MEMORY :], (step, bend, float(step @ bend))]
        decrease = value - new_value
        x, value, slope = x + step, new_value, new_slope
        if decrease <= tolerance * max(abs(value), 1.0):
            break
    return x


def _direction(slope: Floats, past: list[tuple[Floats, Floats, float]], curvature: Floats) -> Floats:
    """Return -H g, by the two loops of L-BFGS."""
    direction, parts = -slope, []
    for step, bend, product in reversed(past):
        parts.append(float(step @ direction) / product)
        direction = daxpy(bend, direction, a=-parts[-1])  # in place
    direction /= curvature
    if past:
        _, bend, product = past[-1]
        direction *= product / float((bend / curvature) @ bend)
    for (step, bend, product), part in zip(past, reversed(parts), strict=True):
        direction = daxpy(step, direction, a=part - float(bend @ direction) / product)
    return direction
