"""What a method says of a crowd, and how right it is: the columns of benchmarks/crowds.py. Pure NumPy and pandas."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from pidual.metrics import accuracy, detection_auc, finite_or_none, precision_recall

MIN_ANSWERS = 5  # with known truth, for an annotator's accuracy to count
COLUMNS = (
    "test_accuracy",
    "auc",
    "consensus",
    "spearman",
    "stated",
    "ece",
    "f1",
    "noise_error",
    "collapsed",
    "seconds",
)


@dataclass
class Judged:
    """What a method says of a crowd; None where it has nothing to say.

    quality            (N,) of every answer, low = looks wrong
    consensus          (n_items,) class of every item
    consensus_quality  (n_items,) how sure that is, in [0, 1]
    annotators         name -> quality, high = good
    test               (n_test,) predicted classes of the test inputs
    issues             (N,) which answers are listed as wrong
    collapsed          whether the network answers no better than chance
    seconds            processor time of what it took over from another method
    """

    quality: np.ndarray | None = None
    consensus: np.ndarray | None = None
    consensus_quality: np.ndarray | None = None
    annotators: pd.Series | None = None
    test: np.ndarray | None = None
    issues: np.ndarray | None = None
    collapsed: bool | None = None
    seconds: float = 0.0


def score(judged, frame, y_test):
    """The columns of a method, from the clean labels it has not seen; None where there is nothing to compare."""
    known = frame["y"].notna().to_numpy()
    wrong = (frame["label"] != frame["y"])[known].to_numpy(bool)
    truth = item_truth(frame)
    scores = dict.fromkeys(COLUMNS[:-1])
    if judged.quality is not None:
        scores["auc"] = detection_auc(np.asarray(judged.quality, np.float64)[known], wrong)
    if judged.issues is not None:
        precision, recall = precision_recall(judged.issues[known], wrong)
        scores["f1"] = 2 * precision * recall / (precision + recall) if precision and recall else 0.0
        scores["noise_error"] = 1 - float(np.mean(judged.quality[known], dtype=np.float64)) - float(wrong.mean())
    if judged.consensus is not None:
        right = np.asarray(judged.consensus)[truth.index] == truth.to_numpy()
        scores["consensus"] = float(right.mean())
        if judged.consensus_quality is not None:
            stated = np.clip(np.asarray(judged.consensus_quality, np.float64)[truth.index], 0, 1)
            scores |= {"stated": float(stated.mean()), "ece": calibration_error(stated, right)}
    if judged.annotators is not None:
        scores["spearman"] = annotator_spearman(judged.annotators, frame)
    if judged.test is not None and len(y_test):
        scores["test_accuracy"] = accuracy(judged.test, y_test)
    scores["collapsed"] = judged.collapsed
    return {name: rounded(value) for name, value in scores.items()}


def item_truth(frame):
    """Clean label of every item that has one, by item."""
    known = frame[frame["y"].notna()]
    return known.drop_duplicates("item").set_index("item")["y"].astype(np.int64).sort_index()


def annotator_spearman(quality, frame, least=MIN_ANSWERS):
    """Rank correlation of annotators' quality with their true accuracy, of those with enough answers; None for few."""
    known = frame[frame["y"].notna()]
    right = (known["label"] == known["y"]).astype(float)
    groups = right.groupby(known["annotator"].astype(str), observed=True)
    truth = groups.mean()[groups.size() >= least]
    said = quality.reindex(truth.index)
    there = said.notna()
    said, truth = said[there], truth[there]
    if len(truth) < 3 or said.nunique() < 2 or truth.nunique() < 2:
        return None
    return float(spearmanr(said, truth).statistic)


def rounded(value):
    """A number for JSON, to five digits; truth values and None as they are."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    value = finite_or_none(float(value))
    return None if value is None else round(value, 5)


def summarise(rows):
    """Mean and standard error over seeds of every column, for every crowd and method; collapsed fits are counted."""
    groups = {}
    for row in rows:
        groups.setdefault((row["data"], row["method"]), []).append(row)
    summary = []
    for (data, method), found in groups.items():
        line = {"data": data, "method": method, "seeds": len(found)}
        for column in COLUMNS:
            values = [row[column] for row in found if row.get(column) is not None]
            if column == "collapsed":
                line[column] = sum(values) if values else None
            elif values:
                error = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
                line[column] = {"mean": rounded(np.mean(values)), "standard_error": rounded(error)}
            else:
                line[column] = None
        summary.append(line)
    return summary


def table(summary):
    """The summary for people: a block of lines for every crowd."""
    lines = []
    for data in dict.fromkeys(line["data"] for line in summary):
        lines.append(f"{data}")
        lines.append("  " + "method".ljust(17) + "seeds " + "".join(name.rjust(15) for name in COLUMNS))
        for line in summary:
            if line["data"] == data:
                cells = [cell(name, line[name]).rjust(15) for name in COLUMNS]
                lines.append("  " + line["method"].ljust(17) + str(line["seeds"]).rjust(5) + " " + "".join(cells))
    return "\n".join(lines)


def cell(name, value):
    """A mean with its standard error: shares in percent, AUC and correlations as they are."""
    if value is None:
        return "-"
    if name == "collapsed":
        return str(value)
    mean, error = value["mean"], value["standard_error"]
    if name in ("test_accuracy", "consensus", "stated", "ece"):
        return f"{100 * mean:.1f}" + (f" ±{100 * error:.1f}" if error is not None else "")
    digits = 1 if name == "seconds" else 3
    return f"{mean:.{digits}f}" + (f" ±{error:.{digits}f}" if error is not None else "")


def calibration_error(probability, right, n_bins=15):
    """Expected calibration error: mean gap between stated probability and share right, over 15 bins (Guo et al. 2017).

    In [0, 1], 0 = perfectly calibrated.
    """
    bins = np.clip(np.ceil(probability * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    stated = np.bincount(bins, weights=probability, minlength=n_bins)
    found = np.bincount(bins, weights=right, minlength=n_bins)
    return float(np.abs(stated - found).sum() / len(probability))
