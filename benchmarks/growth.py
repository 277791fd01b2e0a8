"""How the default's processor time and memory grow, beside five folds of logistic regression, and beside 0.2.0.

    PIDUAL_DATA=DIR python benchmarks/growth.py [--only labelme,20000x128x10x2,...] [--repeats 1]

Each fit is a process of its own on one thread, and the two ways take turns. A row has the median over the repeats of
seconds of processor time (preparing, fitting and judging, without imports and reading), and the megabytes that a fit of
the default takes beyond those in use before it. Data are crowds of crowd_data.py, and drawn tables of
items x features x classes x answers to an item; 100,000 items and more are read from a memory map.

    now      the default
    folds    what cleanlab asks for before it can begin: probabilities of five folds of logistic regression on the same
             features, standardised, fitted to the vote of each item; of crowds and tables of 128 features
    before   0.2.0, which trained 25 networks. It has other modules, so it is not measured again: the script of commit
             5b35959 did, in turns with the default of that day

Rows of the same data are replaced, others stay; each has the commit of `now`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, peak_memory, write_result

from pidual.data.datasets.base import NoisyDataset
from pidual.data.datasets.synthetic import make_crowd
from pidual.paper.runs import commit

OUT = RESULTS / "growth.json"
CROWDS = ("labelme", "medical_treat", "digits_low_1")
ROWS = tuple(f"{n}x128x10x2" for n in (5000, 10000, 20000, 40000))
SIZES = (
    *CROWDS,
    *(f"2000x{d}x10x2" for d in (128, 1000, 4096, 10000)),
    *(f"5000x128x{k}x2" for k in (100, 1000)),
    *(f"20000x128x10x{answers}" for answers in (1, 3, 10)),
    *ROWS,
    "100000x256x10x1",
    "1000000x256x10x1",
)
MAPPED = 10**5  # items that are written to a file first
PI = {"annotator": "category", "seconds": "duration"}


def sizes_of(name):
    """Items, features, classes and answers to an item of a drawn table; none of a crowd."""
    return [int(size) for size in name.split("x")] if name[0].isdigit() else []


def load(name, stack):
    """A crowd of crowd_data.py, or a drawn one."""
    from crowd_data import CROWDS as KNOWN

    if name in KNOWN:
        return KNOWN[name](0)
    n, d, k, answers = sizes_of(name)
    classes = [str(one) for one in range(k)]
    if n >= MAPPED:
        return mapped(n, d, k, classes, Path(stack.enter_context(tempfile.TemporaryDirectory())))
    crowd = make_crowd(n, 50, answers, n_classes=k, n_features=d, noise=0.3, seed=0)
    x, x_test = crowd.x.astype(np.float32), crowd.x_test.astype(np.float32)
    return NoisyDataset(name, crowd.frame, PI, x, x_test, crowd.y_test, classes)


def mapped(n, d, k, classes, folder):
    """One answer to each of n items, whose features are in a file; made in parts."""
    from pidual.data import Inputs

    rng = np.random.default_rng(0)
    y, centres = rng.integers(0, k, n), rng.normal(size=(k, d)).astype(np.float32)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, d))
    for start in range(0, n, 2**16):
        some = y[start : start + 2**16]
        x[start : start + 2**16] = 0.4 * centres[some] + rng.normal(size=(len(some), d))
    x.flush()
    del x
    small = make_crowd(100, 50, 1, n_classes=k, n_features=2, seed=0).frame.iloc[:1]
    wrong = rng.random(n) < 0.3
    columns = {"item": np.arange(n), "annotator": rng.integers(0, 50, n), "seconds": rng.gamma(2, 4, n)}
    frame = type(small)(columns | {"label": np.where(wrong, rng.integers(0, k, n), y), "y": y})
    inputs = Inputs.from_array(np.load(folder / "x.npy", mmap_mode="r"), np.arange(n), source="x.npy")
    return NoisyDataset("mapped", frame, PI, inputs, np.zeros((0, d), np.float32), y[:0], classes)


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
    torch.set_num_threads(1)
    with ExitStack() as stack:
        data = load(name, stack)
        ours(load("60x5x3x2", stack))  # whatever is imported late
        before, started = peak_memory(), time.process_time()
        (folds if way == "folds" else ours)(data)
        seconds = time.process_time() - started
        print(json.dumps([seconds, peak_memory() - before]))


def in_process(way, name):
    """Seconds and megabytes of one fit."""
    command = [sys.executable, __file__, "--one", way, name]
    done = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, repeats):
    """A row: the median seconds of each way, and the most megabytes of the default."""
    found = {"now": [], "folds": []} if name in (*CROWDS, *ROWS) else {"now": []}
    for _ in range(repeats):
        for way, values in found.items():
            values.append(in_process(way, name))
    row = {way: round(statistics.median(seconds for seconds, _ in values), 2) for way, values in found.items()}
    megabytes = max(megabytes for _, megabytes in found["now"])
    return {"data": name, **row, "megabytes": round(megabytes), "repeats": repeats, "commit": commit()}


def keep(row):
    """Write a row in place of that of the same data, with the seconds of 0.2.0 if it has them; others stay."""
    rows = {each["data"]: each for each in json.loads(OUT.read_text())["results"]} if OUT.exists() else {}
    before = {"before": rows[row["data"]]["before"]} if "before" in rows.get(row["data"], {}) else {}
    rows[row["data"]] = row | before
    write_result(OUT, sorted(rows.values(), key=lambda each: SIZES.index(each["data"])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SIZES))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        time_one(*arguments.one)
        sys.exit()
    if unknown := [name for name in arguments.only if name not in SIZES]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(SIZES)}")
    for name in arguments.only:
        row = measure(name, arguments.repeats)
        print(row, flush=True)
        keep(row)
