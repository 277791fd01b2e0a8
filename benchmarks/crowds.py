"""Real and synthetic crowds: our methods and what others do, on the same features and splits, in the same run.

    PIDUAL_DATA=DIR python benchmarks/crowds.py [--seeds 10] [--only labelme,real,embedded,digits,...]
        [--methods auto,pi_dual,ce,vote,dawid_skene,glad,mace,crowd_layer,crowdlab,filter_retrain,clean] [--out FILE]

DIR holds `labelme/`, `cifar-10s/`, `cifar-10-batches-bin/`, `cifar-100-binary/` and `crowds/` (docs/paper/datasets.md).
crowd_data.py has the crowds and their features (the group `embedded` has pretrained ones, is run only if it is named,
and needs `pip install 'pidual[peers,text,onnx]'`; docs/evidence.md shows `--only embedded --methods auto,crowdlab --out
benchmarks/results/crowds_embedded.json`), crowd_peers.py the peers (`pip install 'pidual[peers]'`),
crowd_scores.py the columns:

    test_accuracy   of the classifier on clean test inputs; of an aggregator, of the network trained on its consensus
    auc             chance that a wrong answer scores below a right one, over all answers whose truth is known
    consensus       share of the items whose consensus is right
    spearman        rank correlation of annotators' quality with their true accuracy, of those with 5 answers or more
    stated, ece     mean quality the consensus states, and its expected calibration error
    f1              of the answers that are listed as wrong
    noise_error     share of wrong answers as stated, minus the true one
    collapsed       fits whose answers on test inputs agree with the truth no more than chance would (z below 3)
    seconds         processor time of all a method does: folds, aggregation, networks, scores

Only the ceiling (`clean`) is fitted to clean labels, and no fit chooses a setting by them. Three choices were made with
clean labels in view. The closed form of `auto`: docs/settings.md has what was compared. The others after `pi_dual` and
`ce` had been run once on each real crowd. Features of images: learned patches beside gradients gave a logistic
regression on clean labels 7 to 8 points more. Optimiser of CrowdLayer:
of five tried on 2 or 3 seeds, its authors' is the steadiest on LabelMe (83.4; the others lose a class in one or two of
three fits); on the language models, where it fails, Adam at 1e-2 for the matrices alone did better (accuracy 35 against
16, AUC .60 against .39), though below every aggregator in AUC and consensus.

Rows of `auto 0.2.0` are of that release, which trained a population of networks, on another machine.

`stress` has four crowds for every seed of the others (40 at 10 seeds), one fit each. Fits that are there already are
not repeated.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import RESULTS, Log, write_result
from crowd_data import CROWDS, EMBEDDED, GROUPS, STRESS_CROWDS
from crowd_peers import PEERS, UnfitError
from crowd_scores import Judged, score, summarise, table

from pidual.errors import UsageError
from pidual.fit.fit import train
from pidual.fit.judge import assess
from pidual.fit.options import FitOptions
from pidual.learn.engine import Session, make_fabric
from pidual.learn.engine.collapse import agreement_z
from pidual.learn.engine.predict import predict_labels
from pidual.learn.engine.session import using_threads
from pidual.paper.score import prepare_data, test_rows

OURS = ("auto", "pi_dual", "ce")


def ours(method, data, seed):
    """A method of pidual with default settings, as `pidual fit` has it."""
    job = prepare_data(data, FitOptions(method=method, seed=seed, accelerator="cpu"))
    fabric = make_fabric("cpu")
    fitted = train(job, Session(fabric))
    results = assess(job, fitted, fabric)
    test, collapsed = None, None
    if len(data.y_test):
        with using_threads(job.threads):
            test = np.asarray(job.table.classes)[predict_labels(fitted.method, test_rows(data), fabric)]
        collapsed = agreement_z(test, data.y_test) < 3
    items = results.items
    consensus, sure = np.zeros(len(data.x), np.int64), np.zeros(len(data.x))
    consensus[items["item"].astype(int)] = items["consensus_label"].astype(int)
    sure[items["item"].astype(int)] = items["consensus_quality"]
    people = results.annotators
    return Judged(
        quality=results.predictions.label_quality,
        consensus=consensus,
        consensus_quality=sure,
        annotators=pd.Series(people["annotator_quality"].to_numpy(float), index=people["annotator"].astype(str)),
        test=test,
        issues=results.predictions.is_issue,
        collapsed=collapsed,
    )


def run(method, data, seed):
    """One fit, scored; a message where the method cannot be used."""
    started = time.process_time()
    try:
        judged = PEERS[method](data, seed) if method in PEERS else ours(method, data, seed)
    except (UnfitError, UsageError) as error:
        return str(error)
    seconds = time.process_time() - started + judged.seconds
    return score(judged, data.frame, data.y_test) | {"seconds": round(seconds, 2)}


def choose(only):
    """Names of crowds; a group stands for its members."""
    return [each for name in only for each in GROUPS.get(name, [name])]


def compare(crowds, methods, seeds, log):
    """Fit what the log does not have."""
    for name in crowds:
        for seed in range(seeds * (STRESS_CROWDS if name == "stress" else 1)):
            missing = [method for method in methods if log.find(data=name, method=method, seed=seed) is None]
            data = CROWDS[name](seed) if missing else None
            for method in missing:
                found = run(method, data, seed)
                if isinstance(found, str):
                    print(f"{name}, {method}: left out ({found})", flush=True)
                else:
                    log.add({"data": name, "method": method, "seed": seed, **found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[name for name in CROWDS if name not in EMBEDDED]
    )
    parser.add_argument("--methods", type=lambda text: text.split(","), default=[*OURS, *PEERS])
    parser.add_argument("--out", type=Path, default=RESULTS / "crowds.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.out, "data", "method", "seed")
    crowds = choose(arguments.only)
    unknown = [name for name in crowds if name not in CROWDS]
    if unknown:
        parser.error(f"there is no crowd {unknown[0]}; there are {', '.join([*GROUPS, *CROWDS])}")
    compare(crowds, arguments.methods, arguments.seeds, log)
    order = {name: number for number, name in enumerate([*CROWDS])}
    methods = {name: number for number, name in enumerate([*OURS, *PEERS])}
    rows = sorted(log.rows, key=lambda row: (order.get(row["data"], 99), methods.get(row["method"], -1), row["seed"]))
    write_result(arguments.out, summarise(rows), seeds=arguments.seeds)
    print(table([line for line in summarise(rows) if line["data"] in crowds]))
