"""Made-up data, seeded, with known wrong labels: a crowd, comparisons of two items, and a panel of language models.

crowd          Items are points in clusters, two per class, so that no straight line separates the classes. Annotators
               differ in skill; some are spammers, who answer at random or always the same. Wrong answers tend to be
               quick ones.
comparisons    Items have known scores; people differ in skill, and are pulled to the left side.
judges         Two families of models. What misleads one model misleads its siblings, all pass long answers too
               readily, and each leans a little towards what it is shown first: mistakes that agreement cannot show.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import UsageError

CLUSTERS = 2  # per class


@dataclass(frozen=True)
class Crowd:
    """A synthetic crowd's answers, its items and a clean test set.

    Parameters
    ----------
    frame : DataFrame
        One row per annotation: item, annotator, seconds (unless left out), label, y (clean).
    x : float32 array of shape (n_items, n_features)
        `item` is the row.
    x_test : float32 array of shape (n_test, n_features)
        Further items from the same clusters.
    y_test : int array of shape (n_test,)
        Their clean labels.
    spammers : array of str
        Names of the annotators who answer without looking.

    See Also
    --------
    make_crowd : Makes it.

    Examples
    --------
    >>> from pidual import make_crowd
    >>> crowd = make_crowd(60, noise=0.3)
    >>> crowd.frame.columns.tolist()
    ['item', 'annotator', 'seconds', 'label', 'y']
    >>> crowd.x.shape, crowd.x_test.shape
    ((60, 10), (1000, 10))
    >>> X = crowd.x[crowd.frame["item"]]  # one row per annotation, as a classifier is fitted
    >>> round(crowd.noise_rate, 2)
    0.3
    """

    frame: pd.DataFrame
    x: NDArray[np.float32]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
    spammers: NDArray[np.str_]

    def __repr__(self) -> str:
        return (
            f"Crowd({len(self.frame):,} annotations of {len(self.x):,} items by {self.frame['annotator'].nunique():,} "
            f"annotators, {self.noise_rate:.1%} wrong)"
        )

    @property
    def noise_rate(self) -> float:
        """Share of annotations whose label is wrong."""
        return float((self.frame["label"] != self.frame["y"]).mean())


def make_crowd(
    n_items: int = 600,
    n_annotators: int = 30,
    answers_per_item: int = 3,
    n_classes: int = 4,
    n_features: int = 10,
    *,
    spammer_share: float = 0.1,
    noise: float = 0.4,
    class_separation: float = 3.0,
    durations: bool = True,
    n_test: int = 1000,
    seed: int = 0,
) -> Crowd:
    """Make a synthetic crowd, with known wrong labels and PI that says something about them.

    Parameters
    ----------
    n_items : int
        Items: points in clusters, two per class, so that no straight line separates the classes.
    n_annotators : int
        Annotators, who differ in skill.
    answers_per_item : int
        How many different annotators answer each item.
    n_classes : int
        Classes, each as frequent as the others.
    n_features : int
        Numbers per item.
    spammer_share : float
        Share of the annotators who answer without looking, each either at random or always the same class.
    noise : float
        Share of wrong labels over all answers, spammers' included; met up to one answer. Above 1 - 1/n_classes the
        answers are worse than guessing.
    class_separation : float
        Half the typical distance between two cluster centres, in standard deviations within a cluster.
    durations : bool
        Whether the frame has the seconds each answer took: shorter for wrong answers and spammers, with a few long
        ones from people who left the desk.
    n_test : int
        Number of clean test items.
    seed : int
        The same seed gives the same crowd.

    Returns
    -------
    Crowd
        `frame`, `x`, `x_test`, `y_test` and `spammers`.

    See Also
    --------
    load_dataset : Data that others publish.

    Examples
    --------
    >>> from pidual import make_crowd
    >>> crowd = make_crowd(60, noise=0.3, seed=1)
    >>> crowd
    Crowd(180 annotations of 60 items by 30 annotators, 30.0% wrong)
    >>> crowd.frame[["item", "annotator", "label"]].to_csv("labels.csv", index=False)
    """
    _check(n_annotators, answers_per_item, n_classes, spammer_share, noise)
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, CLUSTERS, n_features)) * class_separation * np.sqrt(2 / n_features)
    x, y = _items(n_items, centres, rng)
    x_test, y_test = _items(n_test, centres, rng)
    asked = _asked(n_items, n_annotators, answers_per_item, rng)
    item, who = np.repeat(np.arange(n_items), answers_per_item), asked.reshape(-1)
    n_spammers = round(spammer_share * n_annotators)
    spammer = np.zeros(n_annotators, bool)
    spammer[rng.permutation(n_annotators)[:n_spammers]] = True
    label = _labels(y[item], who, spammer, n_classes, noise, rng)
    names = np.asarray([f"worker-{number:0{len(str(n_annotators - 1))}d}" for number in range(n_annotators)])
    columns = {"item": item, "annotator": pd.Categorical.from_codes(who, pd.Index(names)), "label": label, "y": y[item]}
    frame = pd.DataFrame(columns)
    if durations:
        frame.insert(2, "seconds", _seconds(label != y[item], who, spammer, rng))
    return Crowd(frame, x, x_test, y_test, names[spammer])


def _check(n_annotators: int, answers: int, n_classes: int, spammer_share: float, noise: float) -> None:
    if not 1 <= answers <= n_annotators:
        raise UsageError(f"answers_per_item must be between 1 and n_annotators = {n_annotators}, not {answers}")
    if n_classes < 2:
        raise UsageError(f"a crowd needs at least two classes, not {n_classes}")
    if not (0 <= spammer_share <= 1 and 0 <= noise < 1):
        raise UsageError(f"spammer_share and noise are shares between 0 and 1, not {spammer_share} and {noise}")


def _items(
    n_items: int, centres: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points around the centres, with their classes; every class equally often (up to one)."""
    y = rng.permutation(np.arange(n_items) % len(centres))
    x = rng.standard_normal((n_items, centres.shape[2]), dtype=np.float32)
    x += centres[y, rng.integers(0, CLUSTERS, n_items)].astype(np.float32)
    return x, y


