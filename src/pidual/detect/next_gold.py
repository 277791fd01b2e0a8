"""Which items to have checked (gold), and what these are expected to show."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import UsageError
from ..errors.messages import quoted
from ..run.decisions import read_decisions
from ..run.files import RunFiles
from ..run.predictions import Predictions
from .gold import choose_items, expected_half_widths, half_width
from .next_answers import places, posteriors

MOST_CLASSES = 5  # whose share is told

Ints = NDArray[np.int64]


def next_gold(run: RunFiles, n: int, about: "pd.Series[Any] | None" = None) -> pd.DataFrame:
    """Choose items to have checked, evenly over what the consensus states, and never those whose class is known.

    Parameters
    ----------
    run : RunFiles
        A finished run; the same run and decisions give the same items.
    n : int
        Number of items.
    about : Series, optional
        Texts by row of predictions.

    Returns
    -------
    DataFrame
        item; text, where there is one of any; truth, empty. In random order: the first ones will do, too.
    """
    if n < 1:
        raise UsageError(f"n must be at least 1, not {n}.")
    frame = run.items[["item"]].iloc[choose_gold(run, n, checked=_decided(run))].reset_index(drop=True)
    if about is not None:
        texts = about.groupby(run.predictions.frame["item"].astype(str).iloc[about.index].to_numpy()).first()
        frame["text"] = frame["item"].astype(str).map(texts)
        frame = frame.dropna(axis=1, how="all")
    return frame.assign(truth=pd.Series(None, frame.index, dtype="str"))


def choose_gold(run: RunFiles, n: int, *, checked: Ints | None = None) -> Ints:
    """Return the places of items to check in items.parquet, without those that the run knew or that are `checked`."""
    checked = np.zeros(0, np.int64) if checked is None else checked
    return choose_items(
        run.items["consensus_quality"].to_numpy(np.float64), n, checked=np.union1d(_known(run), checked)
    )


def first_answers(run: RunFiles, predictions: Predictions, n: int) -> Ints:
    """Return the answer of lowest quality to each of n items to check, as rows of predictions."""
    order = np.argsort(predictions.label_quality, kind="stable")[::-1]
    worst = np.empty(len(run.items), np.int64)
    worst[places(predictions.frame["item"], run.items["item"])[order]] = order  # the last one stays
    return np.asarray(worst[choose_gold(run, n)])


def expected_widths(run: RunFiles, n: int) -> tuple[int, dict[str, float]]:
    """Return how many classes are known once n more are, and half the width of the interval to expect of each share."""
    n_known = len(np.union1d(_known(run), _decided(run, unsure=False))) + n
    predictions, (p, top) = run.predictions, posteriors(run, run.predictions.classes)
    classes = predictions.classes
    total = p.sum(0) if top is None else np.bincount(top.ravel(), p.ravel(), len(classes))
    common = np.argsort(-total, kind="stable")[:MOST_CLASSES]
    shares = {
        f"the share of {quoted(str(classes[code]))}": half_width(
            p[:, code] if top is None else (p * (top == code)).sum(1), n_known
        )
        for code in common
    }
    item, label = places(predictions.frame["item"], run.items["item"]), predictions.given.astype(np.int64)
    if top is not None:  # a label is its place among the likeliest classes of its item, or the last one
        said = top[item] == label[:, None]
        label = np.where(said.any(1), said.argmax(1), top.shape[1])
        p = np.column_stack([p, np.maximum(1 - p.sum(1), 0)])
    noise, accuracy, _ = expected_half_widths(p, item, label, n_known)
    return n_known, {"the share of wrong labels": noise, "the accuracy of the consensus": accuracy, **shares}


def _known(run: RunFiles) -> Ints:
    """Return the places of the items whose class the run knew: no other is possible."""
    quality = run.items["consensus_quality"].to_numpy()
    return np.flatnonzero(quality == 1) if run.config.data.n_known_items else np.zeros(0, np.int64)


def _decided(run: RunFiles, *, unsure: bool = True) -> Ints:
    """Return the places of the items on which reviewers decided, also of those of which they cannot tell."""
    reviews = read_decisions(run)
    rows = reviews["row"] if unsure else reviews.dropna(subset=["label"])["row"]
    return np.unique(places(run.predictions.frame["item"].iloc[rows], run.items["item"]))
