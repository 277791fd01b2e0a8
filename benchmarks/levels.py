"""Answers in levels: what is gained by fitting how sure people were as levels of their answer.

    PIDUAL_DATA=DIR python benchmarks/levels.py

Of CIFAR-10S, images of two classes that are often confused, with answers that say one of the two, without x. With the
confidence cut at 70 and 95 an answer is one of six levels, from surely the first to surely the second class. Prints for
each pair how many images the consensus of answers as classes, and as levels, has right, what both state of that, and
the mean logarithm of the true class's probability.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from pidual.data.datasets.cifar import CLASSES_10
from pidual.data.datasets.cifar10s import read_answers
from pidual.learn.answers.design import Design
from pidual.learn.answers.judging import fit_judge
from pidual.learn.answers.model import Answers

PAIRS = [("cat", "dog"), ("deer", "horse"), ("automobile", "truck"), ("airplane", "ship")]
CUTS = (70, 95)


def judge(label, image, person, n_levels=None):
    """The posterior of every image by the labels, or levels, of all people."""
    people = int(person.max()) + 1
    numbers = np.zeros((len(label), 0))
    design = Design.fit((people,), 0, numbers)
    answers = Answers.build(image, label, design, person[:, None], numbers, n_items=int(image.max()) + 1, n_classes=2)
    log_p = np.full((answers.n_items, 2), np.log(0.5))
    return fit_judge(answers, log_p, n_levels=n_levels)(answers, log_p).q


def scores(q, y):
    """Right, stated, and the mean logarithm."""
    return (q.argmax(1) == y).mean(), q.max(1).mean(), np.log(q[np.arange(len(y)), y]).mean()


def main():
    """Print the table."""
    answers, found = read_answers(Path(os.environ["PIDUAL_DATA"])), []
    for pair in PAIRS:
        codes = [CLASSES_10.index(name) for name in pair]
        some = answers[answers["y"].isin(codes) & answers["label"].isin(codes)]
        label, image = (some["label"] == codes[1]).to_numpy().astype(int), pd.factorize(some["image"])[0]
        person = pd.factorize(some["annotator"])[0]
        y = (some.groupby(image)["y"].first() == codes[1]).to_numpy().astype(int)
        sure = np.searchsorted(CUTS, some["confidence"].fillna(0), side="right")
        level = np.where(label == 1, 3 + sure, 2 - sure)
        both = scores(judge(label, image, person), y), scores(judge(level, image, person, 6), y)
        found.append(both)
        print_line(" and ".join(pair), len(y), both)
    print_line("mean", "", np.mean(found, axis=0))


def print_line(name, n, both):
    """Print right, stated and the logarithm, by classes and by levels."""
    print(f"{name:22}{n:>5}", *(f"{right:9.1%}{stated:7.1%}{log:8.3f}" for right, stated, log in both))


if __name__ == "__main__":
    main()
