"""How many wrong labels somebody would find who looks at labels in some order, where clean labels are known."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import UsageError
from ..run.predictions import Predictions

STEPS = (1, 2, 5)


def simulate_review(predictions: Predictions) -> pd.DataFrame:
    """Count the wrong labels found by looking at the first n, in our order and in others.

    Labels of test items, and those whose clean label is not known, are not looked at.

    Parameters
    ----------
    predictions : Predictions
        With clean labels.

    Returns
    -------
    DataFrame
        looked_at (10, 20, 50, 100 and so on, and all); found, in the order of label_quality; by_self_confidence, in
        that of the classifier's probability of the given label, which is how cleanlab ranks labels by default, where
        the run has it; at_random, the expected number; possible, if all wrong labels came first; accuracy, the share of
        labels that are right when those found by us have been corrected.
    """
    y, known = predictions.y, predictions.is_checked
    if y is None or not known.any():
        raise UsageError("Clean labels are not known here; name their column with --y in `pidual fit`.")
    wrong = (predictions.given != y)[known]
    n = len(wrong)
    sizes = np.array([size for size in _sizes(n) if size < n] + [n])
    frame: dict[str, Any] = {"looked_at": sizes, "found": found_first(predictions.label_quality[known], wrong, sizes)}
    if "given_probability" in predictions.frame:
        confidence = predictions.frame["given_probability"].to_numpy(np.float64)[known]
        frame["by_self_confidence"] = found_first(confidence, wrong, sizes)
    frame["at_random"] = sizes * wrong.mean()
    frame["possible"] = np.minimum(sizes, wrong.sum())
    frame["accuracy"] = 1 - (wrong.sum() - frame["found"]) / n
    return pd.DataFrame(frame)


def found_first(score: NDArray[Any], wrong: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the wrong ones among the first n labels by a score, lowest first."""
    found = np.cumsum(wrong[np.argsort(score, kind="stable")], dtype=np.int64)
    return found[sizes - 1]


def _sizes(n: int) -> list[int]:
    """Return 10, 20, 50, 100 and so on, up to n."""
    return [step * 10**power for power in range(1, len(str(n)) + 1) for step in STEPS]
