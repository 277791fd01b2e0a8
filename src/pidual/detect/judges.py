"""How each annotator does by items of known class, and whether their answers depend on the order of things.

What is known about gold corrects the posterior of all items that an annotator answered, for each number on its own.
With J the shares of answers by true class and answer, and D the derivative of a number g by them:

    y = D[z, l],   m = sum_k D[k, l] p(k);   g is that of   lam mean_all m + mean_gold (e_zl - lam p e_l)

lam is as in `gold/estimates`, and so are intervals: on the logit scale, or by Wilson where few gold answers are wrong.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi.encoder import value_text, words
from ..metrics import NORMAL_95, wilson_interval
from ..run.predictions import Predictions
from .counts import sums
from .directions import Deserved
from .gold.estimates import FEW_GOLD, FEW_WRONG, on_logits, t_quantile
from .informative import FEW_VALUES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_ANSWERS = 5  # to gold, that an annotator, or an annotator on a class, needs
ORDERS = {"order", "position", "swap", "swapped"}  # words of the name of a column that says what was shown first


def add_gold(
    annotators: pd.DataFrame, by_class: pd.DataFrame, predictions: Predictions, deserved: Deserved | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Add what gold items say to the tables of annotators, and of these by class; without gold they are as they were.

    `annotators`, `by_class`: by `describe_annotators` and `describe_annotator_classes`.
    `predictions`: one row of each answer.
    """
    who = predictions.annotator
    if deserved is None or who is None or not (deserved.truth >= 0).any():
        return annotators, by_class
    found = describe_by_gold(who, predictions.given, predictions.item, deserved)
    names, classes = predictions.frame["annotator"].cat.categories, by_class["true_class"].cat.categories
    codes = [names.get_indexer(pd.Index(table["annotator"])) for table in (annotators, by_class)]
    of_class = pd.MultiIndex.from_arrays([codes[1], classes.get_indexer(pd.Index(by_class["true_class"]))])
    whole = found[found["class"] < 0].set_index("annotator")
    parts = found[found["class"] >= 0].set_index(["annotator", "class"])
    return annotators.assign(**_columns(whole, codes[0])), by_class.assign(**_columns(parts, of_class))


def _columns(found: pd.DataFrame, place: Any) -> dict[str, Floats]:
    """Return the columns of each number, in the order of some places of the index."""
    return {
        f"gold_{name}{end}": part[column].reindex(place).to_numpy(np.float32)
        for name, part in found.groupby("name")
        for end, column in (("", "value"), ("_low", "low"), ("_high", "high"))
    }


def describe_by_gold(who: npt.ArrayLike, label: npt.ArrayLike, item: npt.ArrayLike, deserved: Deserved) -> pd.DataFrame:
    """Estimate how each annotator does, with intervals, where they answered at least five gold items.

    `who`, `label`, `item` (R,): codes of who gave each answer, of the answer, and of its item.
    Returned: annotator; name (kappa, sensitivity or specificity); class, its code, -1 of kappa; value, low and high.
    """
    people, labels, items = (np.asarray(codes).astype(np.int64) for codes in (who, label, item))
    k, order, rows = deserved.p.shape[1], np.argsort(people, kind="stable"), []
    for each in np.split(order, np.flatnonzero(np.diff(people[order])) + 1):
        gold = each[deserved.truth[items[each]] >= 0]
        if len(gold) < LEAST_ANSWERS:
            continue
        z, said, p = deserved.truth[items[gold]], labels[gold], deserved.p[items[gold]]
        expected = np.stack([sums(labels[each], column, k) for column in deserved.p[items[each]].T]) / len(each)
        seen = np.bincount(z * k + said, minlength=k * k).reshape(k, k)
        start = (seen + expected) / (len(gold) + 1)
        number, finite = np.unique(items[gold], return_inverse=True)[1], 1 - len(gold) / len(each)
        for found in _numbers(start):
            n = int(found.of[z].sum())
            if n < LEAST_ANSWERS:
                continue
            y, m = found.slope[z, said], (found.slope[:, said].T * p).sum(1)
            lam = np.clip(np.mean((y - y.mean()) * (m - m.mean())) / max(np.var(m), 1e-12), 0, 1)
            r = y - lam * m
            value = found.value + lam * (found.slope * expected).sum() + r.mean() - (found.slope * start).sum()
            off = sums(number, r - r.mean(), int(number.max()) + 1) * n / len(gold)
            ends = found.interval(float(value), float((off**2).sum()), n, int(found.right[z, said].sum()), finite)
            rows.append((int(people[each[0]]), found.name, found.code, *ends))
    return pd.DataFrame(rows, columns=["annotator", "name", "class", "value", "low", "high"])


class _Number(NamedTuple):
    """A number of an annotator: what it is by J, and how it changes with J (K, K)."""

    name: str
    code: int  # of the class, or -1
    value: float
    slope: Floats
    of: npt.NDArray[np.bool_]  # true classes of the answers that count (K,)
    right: npt.NDArray[np.bool_]  # and which of these are right (K, K)
    unit: float = 1.0  # how far a right answer more moves it, times the number of answers

    def interval(self, value: float, squares: float, n: int, right: int, finite: float) -> tuple[float, float, float]:
        """Return the number with its 95% interval: right for `right` of n gold answers, off by these squares."""
        h = (right + 2) / (n + 4)
        se = np.sqrt((squares + 2 * h * (1 - h) * self.unit**2) / (n + 1) / n * finite)
        if self.name == "kappa":
            reach = t_quantile(n - 2) * se
            return value, max(-1.0, value - reach), min(1.0, value + reach)
        if finite and n < FEW_GOLD and n - right < FEW_WRONG:
            low, high = (float(end) for end in wilson_interval(right, n))
            return min(max(value, low), high), low, high
        if not finite:
            return value, value, value
        value = min(max(value, 0.5 / (n + 1)), 1 - 0.5 / (n + 1))
        low, high = (float(end) for end in on_logits((n * value + 2 * h) / (n + 2), se, n - 2))
        return value, min(low, value), max(high, value)


