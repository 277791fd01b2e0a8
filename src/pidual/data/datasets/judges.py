"""A made-up panel of language models that judge answers: seeded, with known verdicts, gold labels and shared mistakes.

Judges come from two families. What misleads one model of a family misleads its siblings, all judges pass long answers
too readily, and each leans a little towards what it is shown first: mistakes that agreement cannot show.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

VERDICTS = ("fail", "pass")
TYPICAL_WORDS = 180
FAMILY, LENGTH, ORDER, LENIENT = 2.6, 2.0, 0.35, 0.6  # logits: shared by a family, an e-fold in words, shown first
TWICE, UNSURE = 0.3, 0.03  # shares of judgements that are asked in both orders, and that are no answer


@dataclass(frozen=True)
class _Panel:
    """Judgements by a panel, and what is true."""

    # one row per judgement: item, judge, verdict ("pass", "fail" or "unsure"), order, words, logprob
    frame: pd.DataFrame
    truth: pd.Series  # the true verdict of each item, by item
    gold: pd.DataFrame  # columns item and truth: items drawn at random whose true verdict people have found out


def make_judges(n_items: int = 600, n_judges: int = 12, n_gold: int = 100, *, seed: int = 0) -> _Panel:
    """Make the judgements of a panel.

    `n_items`, `n_judges`: sizes; each judge is asked about four items in five.
    `n_gold`: items with a gold label.
    `seed`: the same seed gives the same panel.
    """
    rng = np.random.default_rng(seed)
    passes = rng.random(n_items) < 0.55
    words = np.exp(rng.normal(np.log(TYPICAL_WORDS), 0.7, n_items)).astype(np.int64) + 5
    family = np.arange(n_judges) * 2 // n_judges
    shared = FAMILY * rng.normal(size=(2, n_items))
    skill, lean = rng.uniform(1.2, 2.6, n_judges), rng.normal(LENIENT, 0.3, n_judges)
    item, judge, order = _asked(n_items, n_judges, rng)
    logit = skill[judge] * np.where(passes[item], 1.0, -1.0) + lean[judge] + shared[family[judge], item]
    logit += LENGTH * np.log(words[item] / TYPICAL_WORDS) + ORDER * np.where(order == "first", 1, -1)
    said = logit + rng.logistic(size=len(item)) > 0
    verdict = np.where(rng.random(len(item)) < UNSURE, "unsure", np.where(said, "pass", "fail"))
    sure = np.logaddexp(0, -np.abs(logit)) * rng.uniform(0.5, 1.5, len(item))
    names = np.asarray([f"{'ab'[family[number]]}-{number:02d}" for number in range(n_judges)])
    ids = np.asarray([f"answer-{number:04d}" for number in range(n_items)])
    columns = {"item": ids[item], "judge": names[judge], "verdict": verdict, "order": order, "words": words[item]}
    frame = pd.DataFrame(columns | {"logprob": -sure.round(4)})
    truth = pd.Series(np.asarray(VERDICTS)[passes.astype(int)], index=ids, name="truth")
    chosen = np.sort(rng.choice(n_items, n_gold, replace=False))
    return _Panel(frame, truth, pd.DataFrame({"item": ids[chosen], "truth": truth.to_numpy()[chosen]}))


def _asked(
    n_items: int, n_judges: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.str_]]:
    """Draw who is asked about what, in which order; some are asked twice, once in each."""
    item, judge = np.nonzero(rng.random((n_items, n_judges)) < 0.8)
    order = np.where(rng.random(len(item)) < 0.5, "first", "second")
    again = np.flatnonzero(rng.random(len(item)) < TWICE)
    other = np.where(order[again] == "first", "second", "first")
    rows = np.r_[np.arange(len(item)), again]
    order = np.r_[order, other]
    by_item = np.lexsort((judge[rows], item[rows]))
    return item[rows][by_item], judge[rows][by_item], order[by_item]
