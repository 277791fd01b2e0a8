"""Twelve small tables whose mistakes are rare or hard to find: planted ones, drawn by a seed, with clean labels beside.

    HARD_CASES["fraud"][0](seed=3)

Items are scikit-learn's digits, breast cancer and wine, or are made up here. Mistakes are random given who answers, how
long it takes and when; so they do not look like those that people make because an item misleads them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pidual.data import load_inputs
from pidual.data.datasets.base import NoisyDataset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

WHO, TIMED = {"annotator": "category"}, {"annotator": "category", "seconds": "duration"}
N_TEST = 2000  # of made-up items


# --- the tables ---


def topics(seed: int = 0) -> NoisyDataset:
    """500 texts on four topics, three of seven annotators each: two of them are wrong half of the time."""
    rng = np.random.default_rng([1, seed])
    texts, y = _texts(500 + N_TEST, rng)
    item, who = _ask(500, 7, 3, rng)
    rate = np.array([0.04, 0.06, 0.45, 0.05, 0.08, 0.52, 0.06])
    label = _mistaken(y[item], rate[who], 4, rng)
    frame = _frame(item, label, y[item], annotator=_names(7)[who], seconds=_seconds(label != y[item], rng))
    return _text_dataset("topics", frame, TIMED, texts, y, 500, list(TOPICS), {"bad": _names(7)[[2, 5]].tolist()})


def spammers(seed: int = 0) -> NoisyDataset:
    """Digits, three of 30 workers each: nine answer without looking."""
    rng = np.random.default_rng([2, seed])
    x, y = _digits()
    item, who = _ask(len(x), 30, 3, rng)
    spams = np.isin(who, rng.permutation(30)[:9])
    label = _mistaken(y[item], np.where(spams, 0.9, 0.042), 10, rng)
    frame = _frame(item, label, y[item], annotator=_names(30)[who], seconds=_seconds(spams, rng))
    bad = sorted({*_names(30)[who[spams]].tolist()})
    return NoisyDataset("spammers", frame, TIMED, x, x[:0], y[:0], _digit_names(), {"bad": bad})


def wide_table(seed: int = 0) -> NoisyDataset:
    """Digits by twelve annotators, each of whom has skipped three in four; `about["wide"]` has a column for each."""
    rng = np.random.default_rng([3, seed])
    x, y = _digits()
    item, who = np.nonzero(rng.random((len(x), 12)) < 0.25)
    rate = np.full(12, 0.06)
    rate[[1, 7, 10]] = 0.55
    label = _mistaken(y[item], rate[who], 10, rng)
    frame = _frame(item, label, y[item], annotator=_names(12)[who])
    wide = frame.pivot_table("label", "item", "annotator", aggfunc="first").astype("Int64").reindex(np.arange(len(x)))
    about = {"bad": _names(12)[[1, 7, 10]].tolist(), "wide": wide.rename_axis(columns=None).reset_index()}
    return NoisyDataset("wide_table", frame, WHO, x, x[:0], y[:0], _digit_names(), about)


def messy_labels(seed: int = 0) -> NoisyDataset:
    """1,500 texts with one answer each, by twelve annotators, more wrong at night; one topic is written in two ways.

    "Account" and "account" are two classes, as a table has them that nobody has cleaned. Either is right where the
    topic is.
    """
    rng = np.random.default_rng([4, seed])
    texts, y = _texts(1500 + N_TEST, rng)
    item, who = np.arange(1500), rng.integers(0, 12, 1500)
    hour = np.where(rng.random(1500) < 0.2, rng.integers(0, 5, 1500), rng.integers(8, 20, 1500))
    rate = np.full(12, 0.05)
    rate[[3, 6, 8]] = 0.5
    topic = _mistaken(y[item], rate[who] + 0.14 * (hour < 5), 4, rng)
    wrong = topic != y[item]
    lower = (topic == 0) & (rng.random(1500) < 0.3)  # 1 is "account", and the other topics follow
    label, clean = np.where(lower, 1, _after_variant(topic)), _after_variant(y[item])
    clean = np.where(wrong, clean, label)
    annotator, seconds = _names(12)[who], _seconds(wrong, rng)
    frame = _frame(item, label, clean, annotator=annotator, seconds=seconds, hour=hour)
    classes = ["Account", *TOPICS]
    about = {"bad": _names(12)[[3, 6, 8]].tolist()}
    kinds = TIMED | {"hour": "number"}
    return _text_dataset("messy_labels", frame, kinds, texts, _after_variant(y), 1500, classes, about)


def fraud(seed: int = 0) -> NoisyDataset:
    """5,000 payments with weak features, 2.2% of them fraud, two of four annotators each: lee misses 72% of frauds."""
    rng = np.random.default_rng([5, seed])
    y = rng.permutation(np.arange(5000 + N_TEST) % 45 == 0).astype(np.int64)
    x = (rng.normal(size=(len(y), 10)) + 0.6 * y[:, None]).astype(np.float32)
    item, who = _ask(5000, 4, 2, rng)
    names = np.array(["ann", "bo", "kim", "lee"])
    missed = np.where(who == 3, 0.72, 0.06)
    label = _mistaken(y[item], np.where(y[item] == 1, missed, 0.011), 2, rng)
    frame = _frame(item, label, y[item], annotator=names[who], seconds=_seconds(label != y[item], rng, haste=0.3))
    about = {"bad": ["lee"]}
    return NoisyDataset("fraud", frame, TIMED, x[:5000], x[5000:], y[5000:], ["ok", "fraud"], about)


def one_annotator(seed: int = 0) -> NoisyDataset:
    """Breast cancer, labelled once by one person, whose 7.6% mistakes are quick; PI: the seconds."""
    rng = np.random.default_rng([6, seed])
    x, y, classes = _bundled("load_breast_cancer")
    label = _mistaken(y, np.full(len(y), 0.076), 2, rng)
    frame = _frame(np.arange(len(y)), label, y, seconds=_seconds(label != y, rng))
    return NoisyDataset("one_annotator", frame, {"seconds": "duration"}, x, x[:0], y[:0], classes)


def many_annotators(seed: int = 0) -> NoisyDataset:
    """1,500 digits, each with four of 2,000 annotators, who have three labels each: one in seven is bad."""
    rng = np.random.default_rng([7, seed])
    x, y = _digits()
    x, y = x[:1500], y[:1500]
    item, who = np.repeat(np.arange(1500), 4), np.concatenate([rng.permutation(2000) for _ in range(3)])
    bad = np.zeros(2000, bool)
    bad[rng.permutation(2000)[:294]] = True
    label = _mistaken(y[item], np.where(bad[who], 0.81, 0.054), 10, rng)
    frame = _frame(item, label, y[item], annotator=_names(2000)[who])
    return NoisyDataset(
        "many_annotators", frame, WHO, x, x[:0], y[:0], _digit_names(), {"bad": _names(2000)[bad].tolist()}
    )


def few_mistakes(seed: int = 0) -> NoisyDataset:
    """Digits with one label each by five annotators, all of them careful: 2% of the labels are wrong."""
    rng = np.random.default_rng([8, seed])
    x, y = _digits()
    label = _mistaken(y, np.full(len(y), 0.019), 10, rng)
    annotator, seconds = _names(5)[rng.integers(0, 5, len(y))], _seconds(label != y, rng)
    frame = _frame(np.arange(len(y)), label, y, annotator=annotator, seconds=seconds)
    return NoisyDataset("few_mistakes", frame, TIMED, x, x[:0], y[:0], _digit_names())


def adversaries(seed: int = 0) -> NoisyDataset:
    """Digits, two of ten annotators each: four of them know the digit d and say 9 - d on purpose."""
    rng = np.random.default_rng([9, seed])
    x, y = _digits()
    item, who = _ask(len(x), 10, 2, rng)
    flips = np.isin(who, [0, 3, 4, 8])
    honest = _mistaken(y[item], np.where(flips, 0.0, 0.03), 10, rng)
    meant = flips & _drawn(np.where(flips, 0.92, 0.0), rng)
    label = np.where(meant, 9 - y[item], honest)
    frame = _frame(item, label, y[item], annotator=_names(10)[who])
    return NoisyDataset(
        "adversaries", frame, WHO, x, x[:0], y[:0], _digit_names(), {"bad": _names(10)[[0, 3, 4, 8]].tolist()}
    )


def small_images(seed: int = 0) -> NoisyDataset:
    """500 digits as images of 16 x 16 pixels, two of four annotators each: two of them are careless."""
    rng = np.random.default_rng([10, seed])
    x, y = _digits()
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    grey = (x.reshape(-1, 1, 8, 8) * (255 / 16)).round().astype(np.uint8)
    images = np.ascontiguousarray(np.broadcast_to(grey, (len(x), 3, 8, 8)).repeat(2, axis=2).repeat(2, axis=3))
    item, who = _ask(500, 4, 2, rng)
    rate = np.array([0.03, 0.3, 0.04, 0.31])
    label = _mistaken(y[item], rate[who], 10, rng)
    frame = _frame(item, label, y[item], annotator=_names(4)[who])
    about = {"bad": _names(4)[[1, 3]].tolist()}
    return NoisyDataset("small_images", frame, WHO, images[:500], images[500:], y[500:], _digit_names(), about)


def no_pi(seed: int = 0) -> NoisyDataset:
    """Wine, one label each, 6.2% of them wrong, and nothing known about how they were made."""
    rng = np.random.default_rng([11, seed])
    x, y, classes = _bundled("load_wine")
    label = _mistaken(y, np.full(len(y), 0.062), 3, rng)
    return NoisyDataset("no_pi", _frame(np.arange(len(y)), label, y), {}, x, x[:0], y[:0], classes)


def idle_pi(seed: int = 0) -> NoisyDataset:
    """Breast cancer, one label each, 11.6% of them wrong; PI that says nothing about it: the batch, the weather."""
    rng = np.random.default_rng([12, seed])
    x, y, classes = _bundled("load_breast_cancer")
    label = _mistaken(y, np.full(len(y), 0.116), 2, rng)
    batch = np.array([f"batch-{number}" for number in range(6)])[rng.integers(0, 6, len(y))]
    frame = _frame(np.arange(len(y)), label, y, batch=batch, degrees=rng.normal(12, 6, len(y)).round(1))
    kinds = {"batch": "category", "degrees": "number"}
    return NoisyDataset("idle_pi", frame, kinds, x, x[:0], y[:0], classes)


HARD_CASES: dict[str, tuple[Callable[..., NoisyDataset], float]] = {  # by name: the table, share of wrong labels
    "topics": (topics, 0.18),
    "spammers": (spammers, 0.30),
    "wide_table": (wide_table, 0.18),
    "messy_labels": (messy_labels, 0.20),
    "fraud": (fraud, 0.016),
    "one_annotator": (one_annotator, 0.076),
    "many_annotators": (many_annotators, 0.165),
    "few_mistakes": (few_mistakes, 0.019),
    "adversaries": (adversaries, 0.385),
    "small_images": (small_images, 0.17),
    "no_pi": (no_pi, 0.062),
    "idle_pi": (idle_pi, 0.116),
}


# --- items ---

TOPICS = {
    "account": "login password profile username locked register email settings verify reset",
    "billing": "invoice charge refund card payment price receipt cost subscription discount",
    "delivery": "parcel courier late tracking address shipped package arrived driver lost",
    "returns": "broken replace return defective faulty exchange damaged size colour swap",
}
COMMON = "the my is was please help with and a not to for it hello thanks again today order since have you me this when"


def _texts(n: int, rng: np.random.Generator) -> tuple["pd.Series[str]", Ints]:
    """Short texts with three to five words of their topic among common ones, now and then one of another topic."""
    y = rng.integers(0, len(TOPICS), n)
    own, common = (np.array([words.split() for words in group]) for group in (TOPICS.values(), [COMMON]))
    texts = []
    for topic in y:
        topical = own[topic][rng.permutation(own.shape[1])[: rng.integers(3, 6)]]
        other = own[(topic + rng.integers(1, len(own))) % len(own)][rng.integers(0, own.shape[1], rng.integers(0, 2))]
        words = np.concatenate([topical, other, rng.choice(common[0], rng.integers(5, 10))])
        texts.append(" ".join(words[rng.permutation(len(words))]))
    return pd.Series(texts), y


def _text_dataset(
    name: str,
    frame: pd.DataFrame,
    pi: dict[str, str],
    texts: "pd.Series[str]",
    y: Ints,
    n_train: int,
    classes: list[str],
    about: dict[str, Any],
) -> NoisyDataset:
    """A dataset on features of its texts, as the command line makes them; the texts are in `about`."""
    x = load_inputs(pd.DataFrame({"text": texts[:n_train]}), text="text")
    others = pd.DataFrame({"text": texts[n_train:].reset_index(drop=True)})
    x_test = load_inputs(others, schema=x.schema, tensors=x.tensors)
    return NoisyDataset(name, frame, pi, x, x_test, y[n_train:], classes, about | {"texts": texts[:n_train].tolist()})


def _after_variant(topic: Ints) -> Ints:
    """Classes where the first topic has two: "Account" is 0, "account" 1."""
    return np.where(topic == 0, 0, topic + 1)


def _digits() -> tuple[NDArray[np.float32], Ints]:
    x, y, _ = _bundled("load_digits")
    return x, y


def _digit_names() -> list[str]:
    return [str(digit) for digit in range(10)]


def _bundled(loader: str) -> tuple[NDArray[np.float32], Ints, list[str]]:
    """A dataset that comes with scikit-learn: inputs, clean labels, names of the classes."""
    import sklearn.datasets

    found = getattr(sklearn.datasets, loader)()
    return found.data.astype(np.float32), found.target.astype(np.int64), [str(name) for name in found.target_names]


# --- answers ---


def _ask(n_items: int, n_annotators: int, answers: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Items, each as often as it has answers, and who gives them: different annotators, all about equally often."""
    who = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :answers]
    return np.repeat(np.arange(n_items), answers), who.ravel()


