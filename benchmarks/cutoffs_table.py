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


def tables(rows):
    """Name -> Markdown."""
    return {"detection scores": scores_table(rows), "detection rules": rules_table(rows)}


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
