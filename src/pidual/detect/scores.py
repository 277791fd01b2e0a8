"""Scores of given labels, one function each: all in [0, 1], all "higher = more likely right"."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UsageError


def confidence_score(probabilities: npt.ArrayLike, given: npt.ArrayLike) -> npt.NDArray[Any]:
    """Probability the prediction network gives to the given label: the score used by default.

    Parameters
    ----------
    probabilities : array (N, K)
        Probabilities from the inputs alone, rows summing to 1.
    given : int array (N,)
        Codes of the given labels.

    Returns
    -------
    array (N,)
        In [0, 1]; 1 = the model is sure that the label is right, 0 = sure that it is wrong.
    """
    probabilities, given = np.asarray(probabilities), np.asarray(given)
    if probabilities.ndim != 2 or given.shape != probabilities.shape[:1]:
        raise UsageError(
            f"Probabilities (N, K) and labels (N,) are needed, but their shapes are {probabilities.shape} "
            f"and {given.shape}."
        )
    score: npt.NDArray[Any] = probabilities[np.arange(len(given)), given]
    return score


def gate_score(gate: npt.ArrayLike) -> npt.NDArray[Any]:
    """One minus the gate: how little the privileged information alone explains the given label.

    Parameters
    ----------
    gate : array (N,)
        Pi-DUAL's gate, in [0, 1], high = the label looks wrong.

    Returns
    -------
    array (N,)
        In [0, 1]; 1 = nothing about how the label was made counts against it, 0 = its making explains it away.
    """
    score: npt.NDArray[Any] = 1 - np.asarray(gate)
    return score
