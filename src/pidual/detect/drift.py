"""Annotators whose accuracy changes: the most likely moment, tested against chance.

For every place in the order of an annotator's labels, the likelihood of one accuracy before it and another after is
compared with that of no change. What an item's class does to everybody's accuracy is taken out: where nothing changes,
the wrong labels expected of a part are those of the crowd on items of these classes, times one number of the annotator.

    2 log LR(t) = 2 sum over both parts of [w log(w / e) + (n - w) log((n - w) / (n - e))]

w of n labels are wrong, e are expected. The largest over all t is beyond chance where Miller and Siegmund's
approximation for the largest of standardised sums says so, of all annotators together (Benjamini and Hochberg). No
change is looked for in fewer than `MIN_PART` labels, or a twentieth of them, at either end.

Miller and Siegmund, "Maximally selected chi square statistics", Biometrics 1982.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .intervals import CHANCE, sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MIN_PART = 10
LEAST_SHARE = 0.05  # of an annotator's labels, before and after
MIN_CHANGE = 0.05  # of the accuracy, to be worth saying


@dataclass(frozen=True)
class Drift:
    """Of every annotator.

    Parameters
    ----------
    found : bool array (A,)
        Whether their accuracy changes.
    row : int array (A,)
        The first label after the change, as a position in the table; -1 where there is none.
    number : int array (A,)
        Which of the annotator's labels that is, from 1.
    before, after : array (A,)
        Accuracy before and after, NaN where there is no change.
    chance : array (A,)
        How likely so large a change is by chance, at most; NaN where there are too few labels.
    """

    found: npt.NDArray[np.bool_]
    row: Ints
    number: Ints
    before: Floats
    after: Floats
    chance: Floats


def find_drift(
    annotator: npt.ArrayLike,
    right: npt.ArrayLike,
    expected: npt.ArrayLike,
    size: int,
    order: npt.ArrayLike | None = None,
) -> Drift:
    """Find those of `size` annotators whose accuracy changes.

    Parameters
    ----------
    annotator : int array (N,)
    right : bool array (N,)
        Whether each label is right.
    expected : array (N,)
        How likely the crowd is right on such an item.
    size : int
    order : array (N,), optional
        What the labels of an annotator are ordered by, such as the trial; else they are in the order of the rows.
    """
    who = np.asarray(annotator).astype(np.int64)
    sort = np.argsort(who, kind="stable") if order is None else np.lexsort((np.asarray(order), who))
    who, wrong = who[sort], ~np.asarray(right, bool)[sort]
    error = np.clip(1 - np.asarray(expected, np.float64)[sort], 1e-3, 1 - 1e-3)
    n = np.bincount(who, minlength=size)
    ends = np.cumsum(n)
    total = sums(who, wrong, size)
    t = np.arange(1, len(who) + 1) - (ends - n)[who]
    seen = _running(wrong, ends - n, who)
    rate = _no_change(who, error, total, n, size)
    e, least = _running(rate, ends - n, who), np.maximum(MIN_PART, np.ceil(LEAST_SHARE * n))
    n_all, w_all = n[who], total[who]
    ratio = _log_ratio(seen, e, t) + _log_ratio(w_all - seen, w_all - e, n_all - t)
    ratio = np.where((t >= least[who]) & (t <= (n_all - least[who])), 2 * ratio, -1.0)
    highest = np.full(size, -1.0)
    np.maximum.at(highest, who, ratio)
    tested = (highest >= 0) & (total > 0) & (total < n)
    position = np.full(size, -1, np.int64)
    best = np.flatnonzero((ratio == highest[who]) & tested[who])
    position[who[best[::-1]]] = best[::-1]
    at = position[tested]
    before, after = np.full(size, np.nan), np.full(size, np.nan)
    before[tested] = 1 - seen[at] / t[at]
    after[tested] = 1 - (w_all[at] - seen[at]) / (n_all[at] - t[at])
    chance = np.full(size, np.nan)
    chance[tested] = largest_by_chance(np.sqrt(highest[tested]), least[tested] / n[tested])
    found = beyond_chance(chance) & (np.abs(before - after) >= MIN_CHANGE)
    row, number = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    row[found], number[found] = sort[position[found] + 1], t[position[found]] + 1
    return Drift(found, row, number, np.where(found, before, np.nan), np.where(found, after, np.nan), chance)


def largest_by_chance(highest: npt.ArrayLike, least: npt.ArrayLike) -> Floats:
    """Return an upper limit of P(largest standardised difference >= `highest`), by Miller and Siegmund.

    Parameters
    ----------
    highest : array
        The largest root of 2 log LR, over the places between `least` and 1 - `least`, as shares of the labels.
    """
    b, share = np.maximum(np.asarray(highest, np.float64), 1.0), np.clip(np.asarray(least, np.float64), 1e-6, 0.5)
    density = np.exp(-(b**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.minimum(density * ((b - 1 / b) * 2 * np.log((1 - share) / share) + 4 / b), 1.0))


def beyond_chance(chance: npt.ArrayLike, share: float = CHANCE) -> npt.NDArray[np.bool_]:
    """Return which findings stand if at most a `share` of them may be by chance, by Benjamini and Hochberg."""
    chances = np.asarray(chance, np.float64)
    known = np.sort(chances[np.isfinite(chances)])
    stands = np.flatnonzero(known <= share * np.arange(1, len(known) + 1) / max(len(known), 1))
    return np.isfinite(chances) & (chances <= (known[stands[-1]] if len(stands) else -1.0))


def _running(values: npt.NDArray[np.generic], starts: Ints, who: Ints) -> Floats:
    """Sum each annotator's values up to every one of them; rows lie by annotator."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    return np.asarray(sums[1:] - sums[starts[who]])


def _no_change(who: Ints, error: Floats, total: Floats, n: Ints, size: int) -> Floats:
    """Return P(wrong) of each label if nothing changes; these sum to the annotator's wrong labels."""
    crowd = sums(who, error, size)
    fewer = np.minimum(total / np.maximum(crowd, 1e-12), 1.0)[who]
    less = np.minimum((n - total) / np.maximum(n - crowd, 1e-12), 1.0)[who]
    return np.where((total <= crowd)[who], fewer * error, 1 - less * (1 - error))


def _log_ratio(wrong: Floats, expected: Floats, n: Ints) -> Floats:
    """Return w log(w / e) + (n - w) log((n - w) / (n - e)), with 0 log 0 = 0."""
    return _times_log(wrong, expected) + _times_log(n - wrong, n - expected)


def _times_log(a: Floats, b: Floats) -> Floats:
    return np.where(a > 0, a * np.log(np.maximum(a, 1e-9) / np.maximum(b, 1e-9)), 0.0)
