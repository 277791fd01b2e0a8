"""Which labels are wrong, and how many: our methods and cleanlab on crowds, hard cases, images, stored probabilities.

    PIDUAL_DATA=DIR python benchmarks/detection.py [--seeds 1] [--only cheap,cifar100n,images,fraud,...]
        [--methods auto,pi_dual,ce,cleanlab,crowdlab] [--cache FOLDER] [--again] [--out FILE]

detection_sets.py has the sets, detection_scores.py the columns. `--cache` keeps fits and out-of-fold probabilities, so
that `--again`, which makes rows anew that are there already, only judges again. Without it such rows stay.

    auto, pi_dual, ce   default settings, as `pidual fit` has them (CIFAR-10-PI: network and epochs of its recipe at CPU
                        scale, for cleanlab too); with stored probabilities `pidual.judge` (auto). on_top: how many of
                        the planted annotators are that high in the table of annotators
    cleanlab            probabilities by 5-fold cross-validation with the network, epochs and batches of `ce`
                        (crowd_peers.py), one row an answer. AUC, AP and best F1 are those of its best score for each
                        set by clean labels, f1 that of its default filter, filter_f1 that of its best filter by clean
                        labels; the noise rate is its count of label issues
    crowdlab            on the same probabilities, where items have several answers: an answer is called wrong where it
                        is not the consensus

No fit of ours is chosen by clean labels. Where only some labels are known to be right or wrong (medical_treat), those
are scored, and the noise rate is not: they are no random part.
"""

import argparse
import dataclasses
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, Log
from crowd_peers import UnfitError, out_of_fold, remember
from crowd_peers import crowdlab as fit_crowdlab
from detection_scores import Found, best_f1, f1, score, summarise, table
from detection_sets import DRAWS, GROUPS, OPTIONS, SETS, Stored
from sklearn.metrics import average_precision_score

from pidual import judge
from pidual.errors import UsageError
from pidual.fit.fit import train
from pidual.fit.judge import assess
from pidual.fit.options import FitOptions
from pidual.learn.engine import Session, make_fabric
from pidual.metrics import detection_auc
from pidual.paper.score import prepare_data

OURS = ("auto", "pi_dual", "ce")
METHODS = (*OURS, "cleanlab", "crowdlab")
FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given")
SCORES = {  # of cleanlab: name, and whether probabilities are adjusted
    "self_confidence": False,
    "normalized_margin": False,
    "confidence_weighted_entropy": False,
    "adjusted self_confidence": True,
    "adjusted normalized_margin": True,
}


class Cache:
    """Fits and probabilities in a folder, or nowhere."""

    def __init__(self, folder):
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, name, make):
        """What `make` returns, and the processor seconds it took when it was made."""
        path = None if self.folder is None else self.folder / f"{name.replace(':', '-')}.pt"
        if path is not None and path.exists():
            kept = torch.load(path, weights_only=False)  # a file of our own
            return kept["made"], kept["seconds"]
        started = time.process_time()
        made = make()
        seconds = time.process_time() - started
        if path is not None:
            torch.save({"made": made, "seconds": seconds}, path)
        return made, seconds


# --- ours ---


def ours(name, method, data, seed, cache):
    """A method of pidual with default settings."""
    if isinstance(data, Stored):
        if method != "auto":
            raise UnfitError("probabilities are judged by the default method alone")
        started = time.process_time()
        found = judge(data.frame.drop(columns="y"), data.p, pi=list(data.pi))
        return described(found.predictions, found.summary, time.process_time() - started)
    started = time.process_time()
    unseen = dataclasses.replace(data, frame=data.frame.drop(columns="y"))  # clean labels can change the verdict
    job = prepare_data(unseen, FitOptions(method=method, seed=seed, accelerator="cpu", options=OPTIONS.get(name, {})))
    fabric = make_fabric("cpu")
    prepared = time.process_time() - started
    fitted, seconds = cache.get(f"{name}.{method}.{seed}", lambda: train(job, Session(fabric)))
    started = time.process_time()
    results = assess(job, fitted, fabric)
    seconds += prepared + time.process_time() - started
    found = described(results.predictions.frame, results.summary, seconds)
    bad = data.about.get("bad")
    if bad and method == "auto":
        worst = results.annotators["annotator"].astype(str)[: len(bad)]
        found.more["on_top"] = f"{worst.isin(bad).sum()} of {len(bad)}"
    return found


def described(frame, summary, seconds):
    """What a summary says of its own list."""
    noise, detection = summary.noise, summary.detection
    return Found(
        quality=frame["label_quality"].to_numpy(),
        issue=frame["is_label_issue"].to_numpy(bool),
        noise=noise.rate,
        low=noise.low,
        high=noise.high,
        expected=detection.expected_precision,
        expected_low=detection.precision_low,
        expected_high=detection.precision_high,
        seconds=seconds,
        more={"verdict": summary.verdict.status},
    )


# --- cleanlab ---


