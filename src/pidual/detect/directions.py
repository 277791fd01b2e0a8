"""Which way PI moves answers: how much more often they say a class than their items deserve, at one value and another.

    d_k = mean ([l = k] - P(z = k)) over answers with a high value  -  the same over answers with a low value

Without gold, P is the posterior, which follows the answers: what moves all answers to an item moves it as far, and of a
length bias of 24 to 32 points none is left. So only values that differ among the answers to an item are compared then.
With gold the posterior is corrected by what is known, by the lam of `gold/estimates`:

    mean P  =  lam mean p over all answers  +  mean ([z = k] - lam p) over answers to gold

An interval counts answers to one item as one cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi.encoder import is_moment, numbers, value_text
from ..run.records.summary import PIDirection
from .counts import CHANCE
from .gold import Known
from .gold.estimates import t_quantile
from .informative import MIN_SUPPORT, column_values
from .items import Posteriors

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

THIRD = 1 / 3  # of a column of numbers: the lowest and the highest are compared
MAX_VALUES = 50  # a column of more categories may hold ids
MAX_DIRECTIONS = 100  # that are kept
MAX_NUMBERS = 2**23  # items x classes; of more items, evenly spaced ones are looked at
LEAST_SHARED = 0.5  # of two groups of answers, the part to the same items that their comparison needs without gold
FEW_GOLD = 10  # gold items that both groups of answers need for a correction
MANY = 10**6  # degrees of freedom of a normal distribution


@dataclass(frozen=True)
class Deserved:
    """What the answers to each item should have been: its posterior (N, K), and its class where known, else -1 (N,).

    The posterior of items of known class is by calibrators that have not seen it.
    """

    p: Floats
    truth: Ints

    @classmethod
    def of(cls, posteriors: Posteriors, known: Known | None) -> "Deserved | None":
        """Take posteriors, and what is known about gold; None with too many classes."""
        if posteriors.top is not None:
            return None
        p: Any = posteriors.p  # single precision is enough where nothing is corrected
        truth = np.full(len(p), -1)
        if known is not None:
            p = p.astype(np.float64)
            p[known.gold], truth[known.gold] = known.p_gold, known.truth
        return cls(p, truth)


def find_directions(
    pi: pd.DataFrame, label: npt.ArrayLike, item: npt.ArrayLike, deserved: Deserved, classes: Sequence[Any]
) -> list[PIDirection]:
    """Find which way PI columns move answers, what is beyond chance first, and the largest first.

    `pi` (R rows): the columns, with their raw values.
    `label`, `item` (R,): codes.
    Returned: for each column of numbers its highest third against its lowest, where gold shows most; for each other
        column its frequent values against all others. Of two classes the one that is said more often. Without gold a
        column whose values hardly differ among the answers to an item has none.
    """
    (n, k), labels, items = deserved.p.shape, np.asarray(label).astype(np.int64), np.asarray(item).astype(np.int64)
    every = -(-n * k // MAX_NUMBERS)
    rows = np.flatnonzero(items % every == 0)
    labels, items = labels[rows], items[rows] // every
    deserved = Deserved(deserved.p[::every].astype(np.float64), deserved.truth[::every])
    contrasts = [(str(name), *each) for name in pi for each in _contrasts(pi[name].iloc[rows])]
    tail, found = CHANCE / 2 / max(1, len(contrasts) * (k if k > 2 else 1)), []
    for name, value, against, high, low in contrasts:
        difference, se, n_gold = _difference(high, low, labels, items, deserved)
        if not n_gold and np.minimum(*(_per_item(items[group], n) for group in (high, low))).sum() < LEAST_SHARED:
            continue
        degrees = n_gold - 2 if n_gold else MANY
        reach, sure = t_quantile(degrees) * se, t_quantile(degrees, tail) * se
        for code in range(k) if k > 2 else [int(np.argmax(difference))]:
            ends = np.clip([difference[code] - reach[code], difference[code] + reach[code]], -2, 2)
            tells = bool(abs(difference[code]) > sure[code])
            how_much = float(difference[code]), float(ends[0]), float(ends[1])
            found.append(PIDirection(name, value, against, classes[code], *how_much, n_gold, tells))
    return sorted(found, key=lambda each: (not each.tells, -abs(each.difference)))[:MAX_DIRECTIONS]


def _contrasts(column: "pd.Series[Any]") -> Iterator[tuple[str, str, Bools, Bools]]:
    """Yield values in words, those they are compared with, and answers with these."""
    if is_moment(column):
        return
    code, _, names, ordered = column_values(column)
    if names is None:
        known = numbers(column)
        first, last = np.quantile(ordered, [THIRD, 1 - THIRD])
        if first < last and len(ordered) >= MIN_SUPPORT / THIRD:
            yield f"{value_text(last)} or more", f"{value_text(first)} or less", known >= last, known <= first
        return
    count = np.bincount(code[code >= 0], minlength=len(names))
    there = np.flatnonzero(count)
    if 1 < len(there) <= MAX_VALUES:
        for one in there[:1] if len(there) == 2 else there:
            if MIN_SUPPORT <= count[one] <= count.sum() - MIN_SUPPORT:
                others = value_text(names[there[1]]) if len(there) == 2 else "any other"
                yield value_text(names[one]), others, code == one, (code >= 0) & (code != one)


def _difference(high: Bools, low: Bools, label: Ints, item: Ints, deserved: Deserved) -> tuple[Floats, Floats, int]:
    """Return d and its standard error (K,), and how many gold items it rests on."""
    p, (n, k) = deserved.p, deserved.p.shape
    is_gold, true = deserved.truth >= 0, np.eye(k)[deserved.truth] * (deserved.truth >= 0)[:, None]
    rows = [np.flatnonzero(group) for group in (high, low)]
    n_gold = min(int(is_gold[np.unique(item[group])].sum()) for group in rows)
    n_gold = n_gold if n_gold >= FEW_GOLD else 0
    share = [_per_item(item[group], n) for group in rows]  # of the answers of a group, to each item
    of_gold = [_per_item(item[group[is_gold[item[group]]]], n) * (n_gold > 0) for group in rows]
    lam = np.ones(k)
    if n_gold:
        y, m = (_centred(of_gold[0], x) - _centred(of_gold[1], x) for x in (true, p))
        lam = np.clip((y * m).sum(0) / np.maximum((m**2).sum(0), 1e-12), 0, 1)
    d, pull, variance = np.zeros(k), np.zeros((n, k)), np.zeros(k)  # of each item on d
    for sign, group, b, known in zip((1, -1), rows, share, of_gold, strict=True):
        said = np.bincount(item[group] * k + label[group], minlength=n * k).reshape(n, k) / len(group)
        left = true - lam * p
        d += sign * (said.sum(0) - lam * (b @ p) - known @ left)
        pull += sign * (said - b[:, None] * said.sum(0) - lam * _centred(b, p) - _centred(known, left))
        if n_gold:  # so that gold of one class leaves some doubt
            answered = int((known > 0).sum())
            h = (answered * (known @ true) + 2) / (answered + 4)
            variance += 2 * h * (1 - h) / answered / (answered + 1)
    return d, np.sqrt((pull**2).sum(0) + variance), n_gold


def _per_item(item: Ints, n: int) -> Floats:
    """Return the share of answers that each item has."""
    return np.bincount(item, minlength=n) / max(1, len(item))


def _centred(weight: Floats, x: Floats) -> Floats:
    """Return each item's part in the weighted mean of x, less that mean."""
    return np.asarray(weight[:, None] * (x - weight @ x))
