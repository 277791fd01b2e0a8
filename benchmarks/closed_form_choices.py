"""What each choice of the closed form is worth: every one reverted in turn, on the crowds of crowd_data.py.

    PIDUAL_DATA=DIR python benchmarks/closed_form_choices.py [--only NAME,...]

A row of `results/closed_form_choices.jsonl` is one choice, with the means over each group of crowds of, in this order:

    accuracy    of f on clean test inputs, %
    auc         chance that a wrong answer scores below a right one
    consensus   items whose consensus is right, %
    stated      how right the consensus states to be, minus that
    noise       distance of the stated from the true share of wrong answers, points
    seconds     processor time of a fit

`megabytes` is the most that the process had needed by then. Choices that are there already are not made again.

Choices are reverted by patches in this file; the package has no option for any of them. Nothing here is held out:
docs/settings.md says which choices were made with these figures in view.
"""

import argparse
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import torch
from closed_form_parts import Certain, Damped, Hard, KMeans, Leverage, Logistic
from common import RESULTS, Log, data_folder, peak_memory
from crowd_data import CROWDS, as_text, crowd_files, make_synthetic, read_texts, relation_views
from crowd_scores import score
from crowds import ours
from stress import draw_crowd

from pidual.data import features as text
from pidual.data.datasets import load_dataset
from pidual.learn.answers import judging, posterior
from pidual.learn.closed_form import alternate, kernels, ridge
from pidual.paper.runs import about

OUT = RESULTS / "closed_form_choices.jsonl"
REAL = [(name, 0) for name in ("labelme", "cifar10s", "cifar100_sm500")]
REAL += [("llm_emotion", seed) for seed in range(5)] + [("medical_treat", seed) for seed in range(3)]
SYNTHETIC = ("tiny_10", "confusions_5", "spammers_3", "spammers_binary_5", "shared_3")
USUAL = {
    "real": REAL,
    "digits": [(f"digits_{level}_1", seed) for level in ("low", "high") for seed in range(2)],
    "synthetic": [(name, 0) for name in SYNTHETIC],
    "stress": [("stress", seed) for seed in range(40)],
}
LARGE = {
    "medical": REAL[-3:],
    "2,000 to 4,000": [(name, 0) for name in ("confusions_1", "all_kinds_4", "many_annotators_3")],
    "20,000": [("large_2", 0)],
}
TEXTS = {
    "language models": [("emotion_texts", seed) for seed in range(5)],
    "medical sentences": [("medical_texts", seed) for seed in range(3)],
}
SMALL = {name: [(name, 0)] for name in ("labelme", "cifar100_sm500", "digits_high_1")}
SMALL["stress 0 to 7"] = [("stress", seed) for seed in range(8)]
RARE = {"fraud": [("fraud", seed) for seed in range(3)]}
MANY = {"1,000 classes": [("many_classes", 0)]}


def in_its_place(part):
    """A Ridge of another kind."""
    return [patch.object(alternate, "Ridge", part)]


def twice():
    """Targets that are not relative to the share of their class."""
    return [patch.object(ridge, "relative", lambda q, mean: q - mean)]


def landmarks(n):
    """Another number of landmarks."""
    return [patch.object(module, "LANDMARKS", n) for module in (kernels, alternate, ridge)]


def sharpened():
    """A second sharpness, in the answer model."""
    made = {"fit_judge": judging.fit_judge, "HeldOut": judging.HeldOut}
    return [
        patch.object(alternate, name, lambda *args, _made=each, **how: _made(*args, **{**how, "sharpen": True}))
        for name, each in made.items()
    ]


def steps(first, later):
    """Other numbers of steps of the answer model."""
    return [patch.object(alternate, "STEPS", first), patch.object(alternate, "LATER_STEPS", later)]


def directions(n):
    """Another number of directions of texts."""
    return [patch.object(text, "N_TEXT_FEATURES", n)]


def rounds(n):
    """So many rounds, whatever changes."""
    return [
        patch.object(alternate, "SETTLED", -1.0),
        patch.object(alternate, "alternate", partial(ALTERNATE, rounds=n)),
    ]


