"""Decide which labels of a run change, and to what."""

from typing import Any

import numpy as np
import pandas as pd

from ...run.decisions import read_decisions
from ...run.files import RunFiles

COLUMNS = ["row", "item", "annotator", "given_label", "new_label", "source", "label_quality", "consensus_quality"]


def decide(run: RunFiles, sure: float = 0.0) -> pd.DataFrame:
    """Return the labels that reviewers changed, and of those nobody decided on the ones that a run marks as issues,
    with the consensus of their items as the new ones. A label that a reviewer kept, or could not decide on, stays.

    `run`: the run.
    `sure`: labels of items whose consensus is less likely than this stay, except for those that reviewers changed.
    Returned: `row` (of the table, counted from 0), `item`, `annotator` where it is known, `given_label`, `new_label`,
        `source` of the change, `label_quality`, `consensus_quality` and `reason`, in table order. The source is
        "reviewed", "consensus" of several answers, or "automatic": the only answer, which the model judges.
    """
    frame, reviews = run.predictions.frame, read_decisions(run)
    changed = frame["is_label_issue"].to_numpy(bool) & (frame["consensus_quality"].to_numpy(np.float64) >= sure)
    changed &= ~frame["row"].isin(reviews["row"]).to_numpy(bool)
    found: pd.DataFrame = frame[changed]
    alone = ~found["item"].isin(frame.loc[frame["item"].duplicated(), "item"].unique()).to_numpy(bool)
    found = found.assign(new_label=found["consensus_label"], source=np.where(alone, "automatic", "consensus"))
    if len(reviews):
        classes = {str(name): name for name in run.predictions.classes}
        said = reviews[reviews["decision"] == "change"].set_index("row")["label"]
        reviewed = frame[frame["row"].isin(said.index)]
        labels = [classes[label] for label in said.loc[reviewed["row"]]]
        new = pd.Categorical(labels, categories=run.predictions.classes)
        found = pd.concat([found, reviewed.assign(new_label=new, source="reviewed")])
    differs = found["given_label"].astype(str) != found["new_label"].astype(str)
    found = found[differs].sort_values("row", kind="stable")
    return found[[name for name in [*COLUMNS, "reason"] if name in found]].reset_index(drop=True)


def reviewed_labels(run: RunFiles) -> "pd.Series[Any]":
    """Return by item the class that reviewers decided on; not where decisions on an item contradict each other."""
    reviews = read_decisions(run)
    items = run.predictions.frame["item"].astype(str)
    told = reviews.dropna(subset=["label"]).assign(item=lambda rows: items.loc[rows["row"]].to_numpy())
    labels = told.groupby("item")["label"].agg(["first", "nunique"])
    return labels.loc[labels["nunique"] == 1, "first"].astype(object)
