"""Which score finds wrong labels, and where to cut it: rules that need no clean label, compared by clean labels.

    PIDUAL_DATA=DIR python benchmarks/cutoffs.py [--only cheap,...] [--cache FOLDER] [--out FILE]

The sets are those of detection.py, and so is `--cache`; the method is the default, seed 0, and seed 1 of hard cases.
What the file has of AUM, which takes two more trainings, and of sets that are not asked for stays.
Scores: the quality of a label where it counts half itself (what a run has), in full, and not at all; the network's
probability of the label and its log-margin, by the input alone; that probability averaged over the epochs; the gate;
AUM, the margin averaged over the epochs by a network that learns from the label (area_under_margin.py). Rules, all on
the first of them but the last four:

    expected F1      the cut of largest expected F1, at most 2/3
    and consensus    of these, labels that are not the consensus of their item
    several answers  of these, labels that are not the consensus of their item, or its only answer: what `pidual` lists
    one half         quality below one half
    expected count   as many of the lowest as are expected to be wrong
    by class         the cut of largest expected F1 in each given class by itself
    mixture          where two normal components of one width on the logit scale are equally likely
    consensus        labels that are not the consensus of their item
    model            labels that the network does not predict
    gate             labels with a gate above one half
    AUM              labels with a lower AUM than 99% of those that were given an extra class; not where p is given

Of the first three, precision, recall, F1, and the precision stated with each answer counted half, in full, and (what
`pidual` does) in full where its item has other answers, else half.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from area_under_margin import area_under_margin
from common import RESULTS, write_result
from detection import Cache, load
from detection_scores import best_f1, f1
from detection_sets import GROUPS, OPTIONS, SETS, Stored

from pidual.data import AnnotationTable, load_probabilities
from pidual.detect.cutoff import auto_cutoff, lowest
from pidual.fit.fit import train
from pidual.fit.options import FitOptions
from pidual.fit.predict import predict
from pidual.fit.prepare import prepare
from pidual.learn.engine import Session, make_fabric
from pidual.metrics import detection_auc
from pidual.paper.score import prepare_data

CLIP = 1e-3


def by_class(quality, given):
    """The cut of largest expected F1 in each class by itself."""
    found = np.zeros(len(quality), bool)
    for label in np.unique(given):
        rows = np.flatnonzero(given == label)
        found[rows] = quality[rows] < auto_cutoff(quality[rows]).value
    return found


def mixture(quality, steps=500):
    """Expectation-maximisation of two normal components of one width, begun at one half."""
    z = np.log(np.clip(quality, CLIP, 1 - CLIP)) - np.log1p(-np.clip(quality, CLIP, 1 - CLIP))
    low = (z < 0).astype(float)
    if not 0 < low.sum() < len(z):
        return z < 0
    for _ in range(steps):
        share = low.mean()
        means = (low * z).sum() / low.sum(), ((1 - low) * z).sum() / (1 - low).sum()
        width = max(0.25, np.sqrt((low * (z - means[0]) ** 2 + (1 - low) * (z - means[1]) ** 2).mean()))
        slope = (means[0] - means[1]) / width**2
        logit = slope * (z - sum(means) / 2) + np.log(share / (1 - share))
        before, low = low, 1 / (1 + np.exp(-np.clip(logit, -500, 500)))
        if np.abs(low - before).max() < 1e-6 or not 1e-6 < low.mean() < 1 - 1e-6:
            break
    return low > 0.5


def answers_of(name, data, seed, cache):
    """What the default says of every label, before any is judged."""
    fabric = make_fabric("cpu")
    if isinstance(data, Stored):
        table = AnnotationTable.from_frame(data.frame.drop(columns="y"), pi=list(data.pi), keep_ids=True)
        job = prepare(table, load_probabilities(data.p, table.classes), FitOptions.judging())
        return predict(job, train(job, Session(fabric)), fabric)
    job = prepare_data(data, FitOptions(method="auto", seed=seed, accelerator="cpu", options=OPTIONS.get(name, {})))
    fitted, _ = cache.get(f"{name}.auto.{seed}", lambda: train(job, Session(fabric)))
    return predict(job, fitted, fabric)


def describe(found, scores, alone, known, wrong):
    """How good a list is, and what it says of itself."""
    hits, n = (found[known] & wrong).sum(), found[known].sum()
    counted = {"half": scores.quality, "full": scores.full, "several": np.where(alone, scores.quality, scores.full)}
    cells = {"precision": hits / max(1, n), "recall": hits / wrong.sum(), "f1": f1(hits, n, wrong.sum())}
    cells |= {name: 1 - values[found].mean(dtype=np.float64) for name, values in counted.items()} if n else {}
    return {"n": int(found.sum())} | {name: round(float(cell), 4) for name, cell in cells.items()}


def compare(name, seed, cache, before):
    """AUC of every score, and of every rule its F1 over the best of any cut of the quality."""
    data = load(name, seed)
    answers = answers_of(name, data, seed, cache)
    predictions, scores = answers.predictions, answers.scores
    frame, quality = predictions.frame, predictions.label_quality.astype(np.float64)
    given, gate = predictions.given, predictions.gate
    known = data.frame["y"].notna().to_numpy()
    wrong = (data.frame["label"] != data.frame["y"]).to_numpy(bool, na_value=False)[known]
    expected = np.zeros(len(quality), bool)
    expected[lowest(quality, round(float((1 - quality).sum())))] = True
    low, differs = quality < auto_cutoff(quality).value, predictions.suggested != given
    alone = np.bincount(predictions.item)[predictions.item] == 1
    lists = {"expected F1": low, "and consensus": low & differs, "several answers": low & (differs | alone)}
    rules = lists | {
        "one half": quality < 0.5,
        "expected count": expected,
        "by class": by_class(quality, given),
        "mixture": mixture(quality),
        "consensus": differs,
        "model": predictions.predicted != given,
    }
    values = {
        "half": quality,
        "full": scores.full,
        "none": scores.unaided,
        "probability": frame["given_probability"].to_numpy(),
        "margin": frame["given_margin"].to_numpy(),
    }
    if gate is not None:
        rules["gate"], values["gate"] = gate > 0.5, 1 - gate
    if not before and name in GROUPS["cheap"] and not isinstance(data, Stored) and seed == 0:
        (values["AUM"], rules["AUM"]), _ = cache.get(f"{name}.aum.0", lambda: area_under_margin(name, data))
    best = best_f1(quality[known], wrong)
    shares = {
        rule: round(float(f1((found[known] & wrong).sum(), found[known].sum(), wrong.sum()) / best), 4)
        for rule, found in rules.items()
    }
    aucs = {score: round(float(detection_auc(value[known], wrong)), 4) for score, value in values.items()}
    if "AUM" in before.get("auc", {}):
        aucs["AUM"], shares["AUM"] = before["auc"]["AUM"], before["share"]["AUM"]
    print(name, seed, aucs, shares, flush=True)
    made = {rule: describe(found, scores, alone, known, wrong) for rule, found in lists.items()}
    group = low & ~lists["several answers"]
    share = round(float(wrong[group[known]].mean()), 4) if group[known].any() else None
    made["resting"] = {"n": int(group.sum()), "wrong": share}
    about = {"set": name, "seed": seed, "wrong": round(float(wrong.mean()), 4), "best_f1": round(float(best), 4)}
    return about | {"alone": round(float(alone.mean()), 4), "auc": aucs, "share": shares, "lists": made}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["cheap"])
    parser.add_argument("--cache", type=Path, help="folder that keeps fits")
    parser.add_argument("--out", type=Path, default=RESULTS / "cutoffs.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for each in arguments.only for name in GROUPS.get(each, [each])]
    folder = Cache(arguments.cache)
    rows = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else []
    rows = {(row["set"], row.get("seed", 0)): row for row in rows}
    for name in names:
        for seed in range(2 if name in GROUPS["hard"] else 1):
            rows[name, seed] = compare(name, seed, folder, rows.get((name, seed), {}))
    order = list(SETS)
    rows = sorted(rows.values(), key=lambda row: (row.get("seed", 0), order.index(row["set"])))
    with_aum = [row["set"] for row in rows if "AUM" in row["auc"]]
    write_result(arguments.out, rows, only=arguments.only, with_aum=with_aum)
