"""The guard: a fit that learned nothing must not pass for one that did.

Pi-DUAL can collapse: the gate opens for every row, the noise network explains all labels, and f stays at chance. Any
method can diverge. The guard looks four times in a run. Suspicion is cheap: a loss that is not finite, a mean gate
near 1, or f no better than always answering the most frequent class on the noisy validation rows. It is then
confirmed on training rows: f's answers and the given labels must agree no more than chance would make them (Cohen's
kappa, a one-sided test), so that a good f under spam from one class is never taken for a collapse.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .history import Record

CHECKPOINTS = (0.25, 0.5, 0.75, 1.0)  # parts of the run after which it looks
MIN_STEPS = 50
SUSPICIOUS_GATE = 0.9
AT_CHANCE = 1.64  # a network at chance lies below this in 19 of 20 cases
AT_CHANCE_OPEN_GATE = 3.0  # under an open gate, the benefit of the doubt is smaller
SAMPLE_ROWS = 4096
MAX_ATTEMPTS = 4

Answers = Callable[[], tuple[NDArray[np.int64], NDArray[np.int64]]]


def is_due(epoch: int, epochs: int, steps_done: int) -> bool:
    """Whether the guard looks after this epoch (counted from 0); not before a network can have learned anything."""
    return steps_done >= MIN_STEPS and any(epoch + 1 == math.ceil(part * epochs) for part in CHECKPOINTS)


def find_collapse(record: Record, majority: float, answers: Answers) -> str | None:
    """The reason to call this fit collapsed, or None.

    Parameters
    ----------
    record : dict
        The epoch's metrics.
    majority : float
        Share of the most frequent class among the validation labels.
    answers : callable
        Gives f's answers and the given labels on a fixed selection of training rows; called on suspicion only.
    """
    if not math.isfinite(record["loss"]):
        return f"the loss is {record['loss']}"
    gate, accuracy = record.get("gate", 0.0), record.get("valid_accuracy")
    if gate > SUSPICIOUS_GATE:
        suspicion, enough = f"the mean gate is {gate:.3f}", AT_CHANCE_OPEN_GATE
    elif accuracy is None or accuracy <= majority:
        suspicion, enough = "the prediction network does not beat the most frequent class", AT_CHANCE
    else:
        return None
    z = agreement_z(*answers())
    if z > enough:
        return None
    return f"{suspicion} and its answers on training rows agree with the given labels no more than chance (z = {z:.1f})"


def agreement_z(answers: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """How many standard errors the agreement of two labelings lies above what chance would give."""
    n = len(labels)
    classes = int(max(answers.max(), labels.max())) + 1
    p, q = np.bincount(answers, minlength=classes) / n, np.bincount(labels, minlength=classes) / n
    chance = float((p * q).sum())
    # Variance of the agreement count under independence with fixed margins (Cohen 1960).
    variance = (chance + chance**2 - float((p * q * (p + q)).sum())) / n
    return (float((answers == labels).mean()) - chance) / math.sqrt(variance) if variance > 1e-12 else 0.0
