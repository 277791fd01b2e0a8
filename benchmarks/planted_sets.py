"""Planted tables of sets of labels: 12 classes, 6 annotators with habits of their own, rare tags, and features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

CLASSES = [f"tag{number:02d}" for number in range(12)]
SHARES = (0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.05, 0.04, 0.03, 0.02)  # of items that have each; the last rare
NEVER = (2, 5)  # classes that one annotator never ticks
GOOD = {"ann": (0.92, 0.97), "ben": (0.88, 0.96), "cem": (0.85, 0.95), "dee": (0.80, 0.93)}  # hits, right blanks


@dataclass(frozen=True)
class Planted:
    """A table, its inputs, and what is true: of each item, and which annotator is which."""

    frame: pd.DataFrame  # item, annotator, tags (lists), seconds
    x: Any
    true: Any  # (items, classes)
    said: Any  # (answers, classes)


def make(seed: int, n: int = 1500, d: int = 40, answers: int = 3, weak: float = 1.6) -> Planted:
    """Make a table of n items with features that show the classes, and that many answers to each."""
    random = np.random.default_rng(seed)
    factors = random.normal(size=(n, 4))
    loadings = random.normal(size=(4, len(CLASSES))) * 0.5  # classes go together
    score = factors @ loadings + random.normal(size=(n, len(CLASSES)))
    true = score > np.array([np.quantile(column, 1 - share) for column, share in zip(score.T, SHARES, strict=True)])
    x = (score + weak * random.normal(size=score.shape)) @ random.normal(size=(len(CLASSES), d)) / 3
    x += 0.5 * random.normal(size=x.shape)
    people = [*GOOD, "nil", "all"]
    rows, said, seconds = [], [], []
    for item in range(n):
        for who in random.permutation(len(people))[:answers]:
            name, slow = people[who], random.lognormal(1.5, 0.5)
            if name == "all":
                ticks = random.random(len(CLASSES)) < 0.9
            else:
                hit, blank = GOOD.get(name, (0.88, 0.96))
                ticks = np.where(true[item], random.random(len(CLASSES)) < hit, random.random(len(CLASSES)) > blank)
            if name == "nil":
                ticks[list(NEVER)] = False
            rows.append((f"i{item:05d}", name))
            said.append(ticks)
            seconds.append(slow)
    frame = pd.DataFrame(rows, columns=["item", "annotator"]).assign(seconds=np.round(seconds, 2))
    ticked = np.array(said)
    frame["tags"] = [[CLASSES[at] for at in np.flatnonzero(row)] for row in ticked]
    return Planted(frame, x.astype(np.float32), true, ticked)
