"""What reviewers decided on the labels of a run: classes of items, and how far the run's own numbers are right."""

import numpy as np
import pandas as pd
from msgspec.structs import replace
from numpy.typing import NDArray

from ..run.decisions import read_decisions
from ..run.files import RunFiles
from ..run.records.summary import GoldEstimates, Rate
from .cutoff import auto_cutoff
from .gold import Calibrator, Evidence, Interval, Known, describe_estimates, held_out
from .gold.estimates import estimate_mean

LEAST_DECIDED = 10  # items, from which on decisions say something

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def decided_classes(run: RunFiles, reviews: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the class of every item on whose labels reviewers decided.

    A label that was kept says its own class, one that was changed the new one, and "cannot tell" nothing. Where
    decisions on labels of one item differ, the class that most of them say counts, and of equally many the last one.

    Returns
    -------
    pandas.DataFrame
        row, the first label of the item that was decided on; label, the class as text; num_decisions.
    """
    reviews = read_decisions(run) if reviews is None else reviews
    said = reviews.dropna(subset=["label"]).sort_values("at", kind="stable")
    item = run.predictions.item[said["row"].to_numpy()]
    votes = said.assign(item=item).groupby(["item", "label"], sort=False)
    counts = votes.agg(row=("row", "min"), num_decisions=("row", "size"), at=("at", "max")).reset_index()
    counts = counts.sort_values(["num_decisions", "at"], kind="stable").groupby("item", sort=True).tail(1)
    return counts.sort_values("row")[["row", "label", "num_decisions"]].reset_index(drop=True)


def calibrate_run(run: RunFiles) -> GoldEstimates | None:
    """Learn from decisions of reviewers about all items and labels of a run; None where they are on too few items.

    What is corrected is what the run has stored: the posterior of items, and the quality of labels.
    """
    reviews, until = read_decisions(run), run.config.source.decided_until
    if until is not None:  # of a run made with `fit --from`, only the decisions made since
        reviews = reviews[reviews["at"] > pd.Timestamp(until)].reset_index(drop=True)
    classes, predictions, items = decided_classes(run, reviews), run.predictions, run.items
    if len(classes) < LEAST_DECIDED:
        return None
    item, given = np.asarray(predictions.item, np.int64), np.asarray(predictions.given, np.int64)
    quality = predictions.label_quality.astype(np.float64)
    names = [str(name) for name in predictions.classes]
    truth = np.full(len(items), -1)
    truth[item[classes["row"].to_numpy()]] = pd.Index(names).get_indexer(pd.Index(classes["label"]))
    wrong, decided = given != truth[item], np.flatnonzero(truth[item] >= 0)
    labels, _ = _calibrate(_right_or_not(quality), decided, (~wrong[decided]).astype(np.int64))
    gold = np.flatnonzero(truth >= 0)
    columns, shares = [f"p_{name}" for name in names], list[Interval]()
    if all(name in items for name in columns):
        known, calibrator = _calibrate(items[columns].to_numpy(np.float64), gold, truth[gold], item, given)
        noise, accuracy, shares = known.noise(), known.accuracy(), known.shares()
    else:
        right = items["consensus_label"].astype(str).to_numpy()[gold] == np.array(names)[truth[gold]]
        of_items = _right_or_not(items["consensus_quality"].to_numpy(np.float64))
        known, calibrator = _calibrate(of_items, gold, right.astype(np.int64))
        noise, accuracy = labels.shares()[0], known.shares()[1]
    listed, consensus = predictions.is_issue, run.summary.consensus
    seen, right, precision = decided[listed[decided]], labels.said, None
    if len(seen) > 1:
        expected = float((1 - right[listed]).mean())
        found = estimate_mean(wrong[seen] * 1.0, 1 - right[seen], expected, int(np.count_nonzero(listed)))
        precision = Rate(found.value, found.low, found.high)
    right[decided] = ~wrong[decided]
    cut = auto_cutoff(right).value
    below = (right < cut) & (truth[item] < 0)
    estimates = describe_estimates(
        (noise, accuracy, shares),
        predictions.classes,
        n_gold=len(gold),
        sharpness=calibrator.sharpness,
        votes=consensus.votes,
        stated=(run.summary.noise.rate, consensus.accuracy),
    )
    return replace(
        estimates,
        precision=precision,
        cutoff=float(quality[below].max()) if below.any() else 0.0,
        n_issues=int(np.count_nonzero(right < cut)),
    )


def _calibrate(
    p: Floats, gold: Ints, truth: Ints, item: Ints | None = None, label: Ints | None = None
) -> tuple[Known, Calibrator]:
    """Correct a posterior (N, K) by items of known class; by default each has one answer, the second class."""
    n, k = p.shape
    none = np.zeros(0, np.int64)
    evidence = Evidence.of(np.log(np.maximum(p, 1e-300)), None, none, none, np.zeros((0, k)))
    part, item = evidence.take(gold), np.arange(n) if item is None else item
    calibrator = Calibrator.fit(part, truth, 0)
    p = calibrator(evidence)
    p[gold] = held_out(part, truth, 0)
    label = np.ones(len(item), np.int64) if label is None else label
    return Known.of(p, item, label, np.full(len(item), -1), gold, truth), calibrator


def _right_or_not(quality: Floats) -> Floats:
    """Return the probabilities that something is wrong and right."""
    return np.stack([1 - quality, quality], axis=1)