def _mistaken(y: Ints, rate: Floats, n_classes: int, rng: np.random.Generator) -> Ints:
    """Answers of which each is wrong with its rate, any other class being as likely."""
    other = (y + rng.integers(1, n_classes, len(y))) % n_classes
    return np.where(_drawn(rate, rng), other, y)


def _drawn(rate: Floats, rng: np.random.Generator) -> Mask:
    """Rows drawn each with its rate, as many in all as the rates sum up to (up to one).

    Systematic sampling in the order of the rates, and at random among equals: so every group of equal rates has its
    own number of mistakes too.
    """
    order = np.lexsort([rng.random(len(rate)), rate])
    passed = np.floor(np.concatenate([[0.0], rate[order].cumsum()]) + rng.random())
    drawn = np.zeros(len(rate), bool)
    drawn[order] = np.diff(passed) > 0
    return drawn


def _names(n: int) -> NDArray[np.str_]:
    return np.array([f"annotator-{number:0{len(str(n - 1))}d}" for number in range(n)])


def _seconds(wrong: Mask, rng: np.random.Generator, haste: float = 0.7) -> Floats:
    """Log-normal times; wrong answers take exp(-haste) of the time."""
    return np.asarray(np.exp(np.log(8.0) - haste * wrong + rng.normal(0, 0.5, len(wrong))).round(2))


def _frame(item: Ints, label: Ints, y: Ints, **pi: NDArray[Any]) -> pd.DataFrame:
    return pd.DataFrame({"item": item, **pi, "label": label, "y": y})
