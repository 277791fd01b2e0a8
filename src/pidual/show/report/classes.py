"""Classes: which are mistaken for which, how often, and what to do about it."""

from typing import Any

import numpy as np

from ...detect.counts import Counts
from ...detect.items import Truth
from ...run.predictions import Predictions
from ...run.records.summary import Classes
from .words import Array, Context

MAX_PAIRS = 8
MAX_ADVICE = 10
MAX_HEAT_CLASSES = 12


def classes(estimated: Classes, predictions: Predictions) -> Context:
    """Advice, frequent confusions and a matrix: as the run estimated them, else as labels were flagged."""
    pairs, matrix = sorted(estimated.pairs, key=lambda pair: -pair.count), estimated.transitions
    return {
        "advice": estimated.advice[:MAX_ADVICE],
        "estimated": pairs[:MAX_PAIRS],
        "n_estimated": len(pairs),
        "transitions": None if matrix is None or not estimated.names else _matrix(np.array(matrix), estimated.names),
        **_corrections(predictions),
    }


def _matrix(share: Array, names: list[Any]) -> Context:
    k = len(names)
    strongest = max(float(np.where(np.eye(k, dtype=bool), 0, share).max()), 1e-9)
    rows = [
        {
            "name": names[i],
            "cells": [
                {"share": float(share[i, j]), "same": i == j, "strength": round(float(share[i, j]) / strongest, 3)}
                for j in range(k)
            ],
        }
        for i in range(k)
    ]
    return {"classes": names, "rows": rows}


def _corrections(p: Predictions) -> Context:
    """Which given labels would be replaced by which."""
    k = len(p.classes)
    changed = Truth.by_consensus(p.suggested, p.is_issue & (p.given != p.suggested))
    counts, n_given = Counts.of(None, p.given, changed, k), np.bincount(p.given, minlength=k)
    order = np.lexsort((counts.true, counts.given, -counts.n))[: np.count_nonzero(counts.n)]
    pairs = [
        {
            "given": p.classes[given],
            "suggested": p.classes[true],
            "count": int(n),
            "share": n / n_given[given],
        }
        for given, true, n in zip(
            *(part[order[:MAX_PAIRS]].tolist() for part in (counts.given, counts.true, counts.n)), strict=True
        )
    ]
    heat = None
    if k <= MAX_HEAT_CLASSES:
        table = Counts.of(None, p.given, Truth.by_consensus(p.suggested, np.ones(len(p))), k).matrix().T
        heat = _matrix(table / np.maximum(n_given, 1)[:, None], p.classes)
    return {"pairs": pairs, "n_pairs": len(order), "heat": heat}
