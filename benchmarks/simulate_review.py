"""What a review is worth: wrong labels found, what retraining makes of them, and whom to ask next; real crowds.

    PIDUAL_DATA=DIR python benchmarks/simulate_review.py [--seeds 3] [--parts order,retrain,ask]
        [--only labelme,cifar10s,cifar100_sm500] [--cache FOLDER] [--out FILE]

A reviewer who knows the clean labels stands for people. simulate_review_table.py writes the tables of docs/loop.md.

    order     wrong labels among the first n looked at: ours (label_quality, as `pidual review` lists them), cleanlab's
              (its default score of every answer, by out-of-fold probabilities of the same network), CROWDLAB's (its
              score of every answer, by the same), ActiveLab's (its items in order, all answers of each), and random
    retrain   the first n labels of our order are decided on, then `fit --from`: consensus and test accuracy, and the
              consensus of items that were not looked at, against the same fit with no decisions
    ask       SM500 has 11 answers to each of 500 items: 2 of each are shown, the others come as they are asked for, in
              rounds of 100: by `next`, and items by ActiveLab or at random with a random annotator

No fit is chosen by clean labels. Fits that are there already (the log beside FILE) are not repeated.
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
from common import RESULTS, Log
from crowd_data import CROWDS
from crowd_peers import crowdlab, out_of_fold, remember
from crowd_scores import item_truth
from detection import Cache

from pidual.detect import next_answers
from pidual.detect.simulate_review import found_first
from pidual.engine import make_fabric
from pidual.engine.predict import predict_labels
from pidual.engine.threads import using_threads
from pidual.metrics import accuracy
from pidual.paper.score import prepare_data, test_rows
from pidual.run import FitOptions, train
from pidual.run.judge import assess

DATA = ("labelme", "cifar10s", "cifar100_sm500")
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)  # labels looked at
SHOWN, ROUND, MOST = 2, 100, 2000  # answers an item has before any is asked for; answers of a round; of all


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


# --- fits ---


def fit(data, seed):
    """A fit with default settings, judged, and its classes of the test inputs."""
    job = prepare_data(data, FitOptions(seed=seed, accelerator="cpu"))
    fabric = make_fabric("cpu")
    fitted = train(job, fabric=fabric)
    results = assess(job, fitted, fabric)
    with using_threads(job.threads):
        test = np.asarray(job.table.classes)[predict_labels(fitted.method, test_rows(data), fabric)]
    return results, test


def first_of(function, *arguments):
    """The first of several values that a function returns."""
    return function(*arguments)[0]


def scores(results, test, data):
    """Accuracy of the consensus and on test inputs."""
    truth = item_truth(data.frame)
    consensus = results.items.set_index(results.items["item"].astype(int))["consensus_label"].astype(int)
    right = consensus.loc[truth.index].to_numpy() == truth.to_numpy()
    return {"consensus": round(float(right.mean()), 4), "test": round(accuracy(test, data.y_test), 4)}


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
            results, test = fit(asked.now, seed)
            more = {"answers": int(asked.shown.sum())} | scores(results, test, data)
            log.add({"part": "ask", "data": name, "order": order, "seed": seed, "step": step, **more})
        if order == "next":
            asked.by_next(results, ROUND)
        elif order == "activelab":
            asked.by_active(seed, ROUND)
        else:
            asked.at_random(ROUND)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(DATA))
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["order", "retrain", "ask"])
    parser.add_argument("--asking", type=lambda text: text.split(","), default=["next", "random", "activelab"])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "simulate_review.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.out, "part", "data", "order", "seed", "step")
    cache = Cache(arguments.cache)
    for seed in range(arguments.seeds):
        for name in arguments.only:
            data = CROWDS[name](seed)
            if "order" in arguments.parts and not log.find(part="order", data=name, order="random", seed=seed, step=0):
                p, _ = cache.get(f"{name}.oof.{seed}", partial(first_of, out_of_fold, data, seed))
                (results, test), _ = cache.get(f"{name}.judged.{seed}", partial(fit, data, seed))
                compare_orders(name, data, seed, results, p, log)
            if "ask" in arguments.parts and name == "cifar100_sm500":
                for order in arguments.asking:
                    if not log.find(part="ask", data=name, order=order, seed=seed, step=MOST // ROUND // 2):
                        ask(name, data, order, seed, log)
