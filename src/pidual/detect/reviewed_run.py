"""What reviewers decided on the labels of a run: classes of items, and how far the run's own numbers are right."""

import numpy as np
import pandas as pd

from ..run.decisions import read_decisions
from ..run.files import RunFiles
from ..run.records.summary import Calibration, Rate, ReviewedConsensus
from . import calibration


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


def _new_decisions(run: RunFiles) -> pd.DataFrame:
    """Return the decisions that the run itself has not used: of one made with `fit --from`, those made since."""
    reviews, until = read_decisions(run), run.config.source.decided_until
    return reviews if until is None else reviews[reviews["at"] > pd.Timestamp(until)].reset_index(drop=True)


def calibrate_run(run: RunFiles) -> Calibration | None:
    """Learn from decisions of reviewers about all labels of a run; None where they are fewer than ten."""
    noise, reviews = run.summary.noise, _new_decisions(run)
    predictions, told = run.predictions, reviews.dropna(subset=["label"])
    decided, wrong = np.zeros(len(predictions), bool), np.zeros(len(predictions), bool)
    decided[told["row"]] = True
    wrong[told["row"][told["decision"] == "change"]] = True
    found = calibration.calibrate(predictions.label_quality, predictions.is_issue, decided, wrong, noise)
    if found is None:
        return None
    consensus = _consensus(run, decided_classes(run, reviews))
    curve = found[0].curve()
    return Calibration(**found[1], a=curve["a"], b=curve["b"], consensus=consensus)


def _consensus(run: RunFiles, classes: pd.DataFrame) -> ReviewedConsensus:
    """Estimate how many items have a wrong consensus, from the classes that were decided on."""
    items, frame = run.items, run.predictions.frame
    names = frame["item"].iloc[classes["row"]].astype(str)
    at = pd.Index(items["item"].astype(str)).get_indexer(pd.Index(names))
    quality = items["consensus_quality"].to_numpy(np.float64)
    decided, wrong = np.zeros(len(items), bool), np.zeros(len(items), bool)
    decided[at] = True
    wrong[at] = items["consensus_label"].astype(str).to_numpy()[at] != classes["label"].to_numpy()
    rate = float(1 - quality.mean())
    stated = Rate(rate, rate / 2, min(0.99, rate * 2))  # a run has no interval of its own for this
    found = calibration.Calibration.fit(quality[decided], wrong[decided], quality, stated)
    now = found.share_of_wrong(quality, decided, wrong) or stated
    return ReviewedConsensus(now.rate, now.low, now.high, rate, **found.curve())
