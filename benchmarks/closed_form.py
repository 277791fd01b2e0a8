"""Processor time of the default beside that of an earlier release and of five folds of logistic regression.

    PIDUAL_DATA=DIR python benchmarks/closed_form.py --before CHECKOUT [--repeats 3] [--only labelme,20000x128,...]

CHECKOUT is a checkout of the release to compare with (0.2.0 trained 25 networks). Each fit is a process of its own on
one thread; the ways take turns, and a row has the median over the repeats of seconds of processor time: preparing,
fitting and judging, without imports and reading. `folds` is what cleanlab asks for before it can begin: probabilities
of five folds of logistic regression on the same features, standardised, fitted to the vote of each item.

`--growth` measures the default alone on tables of other sizes: time, and memory beyond that of the imports.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

CROWDS = ("labelme", "medical_treat", "digits_low_1", "digits_high_1", "20000x128")
SIZES = (
    "10000x128x10",
    "20000x128x10",
    "40000x128x10",
    "20000x64x10",
    "20000x256x10",
    "20000x128x40",
    "20000x128x10x4",
)


def load(name):
    """A crowd of crowd_data.py, or a drawn one of n x d (x K x answers to an item)."""
    from crowd_data import CROWDS as KNOWN

    if name in KNOWN:
        return KNOWN[name](0)
    from pidual.data.datasets.base import NoisyDataset
    from pidual.data.datasets.synthetic import make_crowd

    n, d, k, answers = [*map(int, name.split("x")), *(10, 2)[name.count("x") - 1 :]]
    crowd = make_crowd(n, 50, answers, n_classes=k, n_features=d, noise=0.3, seed=0)
    pi = {"annotator": "category", "seconds": "duration"}
    x, x_test, classes = crowd.x.astype(np.float32), crowd.x_test.astype(np.float32), [str(one) for one in range(k)]
    return NoisyDataset(name, crowd.frame, pi, x, x_test, crowd.y_test, classes)


def ours(data):
    """The default, as `pidual fit` has it."""
    from pidual.fit.fit import train
    from pidual.fit.judge import assess
    from pidual.fit.options import FitOptions
    from pidual.learn.engine import Session, make_fabric
    from pidual.paper.score import prepare_data

    job = prepare_data(data, FitOptions(accelerator="cpu"))
    fabric = make_fabric("cpu")
    assess(job, train(job, Session(fabric)), fabric)


def folds(data):
    """Out-of-fold probabilities of a logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    vote = data.frame.groupby("item")["label"].agg(lambda labels: labels.mode()[0])
    x = np.asarray(getattr(data.x, "array", data.x)).reshape(len(data.x), -1)[vote.index]
    machine = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    cross_val_predict(machine, x, vote.to_numpy(), cv=5, method="predict_proba")


def time_one(way, name):
    """Print seconds of processor time, and megabytes that it takes beyond what there was."""
    import torch

    torch.set_num_threads(1)
    data = load(name)
    ours(load("60x5x3x2"))  # whatever is imported late
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    (folds if way == "folds" else ours)(data)
    seconds = time.process_time() - started
    print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))


def in_process(way, name, source):
    """Seconds and megabytes of one fit with the package at `source`."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(source / "src"), str(here)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", way, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CROWDS))
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--one", nargs=2)
    arguments = parser.parse_args()
    if arguments.one:
        time_one(*arguments.one)
        sys.exit()
    from common import RESULTS, write_result

    own = Path(__file__).parents[1]
    ways = {"now": own} if arguments.growth else {"now": own, "before": arguments.before, "folds": own}
    rows = []
    for name in SIZES if arguments.growth else arguments.only:
        found = {way: [] for way, source in ways.items() if source is not None}
        for _ in range(arguments.repeats):
            for way in found:
                found[way].append(in_process(way, name, ways[way]))
        row = {"data": name}
        for way, values in found.items():
            row[way] = round(statistics.median(seconds for seconds, _ in values), 2)
        row["megabytes"] = round(max(megabytes for _, megabytes in found["now"]))
        rows.append(row)
        print(row, flush=True)
    out = RESULTS / "closed_form.json"
    before = json.loads(out.read_text())["results"] if out.exists() else []
    kept = [row for row in before if ("folds" in row) == arguments.growth]  # rows of the other part stay
    write_result(out, [*kept, *rows] if arguments.growth else [*rows, *kept], repeats=arguments.repeats)
