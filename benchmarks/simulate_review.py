"""What a review is worth: wrong labels found, what retraining makes of them, and whom to ask next; real crowds.

    PIDUAL_DATA=DIR python benchmarks/simulate_review.py [--seeds 3] [--parts order,retrain,ask]
        [--only labelme,cifar10s,cifar100_sm500] [--asking next,random,activelab] [--cache FOLDER] [--log FILE]
        [--out FILE]

A reviewer who knows the clean labels stands for people. loop_table.py writes the tables of docs/loop.md.

    order     wrong labels among the first n looked at: ours (label_quality, as `pidual review` lists them), cleanlab's
              (its default score of every answer, by out-of-fold probabilities of the same network), CROWDLAB's (its
              score of every answer, by the same), ActiveLab's (its items in order, all answers of each), and random
    retrain   the first n labels of our order are decided on, then a fit as `fit --from` makes it: accuracy of the
              consensus, of that of items nobody looked at (others), and on test inputs; and the same without decisions
    ask       SM500 has 11 answers to each of 500 items: 2 of each are shown, the others come as they are asked for, in
              rounds of 100: by `next`, and items by ActiveLab or at random with a random annotator

No fit is chosen by clean labels. Rows that are there already (--log) are not made again.
"""

import argparse
import dataclasses
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from common import RESULTS, Log, replace_parts
from crowd_data import CROWDS
from crowd_peers import crowdlab, out_of_fold, remember
from crowd_scores import item_truth
from detection import Cache

from pidual.detect import next_answers
from pidual.fit.fit import train
from pidual.fit.judge import assess
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.learn.engine import Session, make_fabric
from pidual.learn.engine.predict import predict_labels
from pidual.learn.engine.session import using_threads
from pidual.metrics import accuracy
from pidual.paper.score import table_and_inputs, test_rows

DATA = ("labelme", "cifar10s", "cifar100_sm500")
DECIDED = (100, 400)  # labels, before a fit with the decisions
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)  # labels looked at
SHOWN, ROUND, MOST = 2, 100, 1000  # answers an item has before any is asked for; answers of a round; of all at random


# --- the order of labels ---


def orders(data, seed, results, p):
    """Score of every answer by each order, lowest first."""
    from cleanlab.rank import get_label_quality_scores

    frame = data.frame
    item, there = frame["item"].to_numpy(), np.unique(frame["label"])
    codes, of_label = np.searchsorted(there, frame["label"]), p[item][:, there]
    untested = dataclasses.replace(data, y_test=data.y_test[:0])
    remember(untested, seed, p, 0.0)
    return {
        "ours": results.predictions.label_quality,
        "cleanlab": get_label_quality_scores(codes, of_label / of_label.sum(1, keepdims=True)),
        "crowdlab": crowdlab(untested, seed).quality,
        "activelab": active_scores(frame, p)[item],
        "random": np.random.default_rng([3, seed]).random(len(frame)),
    }


