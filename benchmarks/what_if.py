"""What if a dataset, or how Pi-DUAL begins, were another: CPU-scale recipes, changed on purpose.

    PIDUAL_DATA=DIR python benchmarks/what_if.py [--only "clean labels"] [--dataset cifar10s] [--seeds 3] [--out OUT]

They say what there is to gain on a dataset, and why a method does or does not gain it (docs/paper/results.md). Where
a change leaves fewer rows, epochs are added so that the fits take about as many steps. Fits that OUT has are not
repeated; benchmarks/pack.py keeps them.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import data_folder

from pidual.paper.recipes import load_recipe
from pidual.paper.runs import Fit, load_data, run_fits

GATE_START = "gate bias"
ONE_ANSWER = "1 an image"
CLEAN = "clean labels"
MISTAKES_SEED = 7  # one set of mistakes for all seeds


# --- changes of the data ---


def put_right(data):
    """Every wrong label is the true one."""
    return dataclasses.replace(data, frame=data.frame.assign(label=data.frame["y"]))


def leave_out_wrong(data):
    """No row with a wrong label."""
    frame = data.frame[data.frame["label"] == data.frame["y"]].reset_index(drop=True)
    return dataclasses.replace(data, frame=frame)


def one_answer(data):
    """Of every item the first answer in the file only, with its PI: on CIFAR-10S those of 40 of its 248 people."""
    return dataclasses.replace(data, frame=data.frame.groupby("item", sort=False).head(1).reset_index(drop=True))


def random_mistakes(data):
    """The same rows are wrong, with the same PI, but neither image nor class says anything of the wrong label."""
    rng, frame = np.random.default_rng(MISTAKES_SEED), data.frame
    wrong = (frame["label"] != frame["y"]).to_numpy()
    others = rng.integers(1, len(data.classes), len(frame))
    labels = np.where(wrong, (frame["y"] + others) % len(data.classes), frame["label"])
    return dataclasses.replace(data, frame=frame.assign(label=labels))


def class_mistakes(data):
    """The same rows are wrong, with the same PI, and classes are taken for the same others, whatever the image."""
    rng, frame = np.random.default_rng(MISTAKES_SEED), data.frame
    labels, y = frame["label"].to_numpy(copy=True), frame["y"].to_numpy()
    for k in range(len(data.classes)):
        wrong = np.flatnonzero((y == k) & (labels != k))
        labels[wrong] = rng.permutation(labels[wrong])
    return dataclasses.replace(data, frame=frame.assign(label=labels))


def pi_tells_all(data):
    """The PI is whether the label is wrong, and nothing else."""
    frame = data.frame.assign(wrong=(data.frame["label"] != data.frame["y"]).astype(float))
    return dataclasses.replace(data, frame=frame, pi={"wrong": "number"})


def only_confidence(data):
    """The PI is how sure the annotator was; nothing in it names a row or a person."""
    return dataclasses.replace(data, pi={"confidence": data.pi["confidence"]})


# --- questions ---


class Question(NamedTuple):
    """A change of datasets or of settings, and the methods that are asked."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    changes: tuple[Callable, ...] = ()
    settings: Mapping[str, Any] = {}


BOTH = ("ce", "pi_dual")
CROWD = ("cifar10s",)
MADE = ("cifar10_pi:high",)
DATA = {  # of a crowd: what is changed, and who is asked
    CLEAN: (("ce",), (put_right,)),
    "wrong ones left out": (("ce",), (leave_out_wrong,)),
    "only confidence": (("pi_dual",), (only_confidence,)),
    "PI tells all": (("pi_dual",), (pi_tells_all,)),
    "random mistakes": (BOTH, (random_mistakes,)),
    "random mistakes, only confidence": (("pi_dual",), (random_mistakes, only_confidence)),
    "random mistakes, PI tells all": (("pi_dual",), (random_mistakes, pi_tells_all)),
}
QUESTIONS = {
    **{name: Question(CROWD, *question) for name, question in DATA.items()},
    ONE_ANSWER: Question(CROWD, BOTH, (one_answer,)),
    **{
        f"{ONE_ANSWER}, {name}": Question(CROWD, methods, (one_answer, *changes))
        for name, (methods, changes) in DATA.items()
    },
    f"{ONE_ANSWER}, mistakes by class": Question(CROWD, BOTH, (one_answer, class_mistakes)),
    f"{ONE_ANSWER}, mistakes by class, PI tells all": Question(
        CROWD, ("pi_dual",), (one_answer, class_mistakes, pi_tells_all)
    ),
    f"{ONE_ANSWER}, PI tells all, {GATE_START} 0": Question(
        CROWD, ("pi_dual",), (one_answer, pi_tells_all), {"gate_bias": 0.0}
    ),
    f"{GATE_START} -2": Question(MADE, ("pi_dual",), settings={"gate_bias": -2.0}),  # the recipes have -4
    f"{GATE_START} 0": Question(MADE, ("pi_dual",), settings={"gate_bias": 0.0}),
}
QUESTIONS[CLEAN] = QUESTIONS[CLEAN]._replace(datasets=(*CROWD, "labelme"))


def ask(name, dataset, seeds, out):
    """The fits of one question on one dataset."""
    question, recipe = QUESTIONS[name], load_recipe(dataset, "cpu")
    whole = load_data(recipe, data_folder())
    data = reduce(lambda data, change: change(data), question.changes, whole)
    settings = dict(question.settings)
    if len(data.frame) != len(whole.frame):
        settings["epochs"] = round(recipe.settings["epochs"] * len(whole.frame) / len(data.frame))
    fits = [Fit(recipe, method, seed, name, settings) for seed in range(seeds) for method in question.methods]
    for result in run_fits(fits, data, out):
        scores = {key: result["last"][key] for key in ("accuracy", "auc")} | {"valid": result["valid_accuracy"]}
        print(dataset, result["method"], name, result["seed"], scores, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="QUESTION", help=f"one of: {'; '.join(QUESTIONS)}")
    parser.add_argument("--dataset", choices=(*CROWD, "labelme", *MADE), help="one of the datasets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"))
    arguments = parser.parse_args()
    if arguments.only and arguments.only not in QUESTIONS:
        parser.error(f"there is no question '{arguments.only}'")
    torch.set_num_threads(1)
    for name, question in QUESTIONS.items():
        for dataset in question.datasets:
            if arguments.only in (None, name) and arguments.dataset in (None, dataset):
                ask(name, dataset, arguments.seeds, arguments.out)
