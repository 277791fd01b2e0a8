"""Synthetic comparisons: items with known scores, people of different skill, and a pull to the left side."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ERROR = 0.05  # of careful people


@dataclass(frozen=True)
class Comparisons:
    """Comparisons with what is true about them."""

    frame: pd.DataFrame  # one comparison per row: left, right, winner (left, right or tie), judge
    # True score of each item; a difference of 1 is preferred in 73% of cases by somebody careful
    score: "pd.Series[float]"
    x: NDArray[np.float64]  # (n_items, n_features), features, of which the score is a linear function and noise
    against: NDArray[np.bool_]  # whether each answer prefers the worse item


def make_comparisons(
    n_items: int = 40,
    n_answers: int = 1200,
    n_judges: int = 8,
    *,
    n_random: int = 1,
    pull: float = 0.1,
    ties: float = 0.0,
    n_features: int = 4,
    seed: int = 0,
) -> Comparisons:
    """Make comparisons: `n_random` judges answer at random, a share `pull` of all answers is left whatever the items.

    `ties` is the share of ties between items of the same score.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_items, n_features))
    score = x @ rng.normal(size=n_features) * 0.6 + 0.4 * rng.normal(size=n_items)
    score -= score.mean()
    left = rng.integers(0, n_items, n_answers)
    right = (left + rng.integers(1, n_items, n_answers)) % n_items
    who, error = rng.integers(0, n_judges, n_answers), np.full(n_judges, ERROR)
    error[:n_random] = 0.5
    d = score[left] - score[right]
    said = (rng.random(n_answers) > 1 / (1 + np.exp(-d))).astype(int)
    said = np.where(rng.random(n_answers) < error[who], 1 - said, said)
    said = np.where(rng.random(n_answers) < pull, 0, said)
    said = np.where(rng.random(n_answers) < ties * np.exp(-np.abs(d)), 2, said)
    names = np.array([f"item-{number:03d}" for number in range(n_items)])
    columns = {"left": names[left], "right": names[right], "winner": np.array(["left", "right", "tie"])[said]}
    frame = pd.DataFrame({**columns, "judge": [f"judge-{number}" for number in who]})
    return Comparisons(frame, pd.Series(score, names), x, (said != 2) & (said != (d < 0)))