def folds(name, data, seed, cache):
    """Out-of-fold probabilities of every item, and the seconds they took."""
    if isinstance(data, Stored):
        return data.p.astype(np.float64), 0.0
    return cache.get(f"{name}.oof.{seed}", lambda: out_of_fold(data, seed, OPTIONS.get(name))[0])


def cleanlab(name, method, data, seed, cache):
    """cleanlab's scores and filters; the best of each by clean labels."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    p, seconds = folds(name, data, seed, cache)
    started = time.process_time()
    frame = data.frame
    there = np.unique(frame["label"])  # it refuses classes without labels
    codes, of_label = np.searchsorted(there, frame["label"]), p[frame["item"]][:, there]
    of_label = of_label / of_label.sum(1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {
            each: get_label_quality_scores(codes, of_label, method=each.split()[-1], adjust_pred_probs=adjust)
            for each, adjust in SCORES.items()
        }
        lists = {each: find_label_issues(codes, of_label, filter_by=each, n_jobs=1) for each in FILTERS}
        noise = num_label_issues(codes, of_label) / len(codes)
    seconds += time.process_time() - started
    known = frame["y"].notna().to_numpy()
    wrong = (frame["label"] != frame["y"]).to_numpy(bool, na_value=False)[known]
    aucs = {each: detection_auc(values[known], wrong) for each, values in scores.items()}
    f1s = {each: f1((found[known] & wrong).sum(), found[known].sum(), wrong.sum()) for each, found in lists.items()}
    best, filter_ = max(aucs, key=aucs.get), max(f1s, key=f1s.get)
    more = {
        "score": best,
        "ap": round(max(average_precision_score(wrong, -values[known]) for values in scores.values()), 4),
        "best_f1": round(max(best_f1(values[known], wrong) for values in scores.values()), 4),
        "filter": filter_,
        "filter_f1": round(float(f1s[filter_]), 4),
    }
    return Found(scores[best], lists[FILTERS[0]], noise=noise, seconds=seconds, more=more)


def crowdlab(name, method, data, seed, cache):
    """CROWDLAB on the same probabilities."""
    if isinstance(data, Stored) or "annotator" not in data.frame:
        raise UnfitError("CROWDLAB is asked where it gets a network and annotators")
    p, seconds = folds(name, data, seed, cache)
    remember(data, seed, p, seconds)
    started = time.process_time()
    judged = fit_crowdlab(data, seed)
    seconds += time.process_time() - started
    issue = data.frame["label"].to_numpy() != judged.consensus[data.frame["item"]]
    return Found(judged.quality, issue, noise=float(issue.mean()), seconds=seconds)


# --- all of them ---


def run(name, method, data, seed, cache):
    """One row of columns; a message where a method cannot be used."""
    tool = {"cleanlab": cleanlab, "crowdlab": crowdlab}.get(method, ours)
    try:
        return score(tool(name, method, data, seed, cache), data.frame)
    except (UnfitError, UsageError) as error:
        return str(error)


def load(name, seed):
    """A set without its test inputs, which nothing here is scored on."""
    data = SETS[name](seed)
    return data if isinstance(data, Stored) else dataclasses.replace(data, y_test=data.y_test[:0])


def compare(sets, methods, seeds, log, cache):
    """Make the rows that the log does not have."""
    for name in sets:
        for seed in range(max(DRAWS.get(name, 1), 1 if name not in GROUPS["hard"] else seeds)):
            missing = [method for method in methods if log.find(data=name, method=method, seed=seed) is None]
            data = load(name, seed) if missing else None
            for method in missing:
                cells = run(name, method, data, seed, cache)
                if isinstance(cells, str):
                    print(f"{name}, {method}: left out ({cells})", flush=True)
                else:
                    log.add({"data": name, "method": method, "seed": seed, **cells})


def forget(log, sets, methods):
    """Drop the rows of these sets and methods."""
    log.rows = [row for row in log.rows if row["data"] not in sets or row["method"] not in methods]
    rewrite(log)


def rewrite(log):
    """The log's file in the order of sets, methods and seeds."""
    order = {name: number for number, name in enumerate(SETS)}
    log.rows.sort(key=lambda row: (order[row["data"]], METHODS.index(row["method"]), row["seed"]))
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in log.rows]
    log.path.write_text("".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="of hard cases; others have one, idle_pi at least ten")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--cache", type=Path, help="folder that keeps fits and probabilities")
    parser.add_argument("--again", action="store_true", help="make rows anew that are there already")
    parser.add_argument("--out", type=Path, default=RESULTS / "detection.jsonl")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [each for name in arguments.only for each in GROUPS.get(name, [name])]
    for given, there in ((chosen, [*GROUPS, *SETS]), (arguments.methods, METHODS)):
        if unknown := [name for name in given if name not in there]:
            parser.error(f"there is no {unknown[0]}; there are {', '.join(there)}")
    log = Log(arguments.out, "data", "method", "seed")
    if arguments.again:
        forget(log, chosen, arguments.methods)
    compare(chosen, arguments.methods, arguments.seeds, log, Cache(arguments.cache))
    rewrite(log)
    print(table([line for line in summarise(log.rows) if line["data"] in chosen]))