def _asked(n_items: int, n_annotators: int, answers: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Different annotators for each item, (n_items, answers); quick also for very many of them."""
    if 2 * answers > n_annotators:
        return rng.permuted(np.tile(np.arange(n_annotators), (n_items, 1)), axis=1)[:, :answers]
    asked = rng.integers(0, n_annotators, (n_items, answers))
    again = np.arange(n_items)
    while len(again := again[(np.diff(np.sort(asked[again], axis=1), axis=1) == 0).any(axis=1)]):
        asked[again] = rng.integers(0, n_annotators, (len(again), answers))
    return asked


def _labels(
    y: NDArray[np.int64],
    who: NDArray[np.int64],
    spammer: NDArray[np.bool_],
    n_classes: int,
    noise: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Answers: spammers' first, then as many wrong ones by the others as are missing to the wanted noise rate."""
    label = y.copy()
    habit = np.where(rng.random(len(spammer)) < 0.5, -1, rng.integers(0, n_classes, len(spammer)))  # -1: at random
    by_spammer = spammer[who]
    spam = habit[who[by_spammer]]
    label[by_spammer] = np.where(spam >= 0, spam, rng.integers(0, n_classes, len(spam)))
    missing = round(noise * len(y)) - int((label != y).sum())
    honest = np.flatnonzero(~by_spammer)
    if not 0 <= missing <= len(honest):
        raise UsageError(
            f"a noise rate of {noise:g} is impossible with these spammers, who alone make "
            f"{(label != y).mean():.3f}; change noise or spammer_share"
        )
    carelessness = rng.normal(0.0, 1.5, len(spammer))  # log odds of a mistake, up to a constant
    urge = carelessness[who[honest]] + rng.logistic(size=len(honest))
    wrong = honest[np.argsort(-urge, kind="stable")[:missing]]  # the threshold that gives the wanted number
    label[wrong] = (y[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    return label


def _seconds(
    wrong: NDArray[np.bool_], who: NDArray[np.int64], spammer: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Log-normal times: each annotator has a pace, wrong answers take about half as long, one in a hundred is idle."""
    pace = np.log(8.0) + rng.normal(0.0, 0.3, len(spammer)) - 1.0 * spammer
    honest = ~spammer[who]
    log_seconds = pace[who] - 0.7 * (wrong & honest) + rng.normal(0.0, 0.4, len(who))
    idle = np.where(rng.random(len(who)) < 0.01, 30.0, 1.0)
    return np.asarray(np.round(np.exp(log_seconds) * idle, 2))


ERROR = 0.05  # of careful people


@dataclass(frozen=True)
class Comparisons:
    """Comparisons with what is true about them."""

    frame: pd.DataFrame  # one comparison per row: left, right, winner (left, right or tie), judge
    # True score of each item; a difference of 1 is preferred in 73% of cases by somebody careful
    score: "pd.Series[float]"
    x: NDArray[np.float64]  # (n_items, n_features), features, of which the score is a linear function and noise
    against: NDArray[np.bool_]  # whether each answer prefers the worse item


def make_comparisons(
    n_items: int = 40,
    n_answers: int = 1200,
    n_judges: int = 8,
    *,
    n_random: int = 1,
    pull: float = 0.1,
    ties: float = 0.0,
    n_features: int = 4,
    seed: int = 0,
) -> Comparisons:
    """Make comparisons: `n_random` judges answer at random, a share `pull` of all answers is left whatever the items.

    `ties` is the share of ties between items of the same score.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_items, n_features))
    score = x @ rng.normal(size=n_features) * 0.6 + 0.4 * rng.normal(size=n_items)
    score -= score.mean()
    left = rng.integers(0, n_items, n_answers)
    right = (left + rng.integers(1, n_items, n_answers)) % n_items
    who, error = rng.integers(0, n_judges, n_answers), np.full(n_judges, ERROR)
    error[:n_random] = 0.5
    d = score[left] - score[right]
    said = (rng.random(n_answers) > 1 / (1 + np.exp(-d))).astype(int)
    said = np.where(rng.random(n_answers) < error[who], 1 - said, said)
    said = np.where(rng.random(n_answers) < pull, 0, said)
    said = np.where(rng.random(n_answers) < ties * np.exp(-np.abs(d)), 2, said)
    names = np.array([f"item-{number:03d}" for number in range(n_items)])
    columns = {"left": names[left], "right": names[right], "winner": np.array(["left", "right", "tie"])[said]}
    frame = pd.DataFrame({**columns, "judge": [f"judge-{number}" for number in who]})
    return Comparisons(frame, pd.Series(score, names), x, (said != 2) & (said != (d < 0)))


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
    item, judge, order = _asked_judges(n_items, n_judges, rng)
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


def _asked_judges(
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
