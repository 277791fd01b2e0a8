"""How well wrong labels were found: the columns of benchmarks/detection.py. Pure NumPy and scikit-learn."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from crowd_scores import rounded
from sklearn.metrics import average_precision_score

from pidual.metrics import detection_auc

COLUMNS = (
    *("auc", "ap", "f1", "best_f1", "precision", "recall", "noise", "noise_error", "covered", "gap", "gap_n"),
    *("gap_covered", "seconds"),
)


@dataclass
class Found:
    """What a tool says of a table of labels; None where it has nothing to say.

    quality      (N,) of every label, low = looks wrong
    issue        (N,) whether it calls the label wrong
    noise        share of wrong labels, and an interval of it: low, high
    expected     precision of its list, as it says itself; then its quality is the probability that a label is right;
                 and an interval of it: expected_low, expected_high
    seconds      processor time of all it takes
    more         further cells of the row
    """

    quality: np.ndarray
    issue: np.ndarray
    noise: float | None = None
    low: float | None = None
    high: float | None = None
    expected: float | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    seconds: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)


def score(found, frame):
    """The columns, over the labels whose truth is known; those that have nothing to say are left out.

    f1, precision, recall   of the labels called wrong at the automatic cut-off; best_f1: of any cut of the quality
    noise_error             stated share of wrong labels minus the true one, where all are known; covered: whether its
                            interval has the truth
    gap                     expected minus actual precision at the automatic cut-off; gap_covered: whether the interval
                            of the expected one has the actual one
    gap_n                   the same of as many labels of lowest quality as are truly wrong
    """
    known = frame["y"].notna().to_numpy()
    wrong = (frame["label"] != frame["y"]).to_numpy(bool, na_value=False)[known]
    quality, issue = np.asarray(found.quality, np.float64)[known], np.asarray(found.issue, bool)[known]
    rate, hits = float(wrong.mean()), int((issue & wrong).sum())
    precision = hits / issue.sum() if issue.any() else None
    bounded = found.expected_low is not None and precision is not None
    cells = {
        "auc": detection_auc(quality, wrong),
        "ap": average_precision_score(wrong, -quality),
        "f1": f1(hits, issue.sum(), wrong.sum()),
        "best_f1": best_f1(quality, wrong),
        "precision": precision,
        "recall": hits / wrong.sum(),
        "noise": rate,
        "noise_error": found.noise - rate if found.noise is not None and known.all() else None,
        "covered": found.low <= rate <= found.high if found.low is not None and known.all() else None,
        "gap": None if found.expected is None or precision is None else found.expected - precision,
        "gap_n": gap_at(int(wrong.sum()), quality, wrong) if found.expected is not None else None,
        "gap_covered": found.expected_low <= precision <= found.expected_high if bounded else None,
        "seconds": found.seconds,
    }
    return {name: short(value) for name, value in cells.items() if value is not None} | found.more


def short(value):
    """A number for JSON, to four digits."""
    value = rounded(value)
    return round(value, 4) if isinstance(value, float) else value


def f1(hits, flagged, wrong):
    """Harmonic mean of precision and recall; 0 where nothing is found."""
    return 2 * hits / max(1, flagged + wrong)


def best_f1(quality, wrong):
    """The best F1 of any cut of the quality; labels of equal quality are all on one side of it."""
    order = np.argsort(quality, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(quality[order]) > 0, True))
    hits = wrong[order].cumsum()[ends]
    return float((2 * hits / (ends + 1 + wrong.sum())).max())


def gap_at(n, quality, wrong):
    """Expected minus actual share of wrong labels among the n of lowest quality."""
    lowest = np.argsort(quality, kind="stable")[:n]
    return (1 - quality[lowest]).mean() - wrong[lowest].mean()


def summarise(rows):
    """Means over seeds for every set and method; of `covered` the share; `more` cells of the first seed."""
    groups = {}
    for row in rows:
        groups.setdefault((row["data"], row["method"]), []).append(row)
    lines = []
    for (data, method), found in groups.items():
        line = found[0] | {"data": data, "method": method, "seeds": len(found)}
        for column in (*COLUMNS, "filter_f1"):
            values = [row[column] for row in found if row.get(column) is not None]
            line[column] = float(np.mean(values)) if values else None
        shares = [row["f1"] / row["best_f1"] for row in found if row["best_f1"]]
        line |= {"share": float(np.mean(shares)), "least_recall": min(row["recall"] for row in found)}
        line["verdicts"] = [row["verdict"] for row in found if row.get("verdict") not in (None, "ok")]
        del line["seed"]
        lines.append(line)
    return lines


def table(lines):
    """The summary for people."""
    names = ("auc", "ap", "f1", "share", "precision", "recall", "noise", "noise_error", "covered", "gap", "gap_n")
    out = ["data".ljust(22) + "method".ljust(10) + "seeds" + "".join(name.rjust(12) for name in (*names, "seconds"))]
    for line in lines:
        cells = ["-" if line[name] is None else f"{line[name]:.3f}" for name in names]
        cells.append(f"{line['seconds']:.1f}")
        head = line["data"].ljust(22) + line["method"].ljust(10) + str(line["seeds"]).rjust(5)
        out.append(head + "".join(cell.rjust(12) for cell in cells) + "  " + ", ".join(line["verdicts"]))
    return "\n".join(out)
