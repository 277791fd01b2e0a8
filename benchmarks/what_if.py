"""What if a dataset, or how Pi-DUAL begins, were another: CPU-scale recipes with one thing changed on purpose.

    PIDUAL_DATA=DIR python benchmarks/what_if.py [--only "clean labels"] [--datasets cifar10s,labelme] [--seeds 3]

They say what there is to gain on a dataset, and why a method does or does not gain it (docs/results.md). Where a change
leaves fewer rows, epochs are added so that the fits take as many steps. Adds fits to results/benchmark, beside those of
`pidual benchmark`; those that are there are not repeated.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import RESULTS, data_folder

from pidual.benchmark import Fit, load_data, load_recipe, run_fits

GATE_START = "gate bias"
ONE_ANSWER = "1 an image"
CLEAN = "clean labels"
SEED = 7  # of mistakes that are made


# --- changes of the data ---


def put_right(data):
    """Every wrong label is the true one."""
    return dataclasses.replace(data, frame=data.frame.assign(label=data.frame["y"]))


def leave_out_wrong(data):
    """No row with a wrong label."""
    frame = data.frame[data.frame["label"] == data.frame["y"]].reset_index(drop=True)
    return dataclasses.replace(data, frame=frame)


def one_answer(data):
    """Of every item the first answer only, with its PI."""
    return dataclasses.replace(data, frame=data.frame.groupby("item", sort=False).head(1).reset_index(drop=True))


def random_mistakes(data):
    """The same rows are wrong, with the same PI, but the image says nothing of the wrong label: any class alike."""
    rng, frame = np.random.default_rng(SEED), data.frame
    wrong = (frame["label"] != frame["y"]).to_numpy()
    others = rng.integers(1, len(data.classes), len(frame))
    labels = np.where(wrong, (frame["y"] + others) % len(data.classes), frame["label"])
    return dataclasses.replace(data, frame=frame.assign(label=labels))


def tell(data):
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
MADE = ("cifar10_pi:high", "cifar10_pi:low")
QUESTIONS = {
    CLEAN: Question((*CROWD, "labelme"), ("ce",), (put_right,)),
    "only confidence": Question(CROWD, ("pi_dual",), (only_confidence,)),
    "random mistakes": Question(CROWD, BOTH, (random_mistakes,)),
    "random mistakes, only confidence": Question(CROWD, ("pi_dual",), (random_mistakes, only_confidence)),
    ONE_ANSWER: Question(CROWD, BOTH, (one_answer,)),
    f"{ONE_ANSWER}, {CLEAN}": Question(CROWD, ("ce",), (one_answer, put_right)),
    f"{ONE_ANSWER}, wrong ones left out": Question(CROWD, ("ce",), (one_answer, leave_out_wrong)),
    f"{ONE_ANSWER}, only confidence": Question(CROWD, ("pi_dual",), (one_answer, only_confidence)),
    f"{ONE_ANSWER}, PI tells all": Question(CROWD, ("pi_dual",), (one_answer, tell)),
    f"{ONE_ANSWER}, random mistakes": Question(CROWD, BOTH, (one_answer, random_mistakes)),
    f"{ONE_ANSWER}, random mistakes, only confidence": Question(
        CROWD, ("pi_dual",), (one_answer, random_mistakes, only_confidence)
    ),
    f"{ONE_ANSWER}, random mistakes, PI tells all": Question(CROWD, ("pi_dual",), (one_answer, random_mistakes, tell)),
    f"{GATE_START} -2": Question(MADE, ("pi_dual",), settings={"gate_bias": -2.0}),  # the recipes have -4
    f"{GATE_START} 0": Question(MADE, ("pi_dual",), settings={"gate_bias": 0.0}),
}


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
    parser.add_argument("--only", choices=QUESTIONS, help="one of the questions")
    parser.add_argument("--datasets", help="with commas; all of the question's unless given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmark")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in [arguments.only] if arguments.only else QUESTIONS:
        for dataset in QUESTIONS[name].datasets:
            if not arguments.datasets or dataset in arguments.datasets.split(","):
                ask(name, dataset, arguments.seeds, arguments.out)