def _numbers(j: Floats) -> Iterator[_Number]:
    """Yield all numbers of an annotator."""
    k, same = len(j), np.eye(len(j), dtype=bool)
    of_true, of_said = j.sum(1), j.sum(0)
    accuracy, chance = float(np.trace(j)), float(of_true @ of_said)
    left = max(1 - chance, 1e-9)
    slope = same / left - (1 - accuracy) / left**2 * (of_said[:, None] + of_true)
    yield _Number("kappa", -1, 1 - (1 - accuracy) / left, slope, np.ones(k, bool), same, 1 / left)
    for code, unit in enumerate(same):
        for name, of, hit in (("sensitivity", unit, unit), ("specificity", ~unit, ~unit)):
            share = max(float(of_true[of].sum()), 1e-9)
            value = float(j[np.ix_(of, hit)].sum()) / share
            yield _Number(name, code, value, of[:, None] * (hit - value) / share, of, of[:, None] & hit)


def find_order(predictions: Predictions) -> str | None:
    """Return the first PI column that says in which order things were shown, by its name."""
    names = (name for name in predictions.pi_columns if ORDERS & {*words(name)})
    return next((name for name in names if 1 < predictions.frame[name].nunique() <= FEW_VALUES), None)


def add_orders(annotators: pd.DataFrame, predictions: Predictions, column: str | None) -> pd.DataFrame:
    """Add how often annotators answer the same in two orders, where some were asked about an item in both.

    `annotators`: by `describe_annotators`.
    `predictions`: every answer, also where one person gave several to an item.
    `column`: the PI column that says in which order things were shown.
    """
    annotators = annotators.drop(columns=[name for name in annotators if str(name).startswith("order_")])
    if column is None or predictions.annotator is None:
        return annotators
    shown = predictions.frame[column].astype("category")
    who, classes = predictions.annotator.astype(np.int64), [value_text(name) for name in predictions.classes]
    found = describe_orders(who, predictions.given, predictions.item, shown.cat.codes, len(classes))
    if not len(found):
        return annotators
    names = [value_text(name) for name in shown.cat.categories]
    names = names if len(names) == 2 else ["earlier", "later"]
    favours = [
        f"{classes[k]} when {names[place]}" for k, place in zip(found.pop("class"), found.pop("place"), strict=True)
    ]
    found = found.assign(order_favours=pd.Series(favours, dtype="str").array)
    found.index = predictions.frame["annotator"].cat.categories[found.index]
    rows = found.reindex(annotators["annotator"].astype(object)).reset_index(drop=True)
    rows["order_pairs"] = rows["order_pairs"].fillna(0).astype(np.int64)
    return annotators.join(rows)


def describe_orders(
    who: npt.ArrayLike, label: npt.ArrayLike, item: npt.ArrayLike, order: npt.ArrayLike, n_classes: int
) -> pd.DataFrame:
    """Compare answers by one annotator to one item in two orders.

    `who`, `label`, `item`, `order` (R,): codes; an order of -1 is not known.
    Returned: by code of the annotator: order_pairs, order_agreement (the share that is the same) with its interval, and
        of the class that depends most on the order: class, place (0: said more often in the first of two orders, 1: in
        the second) and order_shift (how much more often) with its interval.
    """
    answers = pd.DataFrame({"who": who, "item": item, "order": order, "label": label}).astype(np.int64)
    answers = answers[answers["order"] >= 0].drop_duplicates(["who", "item", "order"], keep="last")
    pairs = answers.merge(answers, on=["who", "item"])
    pairs = pairs[pairs["order_x"] < pairs["order_y"]]
    people, at = np.unique(pairs["who"], return_inverse=True)
    first, second, size = pairs["label_x"].to_numpy(), pairs["label_y"].to_numpy(), len(people)
    n, items = np.bincount(at, minlength=size), pairs.groupby("who")["item"].nunique().to_numpy()
    same = sums(at, first == second, size) / np.maximum(n, 1)
    low, high = wilson_interval(same * items, items)
    moved = [np.bincount(at * n_classes + said, minlength=size * n_classes) for said in (first, second)]
    shift = ((moved[0] - moved[1]) / np.repeat(n, n_classes)).reshape(size, n_classes)
    best = np.abs(shift).argmax(1)
    mean = shift[np.arange(size), best]
    off = (first == best[at]) * 1.0 - (second == best[at]) - mean[at]
    squares = pairs.assign(off=off).groupby(["who", "item"])["off"].sum().pow(2).groupby("who").sum().to_numpy()
    reach, mean = NORMAL_95 * np.sqrt(squares) / np.maximum(n, 1), np.abs(mean)
    return pd.DataFrame(
        {
            "order_pairs": n,
            "order_agreement": same.astype(np.float32),
            "order_agreement_low": low.astype(np.float32),
            "order_agreement_high": high.astype(np.float32),
            "class": best,
            "place": (shift[np.arange(size), best] < 0).astype(np.int64),
            "order_shift": mean.astype(np.float32),
            "order_shift_low": np.maximum(mean - reach, -1).astype(np.float32),
            "order_shift_high": np.minimum(mean + reach, 1).astype(np.float32),
        },
        index=people,
    )
