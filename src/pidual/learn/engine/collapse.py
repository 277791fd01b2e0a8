"""The guard: a fit that learned nothing must not pass for one that did.

Pi-DUAL can collapse: the gate opens for every row, the noise network explains all labels, and f stays at chance. Any
method can diverge. The guard looks four times in a run. Suspicion is cheap: a loss that is not finite, a mean gate
near 1, or f no better than always answering the most frequent class on the noisy validation rows. It is then
confirmed on training rows: f's answers and the given labels must agree no more than chance would make them (Cohen's
kappa, a one-sided test), so that a good f under spam from one class is never called a collapse. Where most labels
are of one class, always to answer with it may be right: f must then rank rows no better than permuted labels would.

PI that points to single rows does less harm: the noise network memorises right labels too, and f learns from
what is left. The remedy is better PI, so the guard only warns, after the fit.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...metrics import ranking_z
from .callbacks import Record

CHECKPOINTS = (0.25, 0.5, 0.75, 1.0)  # parts of the run after which it looks
MIN_STEPS = 50
SUSPICIOUS_GATE = 0.9
AT_CHANCE = 1.64  # a network at chance lies below this in 19 of 20 cases
MOSTLY_ONE = 0.6  # share of a label from which a network that always gives it need not have failed
AT_CHANCE_OPEN_GATE = 3.0  # under an open gate, the benefit of the doubt is smaller
SAMPLE_ROWS = 4096
MAX_ATTEMPTS = 4
MEMORISED = 0.96  # of the labels it was trained on, a noise network that knows more
MEMORISED_ABOVE_HELD_OUT = 0.3  # and so many more than of others
MEMORISED_GATE = 0.65  # takes right labels too from such a mean gate on; with a smaller one it spares f wrong ones
MIN_HELD_OUT = 10

Answers = Callable[[], tuple[NDArray[np.float32], NDArray[np.int64]]]


def is_due(epoch: int, epochs: int, steps_done: int) -> bool:
    """Return whether the guard looks after this epoch (from 0); not before a network can have learned anything."""
    return steps_done >= MIN_STEPS and any(epoch + 1 == math.ceil(part * epochs) for part in CHECKPOINTS)


def find_collapse(record: Record, majority: float, answers: Answers) -> str | None:
    """Return the reason to call this fit collapsed, or None.

    `record` has the epoch's metrics, `majority` is the share of the most frequent class among the validation labels,
    and `answers` gives f's logits and the given labels on a fixed selection of training rows, on suspicion only.
    """
    if not math.isfinite(record["loss"]):
        return f"the loss is {record['loss']}"
    gate, accuracy = record.get("gate", 0.0), record.get("valid_accuracy")
    if gate > SUSPICIOUS_GATE:
        suspicion, enough = f"the mean gate is {gate:.3f}", AT_CHANCE_OPEN_GATE
    elif accuracy is None:  # there are no held-out labels to ask
        suspicion, enough = "the prediction network may have learned nothing", AT_CHANCE
    elif accuracy <= majority:
        suspicion, enough = "the prediction network does not beat the most frequent class", AT_CHANCE
    else:
        return None
    logits, labels = answers()
    if gate <= SUSPICIOUS_GATE and _gives_mostly_one(logits.argmax(1), labels):
        # Without held-out labels to ask, inputs that say little make this the right answer.
        z = math.inf if accuracy is None else ranking_z(logits, labels)
        what = "it ranks training rows no better than permuted labels would"
    else:
        z = agreement_z(logits.argmax(1), labels)
        what = "its answers on training rows agree with the given labels no more than chance"
    return None if z > enough else f"{suspicion} and {what} (z = {z:.1f})"


def _gives_mostly_one(answers: NDArray[np.int64], labels: NDArray[np.int64]) -> bool:
    """Return whether labels and answers are mostly of one class, and agree as often as they can by that alone.

    Where inputs say little, that is the right answer.
    """
    most = np.bincount(labels).max() / len(labels)
    return bool(most > MOSTLY_ONE and (answers == labels).mean() >= most - 0.02)


def agreement_z(answers: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return how many standard errors the agreement of two labelings lies above what chance would give."""
    n = len(labels)
    classes = int(max(answers.max(), labels.max())) + 1
    p, q = np.bincount(answers, minlength=classes) / n, np.bincount(labels, minlength=classes) / n
    chance = float((p * q).sum())
    # Variance of the agreement count under independence with fixed margins (Cohen 1960).
    variance = (chance + chance**2 - float((p * q * (p + q)).sum())) / n
    return (float((answers == labels).mean()) - chance) / math.sqrt(variance) if variance > 1e-12 else 0.0


def find_memorised(knows: NDArray[np.bool_], gate: NDArray[np.float32], trained: NDArray[np.bool_]) -> str | None:
    """Return the reason to say that the noise network has memorised labels at the cost of f, or None.

    Of every row: whether the noise network answers with the given label, the gate, by which that counts, and whether it
    was trained on; the others are held out.
    """
    if (~trained).sum() < MIN_HELD_OUT or gate[trained].mean() < MEMORISED_GATE:
        return None
    known, held_out = (float(np.average(knows[rows], weights=gate[rows])) for rows in (trained, ~trained))
    if known < MEMORISED or known - held_out < MEMORISED_ABOVE_HELD_OUT:
        return None
    return (
        f"the noise network knows {known:.0%} of the labels it was trained on and {held_out:.0%} of others, and the "
        f"mean gate is {gate[trained].mean():.2f}"
    )
