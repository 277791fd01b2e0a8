"""Which items to ask about again, and whom, by what an answer is worth (`answer_gain`)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import UsageError
from ..run.files import RunFiles
from ..run.predictions import TOP_LABELS, Predictions, label_column
from .answer_gain import Floats, assign, confusion_matrices, gains, gains_among_many

CANDIDATES = 16  # annotators that are weighed against each other
CHUNK = 1 << 14  # items at once, where they have many classes

Ints = NDArray[np.int64]


def next_answers(run: RunFiles, budget: int, *, per_annotator: int | None = None) -> pd.DataFrame:
    """Find the items where one more answer is worth most, and who should give it.

    `run`: a finished run.
    `budget`: number of answers to ask for, one per item.
    `per_annotator`: largest number of answers from one annotator.
    Returned: item; annotator, one who has not answered it yet, missing where that is best asked of somebody new;
        accuracy, how often that annotator is expected to be right on this item; consensus_label and consensus_quality
        as they are; num_annotations; error, the Brier score that the posterior expects of itself; gain, by how much one
        answer is expected to lower it, most first. Items where it is 0 are left out.
    """
    for name, value in {"budget": budget, "per_annotator": per_annotator}.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}.")
    items, predictions = run.items, run.predictions
    classes = predictions.classes
    p, top = posteriors(run, classes)
    names, accuracy = _people(run, classes, _doubt(p, top, len(classes)))
    if top is None:
        described: list[list[float]] | None = run.summary.classes.transitions
        transitions = None if described is None else np.asarray(described, np.float64)
        gain = gains(p, confusion_matrices(accuracy, transitions))
        right = p @ accuracy.T
    else:
        gain, right = _among_many(p, top, accuracy, len(classes))
    gain = np.where(_answered(predictions, items, names), -np.inf, gain)
    if names:  # somebody new only where nobody known can be asked
        known = np.isfinite(gain[:, :-1]).any(1) if per_annotator is None else np.zeros(len(gain), bool)
        gain[known, -1] = -np.inf
    who, best = assign(gain, per_annotator)
    chosen = np.argsort(-best, kind="stable")[: min(int(budget), int((best > 0).sum()))]
    frame = items.iloc[chosen][["item"]].reset_index(drop=True)
    if names:
        codes = np.where(who[chosen] < len(names), who[chosen], -1)
        frame["annotator"] = label_column(codes, names)
    frame["accuracy"] = right[chosen, who[chosen]].astype(np.float32)
    about = items.iloc[chosen][["consensus_label", "consensus_quality", "num_annotations"]].reset_index(drop=True)
    error = 1 - np.square(p).sum(1) - (0.0 if top is None else _rest(p, len(classes)))
    gain = gain[chosen, who[chosen]]
    return frame.join(about).assign(error=error[chosen].astype(np.float32), gain=gain.astype(np.float32))


def posteriors(run: RunFiles, classes: list[Any]) -> tuple[Floats, Ints | None]:
    """Return probabilities (N, K); with many classes, those of the likeliest ones (N, T), and which these are."""
    items = run.items
    names = [f"p_{name}" for name in classes]
    if set(names) <= set(items.columns):
        p = items[names].to_numpy(np.float64)
        return p / p.sum(1, keepdims=True), None
    tops = [name for name in TOP_LABELS if name in items]
    place = {str(name): code for code, name in enumerate(classes)}
    codes = [items[name].astype(str).map(place).to_numpy(np.int64) for name in tops]
    return items[[f"{name}_probability" for name in tops]].to_numpy(np.float64), np.stack(codes, 1)


def _rest(p: Floats, n_classes: int) -> Floats:
    """Sum of the squares of probabilities that are shared evenly by the classes not among the likeliest."""
    n_others = n_classes - p.shape[1]
    found: Floats = np.square(np.maximum(1 - p.sum(1), 0.0)) / n_others
    return found


def _doubt(p: Floats, top: Ints | None, n_classes: int) -> Floats:
    """Return how much there is to learn about items of each class (K,)."""
    doubt = p * (1 - p)
    found: Floats = np.asarray(doubt.sum(0) if top is None else np.bincount(top.ravel(), doubt.ravel(), n_classes))
    return found


def _people(run: RunFiles, classes: list[Any], doubt: Floats) -> tuple[list[Any], Floats]:
    """Choose the annotators who are right most often where there is doubt.

    Returns
    -------
    list of A names, and accuracies on each class (A + 1, K): theirs and, in the last row, that of somebody new, who is
    like the average one.
    """
    n_classes, frame = len(classes), run.annotators
    if frame is None or not len(frame):
        return [], np.full((1, n_classes), 1 - run.summary.estimated_noise_rate)
    quality = frame["annotator_quality"].to_numpy(np.float64)
    crowd = float(np.average(quality, weights=frame["num_labelled"].to_numpy() + 1e-9))
    names = frame["annotator"].astype(str)
    on_class = run.annotator_classes
    who, label = np.zeros(0, np.int64), np.zeros(0, np.int64)
    found, n = np.zeros(0), np.zeros(0)
    if on_class is not None:
        who = pd.Index(names).get_indexer(pd.Index(on_class["annotator"].astype(str)))
        label = pd.Index([str(name) for name in classes]).get_indexer(pd.Index(on_class["true_class"].astype(str)))
        found, n = on_class["accuracy"].to_numpy(np.float64), on_class["num_items"].to_numpy(np.float64)
    skill = quality * doubt.sum() + np.bincount(who, doubt[label] * (found - quality[who]), len(frame))
    best = np.argsort(-skill, kind="stable")[:CANDIDATES]
    place = np.full(len(frame), -1)
    place[best] = np.arange(len(best))
    accuracy = np.repeat(np.append(quality[best], crowd)[:, None], n_classes, 1)
    kept = place[who] >= 0
    accuracy[place[who[kept]], label[kept]] = found[kept]
    total, right = np.bincount(label, n, n_classes), np.bincount(label, n * found, n_classes)
    accuracy[-1] = np.divide(right, total, out=accuracy[-1].copy(), where=total > 0)
    return frame["annotator"].iloc[best].tolist(), accuracy


def _among_many(p: Floats, top: Ints, accuracy: Floats, n_classes: int) -> tuple[Floats, Floats]:
    """Return gains, and how likely answers are right (N, A + 1), where items have only their likeliest classes."""
    elsewhere = accuracy.mean(1)
    found, right = (np.empty((len(p), len(accuracy))) for _ in range(2))
    for start in range(0, len(p), CHUNK):
        part = slice(start, start + CHUNK)
        on_top = accuracy[:, top[part]].transpose(1, 0, 2)  # (n, A + 1, T)
        found[part] = gains_among_many(p[part], on_top, elsewhere, n_classes)
        right[part] = (on_top * p[part, None]).sum(2) + np.maximum(1 - p[part].sum(1), 0.0)[:, None] * elsewhere
    return found, right


def _answered(predictions: Predictions, items: pd.DataFrame, names: list[Any]) -> NDArray[np.bool_]:
    """Return which of these annotators have answered which item (N, A + 1); somebody new has answered none."""
    answered = np.zeros((len(items), len(names) + 1), bool)
    if names:
        rows, columns = (
            places(predictions.frame["item"], items["item"]),
            places(predictions.frame["annotator"], names),
        )
        kept = (columns >= 0) & (rows >= 0)
        answered[rows[kept], columns[kept]] = True
    return answered


def places(column: "pd.Series[Any]", wanted: Iterable[Any]) -> Ints:
    """Return where each value of a category column is in a list, -1 where it is not."""
    names = pd.Index([str(name) for name in wanted])
    return names.get_indexer(pd.Index(column.cat.categories.astype(str)))[column.cat.codes]