def active_scores(frame, p):
    """ActiveLab's score of every item, lowest first to be labelled again."""
    from cleanlab.multiannotator import get_active_learning_scores

    items, row = np.unique(frame["item"], return_inverse=True)
    column, columns = pd.factorize(frame["annotator"].astype(str))
    labels = np.full((len(items), len(columns)), np.nan)
    labels[row, column] = frame["label"]
    scores = np.full(len(p), np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores[items] = get_active_learning_scores(pd.DataFrame(labels), p[items])[0]
    return scores


def compare_orders(name, data, seed, results, p, log):
    """Wrong labels found by each order, and where ours has found fewer than another."""
    wrong = (data.frame["label"] != data.frame["y"]).to_numpy()
    sizes = np.array([size for size in SIZES if size < len(wrong)])
    everywhere = np.arange(1, len(wrong) + 1)
    found = {order: found_first(score, wrong, everywhere) for order, score in orders(data, seed, results, p).items()}
    for order, counts in found.items():
        short = found["ours"] - counts
        log.add(
            {
                "part": "order",
                "data": name,
                "order": order,
                "seed": seed,
                "step": 0,
                "looked_at": sizes.tolist(),
                "found": counts[sizes - 1].tolist(),
                "wrong": int(wrong.sum()),
                "least_ahead": int(short.min()),
                "least_ahead_at": int(short.argmin()) + 1,
            }
        )


def found_first(score, wrong, sizes):
    """Count the wrong ones among the first n labels by a score, lowest first."""
    found = np.cumsum(wrong[np.argsort(score, kind="stable")], dtype=np.int64)
    return found[sizes - 1]


# --- fits ---


def fit(data, seed, truth=None, answers=None):
    """A fit with default settings, judged, its classes of the test inputs, and what it knows of annotators.

    `answers`, what another fit knows, makes it one as `fit --from` has it.
    """
    table, inputs = table_and_inputs(data)
    options = FitOptions(seed=seed, accelerator="cpu", pi_kinds=data.pi)
    job = prepare(table, inputs, options, truth=truth)
    job.start = answers
    fabric = make_fabric("cpu")
    fitted = train(job, Session(fabric))
    results = assess(job, fitted, fabric)
    with using_threads(job.threads):
        test = np.asarray(job.table.classes)[predict_labels(fitted.method, test_rows(data), fabric)]
    return results, test, fitted.method.learned.judge.model


def first_of(function, *arguments):
    """The first of several values that a function returns."""
    return function(*arguments)[0]


def scores(results, test, data, others=None):
    """Accuracy of the consensus, on test inputs, and of the consensus of some items."""
    truth = item_truth(data.frame)
    consensus = results.items.set_index(results.items["item"].astype(int))["consensus_label"].astype(int)
    right = pd.Series(consensus.loc[truth.index].to_numpy() == truth.to_numpy(), index=truth.index)
    found = {"consensus": right.mean(), "test": accuracy(test, data.y_test)}
    if others is not None:
        found["others"] = right.loc[others].mean()
    return {name: round(float(value), 4) for name, value in found.items()}


# --- decisions, and another fit ---


def retrain(name, data, seed, cache, log):
    """Fits with the first so many labels decided, and without any, from the same run."""
    first, _, answers = cache.get(f"{name}.first.{seed}", partial(fit, data, seed))[0]
    order = np.argsort(first.predictions.label_quality, kind="stable")
    items = data.frame["item"].to_numpy()
    code = {str(label): number for number, label in enumerate(first.predictions.classes)}
    y = data.frame["y"].astype(str).map(code).to_numpy()
    without = cache.get(f"{name}.without.{seed}", partial(fit, data, seed, None, answers))[0]
    for n in DECIDED:
        if log.find(part="retrain", data=name, order="decisions", seed=seed, step=n):
            continue
        looked_at = np.isin(items, items[order[:n]])
        others = np.unique(items[~looked_at])
        truth = np.where(looked_at, y, -1)
        results, test, _ = fit(data, seed, truth, answers)
        for made, found in (("no decisions", without), ("decisions", (results, test))):
            about = {"part": "retrain", "data": name, "order": made, "seed": seed, "step": n}
            log.add(about | {"others_n": len(others)} | scores(*found[:2], data, others))


# --- whom to ask next ---


class Asked:
    """Answers that were given, of a crowd of which all answers are known."""

    def __init__(self, data, seed):
        self.data, self.rng = data, np.random.default_rng([11, seed])
        order = self.rng.permutation(len(data.frame))
        rank = data.frame.iloc[order].groupby("item").cumcount().sort_index().to_numpy()
        self.shown = rank < SHOWN

    @property
    def now(self):
        """The crowd with the answers that are known by now."""
        return dataclasses.replace(self.data, frame=self.data.frame[self.shown].reset_index(drop=True))

    def by_next(self, results, n):
        """Ask what `pidual next` says."""
        run = SimpleNamespace(path="memory", **vars(results))
        listed = next_answers(run, n)
        frame = self.data.frame
        place = pd.Series(np.arange(len(frame)), index=[frame["item"].astype(int), frame["annotator"].astype(str)])
        wanted = zip(listed["item"].astype(int), listed["annotator"].astype(str), strict=True)
        self.shown[place.loc[list(wanted)]] = True

    def of_items(self, items):
        """Ask a random annotator about each of these items."""
        hidden = pd.Series(np.flatnonzero(~self.shown))
        hidden = hidden.sample(frac=1, random_state=int(self.rng.integers(2**31)))
        item = self.data.frame["item"].to_numpy()[hidden]
        first = hidden.groupby(item).first()
        self.shown[first.loc[[i for i in items if i in first.index]]] = True

    def by_active(self, seed, n):
        """Ask about the items that ActiveLab puts first."""
        now = self.now
        score = active_scores(now.frame, out_of_fold(now, seed)[0])
        open_items = np.unique(self.data.frame["item"][~self.shown])
        self.of_items(open_items[np.argsort(score[open_items], kind="stable")][:n])

    def at_random(self, n):
        """Ask about random items."""
        self.of_items(self.rng.permutation(np.unique(self.data.frame["item"][~self.shown]))[:n])


def ask(name, data, order, seed, log):
    """Rounds of answers by one order, with a fit after each."""
    asked = Asked(data, seed)
    every = 2 if order == "random" else 1  # its rounds need no fit to go on
    most = MOST if order == "random" else MOST // 2
    for step in range(most // ROUND + 1):
        results = None
        if step % every == 0 or order != "random":
            results, test, _ = fit(asked.now, seed)
            more = {"answers": int(asked.shown.sum())} | scores(results, test, data)
            log.add({"part": "ask", "data": name, "order": order, "seed": seed, "step": step, **more})
        if order == "next":
            asked.by_next(results, ROUND)
        elif order == "activelab":
            asked.by_active(seed, ROUND)
        else:
            asked.at_random(ROUND)


def packed(rows):
    """One row for all steps of an order on a crowd, with the mean over seeds of what was measured."""
    made = []
    for key, part in pd.DataFrame(rows).groupby(["part", "data", "order"], sort=False):
        row = dict(zip(("part", "data", "order"), key, strict=True)) | {"seeds": int(part["seed"].nunique())}
        if key[0] == "order":
            first = part.iloc[0]
            row |= {name: first[name] for name in ("looked_at", "wrong", "least_ahead", "least_ahead_at")}
            row |= {"wrong": int(first["wrong"]), "found": np.mean(part["found"].tolist(), axis=0).round(1).tolist()}
            worst = part.loc[part["least_ahead"].idxmin()]
            row |= {name: int(worst[name]) for name in ("least_ahead", "least_ahead_at")}
        else:
            named = [
                name for name in ("answers", "consensus", "test", "others") if name in part and part[name].notna().any()
            ]
            means = part.groupby("step")[named].mean()
            row |= {"step": means.index.tolist()} | {name: means[name].round(4).tolist() for name in named}
        made.append(row)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(DATA))
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["order", "retrain", "ask"])
    parser.add_argument("--asking", type=lambda text: text.split(","), default=["next", "random", "activelab"])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--log", type=Path, default=Path("simulate_review.jsonl"))
    parser.add_argument("--out", type=Path, default=RESULTS / "simulate_review.jsonl")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.log, "part", "data", "order", "seed", "step")
    cache = Cache(arguments.cache)
    for seed in range(arguments.seeds):
        for name in arguments.only:
            data = CROWDS[name](seed)
            if "order" in arguments.parts and not log.find(part="order", data=name, order="random", seed=seed, step=0):
                p, _ = cache.get(f"{name}.oof.{seed}", partial(first_of, out_of_fold, data, seed))
                results = cache.get(f"{name}.first.{seed}", partial(fit, data, seed))[0][0]
                compare_orders(name, data, seed, results, p, log)
            if "retrain" in arguments.parts:
                retrain(name, data, seed, cache, log)
            if "ask" in arguments.parts and name == "cifar100_sm500":
                for order in arguments.asking:
                    last = MOST // ROUND if order == "random" else MOST // ROUND // 2
                    if not log.find(part="ask", data=name, order=order, seed=seed, step=last):
                        ask(name, data, order, seed, log)
    replace_parts(arguments.out, packed(log.rows))