def text_crowd(name, seed):
    """Texts as `pidual fit --text` encodes them."""
    data = load_dataset(name, data_folder(), seed=seed)
    if name == "medical_treat":
        texts = read_texts(crowd_files.MEDICAL_TEXTS, crowd_files.SENTENCE_COLUMNS, crowd_files.MEDICAL_SOURCE)
        texts = texts.apply(lambda row: relation_views(*row)[0], axis=1)
    else:
        texts = read_texts(crowd_files.EMOTION_TEXTS, ("text",), crowd_files.EMOTION_SOURCE)["text"]
    items, others = (pa.array(texts[data.about[part]].tolist()) for part in ("items", "test_items"))
    source = SimpleNamespace(name=name)
    x, schema, tensors = text.encode_text(source, "text", items, None, None)
    x_test, _, _ = text.encode_text(source, "text", others, schema, tensors)
    return replace(data, x=as_text(x, name), x_test=as_text(x_test, name))


ALTERNATE = alternate.alternate
OTHERS = {
    "fraud": lambda seed: load_dataset("fraud", data_folder(), seed=seed),
    "many_classes": lambda seed: make_synthetic(20_000, 3, n_classes=1000, n_features=128, separation=4.0, seed=seed),
    "emotion_texts": partial(text_crowd, "llm_emotion"),
    "medical_texts": partial(text_crowd, "medical_treat"),
}
CHOICES = {
    "as it is": (USUAL, list),
    "class shares count twice": (USUAL, twice),
    "three rounds": (USUAL, lambda: rounds(3)),
    "eight rounds": (USUAL, lambda: rounds(8)),
    "rounds until 5%": (USUAL, lambda: [patch.object(alternate, "SETTLED", 0.05)]),
    "second sharpness": (USUAL, sharpened),
    "damping": (USUAL, lambda: in_its_place(Damped)),
    "hard targets": (USUAL, lambda: in_its_place(Hard)),
    "items by certainty": (USUAL, lambda: in_its_place(Certain)),
    "own vote in full": (USUAL, lambda: [patch.object(posterior, "OWN_WEIGHT", 1.0)]),
    "10 and 5 steps": (USUAL, lambda: steps(10, 5)),
    "300 steps": (USUAL, lambda: steps(300, 300)),
    "all seven kernels": (LARGE, lambda: [patch.object(alternate, "choose_kernels", lambda *_: kernels.KERNELS)]),
    "1,000 landmarks, drawn": (LARGE, list),
    "512 landmarks": (LARGE, lambda: landmarks(512)),
    "2,000 landmarks": (LARGE, lambda: landmarks(2000)),
    "4,000 landmarks": (LARGE, lambda: landmarks(4000)),
    "landmarks by k-means": (LARGE, lambda: in_its_place(KMeans)),
    "landmarks by leverage": (LARGE, lambda: in_its_place(Leverage)),
    "squared loss": (SMALL, list),
    "logistic loss": (SMALL, lambda: in_its_place(Logistic)),
    "64 directions": (TEXTS, lambda: directions(64)),
    "256 directions": (TEXTS, lambda: directions(256)),
    "1,024 directions": (TEXTS, lambda: directions(1024)),
    "all directions": (TEXTS, lambda: directions(4096)),
    "rare classes": (RARE, list),
    "rare classes, shares count twice": (RARE, twice),
    "many classes": (MANY, list),
}


@cache
def load_crowd(name, seed):
    """A crowd of crowd_data.py."""
    return CROWDS[name](seed)


def fit(name, seed):
    """The columns of one crowd."""
    data = OTHERS[name](seed) if name in OTHERS else load_crowd(name, seed)
    started = time.process_time()
    judged = ours("auto", data, seed)
    seconds = time.process_time() - started
    row = score(judged, data.frame, data.y_test)
    stated, noise = row["stated"] - row["consensus"], abs(row["noise_error"])
    return (100 * row["test_accuracy"], row["auc"], 100 * row["consensus"], 100 * stated, 100 * noise, seconds)


def run(choice):
    """A row of one choice."""
    groups, patches = CHOICES[choice]
    with ExitStack() as stack:
        for each in patches():
            stack.enter_context(each)
        found = {name: [fit(*crowd) for crowd in crowds] for name, crowds in groups.items()}
    if "stress" in found:
        single = [draw_crowd(seed)["answers_per_item"] == 1 for seed in range(40)]
        found["stress, one answer"] = [row for row, is_single in zip(found["stress"], single, strict=True) if is_single]
        found["stress 4"] = found["stress"][4:5]
    means = {name: [round(value, 4) for value in np.mean(rows, axis=0).tolist()] for name, rows in found.items()}
    return {"choice": choice, **about(), "megabytes": round(peak_memory()), "groups": means}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(CHOICES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(OUT, "choice")
    for name in CHOICES:
        if any(name.startswith(each) for each in arguments.only) and log.find(choice=name) is None:
            log.add(run(name))
