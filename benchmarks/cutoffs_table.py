"""Tables of docs/detection.md that are made of results/cutoffs.json: which score, and where to cut it."""

import numpy as np
from detection_sets import TITLES

SCORES = {
    "half": "quality",
    "full": "counted in full",
    "none": "not counted",
    "probability": "network alone",
    "margin": "its log-margin",
    "epochs": "over epochs",
    "AUM": "AUM",
    "gate": "gate",
}


LISTS = {"expected F1": "before", "several answers": "now"}


def tables(rows):
    """Name -> Markdown."""
    first = [row for row in rows if row.get("seed", 0) == 0]
    return {
        "detection scores": scores_table([row for row in first if row["auc"]]),
        "detection rules": rules_table([row for row in first if row["share"]]),
        "detection lists": lists_table([row for row in rows if "lists" in row]),
    }


def lists_table(rows):
    """Lists by the cut-off alone, and without labels that rest on one answer: means over seeds."""
    head = ["set", *(f"{what}: {old}" for old in LISTS.values() for what in ("precision (stated)", "recall", "F1"))]
    head += ["rest on one answer", "of these wrong", "F1 without the exception"]
    made = []
    for name in dict.fromkeys(row["set"] for row in rows):
        found = [row["lists"] for row in rows if row["set"] == name]

        def mean(rule, cell, found=found):
            return np.mean([each[rule][cell] for each in found])

        cells = [title(name) + (f", {len(found)} draws" if len(found) > 1 else "")]
        for rule, stated in zip(LISTS, ("half", "several"), strict=True):
            cells.append(f"{mean(rule, 'precision'):.3f} ({mean(rule, stated):.3f})")
            cells += [f"{mean(rule, cell):.3f}" for cell in ("recall", "f1")]
        groups = [each["resting"] for each in found if each["resting"]["n"]]
        n = sum(group["n"] for group in groups)
        wrong = sum(group["n"] * group["wrong"] for group in groups)
        cells += [f"{n:,}", f"{wrong / n:.0%}" if n else ""]
        cells.append(f"{mean('and consensus', 'f1'):.3f}")
        made.append(cells)
    return markdown(head, made)


def title(name):
    """A set as the page calls it."""
    return TITLES.get(name, f"`{name}`")


def markdown(head, rows):
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def scores_table(rows):
    """AUC of every score, and its mean over all sets, and over those where every score is known."""
    made = [[title(row["set"]), *(f"{row['auc'][s]:.3f}" if s in row["auc"] else "" for s in SCORES)] for row in rows]
    whole = [row for row in rows if {*SCORES} <= {*row["auc"]}]
    for name, among in {
        "mean": rows,
        f"mean of the {len(whole)} with all scores": whole if whole != rows else [],
    }.items():
        known = [score if all(score in row["auc"] for row in among) else None for score in SCORES]
        means = [f"{np.mean([row['auc'][score] for row in among]):.3f}" if score else "" for score in known]
        made += [[name, *means]] if among else []
    return markdown(["set", *SCORES.values()], made)


def rules_table(rows):
    """Mean and least share of the best F1 of every rule, and on how many sets it is below .95 and .85."""
    made = []
    for rule in rows[0]["share"]:
        shares = [row["share"].get(rule) for row in rows]
        known = np.array([share for share in shares if share is not None])
        worst = rows[int(np.argmin([np.inf if share is None else share for share in shares]))]["set"]
        cells = [f"{known.mean():.3f}", f"{known.min():.2f} ({title(worst)})"]
        made.append([rule, *cells, *(f"{(known < least).sum()} of {len(known)}" for least in (0.95, 0.85))])
    return markdown(["rule", "mean", "least", "below .95", "below .85"], made)
