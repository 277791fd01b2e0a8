"""Which items to ask about again, and whom, by what one more answer to an item is worth.

It is worth by how much it is expected to lower the error of the item's posterior.

    error(p)   = 1 - sum_k p_k^2                                    the Brier score that p expects of itself
    gain(p, C) = sum_l (sum_k p_k^2 C_kl^2) / (sum_k p_k C_kl) - sum_k p_k^2

p is the posterior of an item, C_kl the probability that an annotator answers l to an item of class k; after the answer
l the posterior is p_k C_kl / sum_k p_k C_kl. The gain is never below 0, and 0 for somebody whose answer says nothing.
The share of items whose most likely class is right would not do: one answer of somebody middling overturns nothing, and
would be worth nothing, where two are worth much.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import UsageError
from ..run.files import RunFiles
from ..run.predictions import TOP_LABELS, Predictions, label_column

Floats = NDArray[np.float64]
NUMBERS = 1 << 22  # held at once
EVEN = 0.1  # of wrong answers that may be any class, however the crowd confuses classes


def gains(p: Floats, confusions: Floats) -> Floats:
    """Compute the gain of an answer to each item by each annotator (N, A).

    `p` (N, K): posteriors of the items.
    `confusions` (A, K, K): P(answer l | class k) of the annotators, in row k and column l.
    """
    people, k, _ = confusions.shape
    flat = confusions.transpose(1, 0, 2).reshape(k, people * k)
    found = np.empty((len(p), people))
    size = max(1, NUMBERS // (people * k))
    for start in range(0, len(p), size):
        part = p[start : start + size]
        squares, sums = np.square(part) @ np.square(flat), part @ flat
        after = np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)
        found[start : start + size] = after.reshape(-1, people, k).sum(2) - np.square(part).sum(1)[:, None]
    return np.maximum(found, 0.0)


def gains_among_many(p: Floats, accuracy: Floats, elsewhere: Floats, n_classes: int) -> Floats:
    """Compute the same for items of which only the likeliest classes are known; wrong answers may be any other class.

    `p` (N, T): probabilities of the likeliest classes of each item; the rest is shared evenly by all other classes.
    `accuracy` (N, A, T): how often annotators are right on these classes.
    `elsewhere` (A,): how often they are right on the others.
    `n_classes`: K, more than T.
    """
    n_others = n_classes - p.shape[1]
    rest = np.maximum(1 - p.sum(1), 0.0)[:, None] / n_others  # of each other class
    wrong, wrong_elsewhere = (1 - accuracy) / (n_classes - 1), (1 - elsewhere) / (n_classes - 1)
    p = p[:, None, :]
    # Sums over all classes of p C and of its square as if no answer were right, then what it is of the class itself.
    sums = (p * wrong).sum(2) + n_others * rest * wrong_elsewhere
    squares = np.square(p * wrong).sum(2) + n_others * np.square(rest * wrong_elsewhere)
    own = _ratio(squares[..., None] + p**2 * (accuracy**2 - wrong**2), sums[..., None] + p * (accuracy - wrong)).sum(2)
    other = _ratio(squares + rest**2 * (elsewhere**2 - wrong_elsewhere**2), sums + rest * (elsewhere - wrong_elsewhere))
    before = np.square(p).sum(2) + n_others * np.square(rest)
    found: Floats = np.maximum(own + n_others * other - before, 0.0)
    return found


def _ratio(squares: Floats, sums: Floats) -> Floats:
    found: Floats = np.divide(squares, sums, out=np.zeros(np.broadcast(squares, sums).shape), where=sums > 0)
    return found


def confusion_matrices(accuracy: Floats, transitions: Floats | None) -> Floats:
    """Return P(answer l | class k) of annotators who are right this often (A, K); wrong answers are those of the crowd.

    `accuracy` (A, K).
    `transitions` (K, K): P(given | true) of the whole crowd; without it, and for a tenth in any case, wrong answers may
        be any class.
    """
    k = accuracy.shape[1]
    even = (1 - np.eye(k)) / (k - 1)
    spread = even
    if transitions is not None:
        off = np.where(np.eye(k, dtype=bool), 0.0, transitions)
        total = off.sum(1, keepdims=True)
        shares = np.divide(off, total, out=even.copy(), where=total > 0)
        spread = (1 - EVEN) * shares + EVEN * even
    found: Floats = (1 - accuracy)[:, :, None] * spread + accuracy[:, :, None] * np.eye(k)
    return found


def assign(gain: Floats, limit: int | None = None) -> tuple[NDArray[np.int64], Floats]:
    """Assign an annotator to each item, and return the gain; the last column is for anybody, as often as needed.

    `gain` (N, A + 1): -inf where somebody may not answer an item.
    `limit`: items for each annotator at most: an annotator who has more keeps those where the gain is largest.
    """
    gain = gain.copy()
    rows, last = np.arange(len(gain)), gain.shape[1] - 1
    while True:
        who = gain.argmax(1)
        best = gain[rows, who]
        if limit is None:
            return who, best
        order = np.lexsort((-best, who))
        starts = np.searchsorted(who[order], np.arange(last + 2))
        place = np.empty(len(who), np.int64)
        place[order] = rows - starts[who[order]]
        over = (place >= limit) & (who < last)
        if not over.any():
            return who, best
        gain[rows[over], who[over]] = -np.inf


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
