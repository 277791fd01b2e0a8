"""Which items to have checked (gold), and how narrow the intervals are that these are expected to give."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import UsageError
from ..errors.messages import quoted
from ..run.decisions import read_decisions
from ..run.files import RunFiles
from ..run.predictions import Predictions
from .gold import choose_items, expected_half_widths
from .next_answers import places, posteriors

MOST_CLASSES = 5  # the likeliest ones, for whose share an interval is expected

Ints = NDArray[np.int64]


def next_gold(run: RunFiles, n: int, about: "pd.Series[Any]") -> pd.DataFrame:
    """Choose items to have checked, evenly over what is stated of their consensus; see `gold.choose_items`.

    `run`: a finished run; the same run and decisions give the same items, none of known class.
    `n`: number of items.
    `about`: texts of items by row of predictions.
    Returned: item; text, if there is one of any of them; truth, empty. In random order: the first ones are a sample,
        too.
    """
    if run.summary.label_sets is not None:
        raise UsageError("Known classes of items (gold) cannot be used for sets of labels; leave --gold out.")
    frame = run.items[["item"]].iloc[_choose(run, n, known_items(run))].reset_index(drop=True)
    texts = about.groupby(run.predictions.frame["item"].astype(str).iloc[about.index].to_numpy()).first()
    frame["text"] = frame["item"].astype(str).map(texts)
    return frame.dropna(axis=1, how="all").assign(truth=pd.Series(None, frame.index, dtype="str"))


def first_answers(run: RunFiles, predictions: Predictions, n: int) -> Ints:
    """Return the rows of the worst answer to each of n items to check, whether they were decided on or not."""
    order, worst = np.argsort(predictions.label_quality, kind="stable")[::-1], np.empty(len(run.items), np.int64)
    worst[places(predictions.frame["item"], run.items["item"])[order]] = order  # what is put last stays
    return np.asarray(worst[_choose(run, n, known_items(run, decided=False))])


def expected_widths(run: RunFiles, n: int) -> dict[str, float]:
    """Return half the width of the interval to expect of each share by n items of known class, by what it is of."""
    predictions, (p, top) = run.predictions, posteriors(run, run.predictions.classes)
    item, label = places(predictions.frame["item"], run.items["item"]), predictions.given.astype(np.int64)
    common = np.argsort(-p.sum(0), kind="stable")[: 0 if top is not None else MOST_CLASSES]
    if top is not None:  # of many classes: each label by its place among the likeliest ones of its item
        said = top[item] == label[:, None]
        label = np.where(said.any(1), said.argmax(1), top.shape[1])
        p = np.column_stack([p, np.maximum(1 - p.sum(1), 0)])
    noise, accuracy, shares = expected_half_widths(p, item, label, n)
    found = {"the share of wrong labels": noise, "the accuracy of the consensus": accuracy}
    return found | {f"the share of {quoted(str(predictions.classes[k]))}": float(shares[k]) for k in common}


def known_items(run: RunFiles, *, decided: bool = True) -> Ints:
    """Return the places in items.parquet of items whose class the run knew, or reviewers decided."""
    certain = run.items["consensus_quality"].to_numpy() == 1  # no other class is possible
    reviews = read_decisions(run).dropna(subset=["label"])
    items = places(run.predictions.frame["item"].iloc[reviews["row"][: None if decided else 0]], run.items["item"])
    return np.union1d(np.flatnonzero(certain) if run.config.data.n_known_items else [], items).astype(np.int64)


def _choose(run: RunFiles, n: int, known: Ints) -> Ints:
    return choose_items(run.items["consensus_quality"].to_numpy(np.float64), n, checked=known)
