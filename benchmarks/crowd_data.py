"""The crowds of benchmarks/crowds.py: real ones with the features all methods get, and synthetic ones.

    CROWDS["labelme"](seed) -> NoisyDataset with vectors as x

Features are made here, without labels, from the items trained on alone: of images the principal components of
oriented gradients, colours and learned patches, of texts those of TF-IDF. Crowds whose names end in `:embedded` have
vectors of pretrained models instead, as `pidual fit --embed` does: images those of EfficientNet-lite0 at 96 pixels,
texts those of MiniLM, one for each view, beside the ones of TF-IDF.
"""

import dataclasses
from functools import cache, partial

import numpy as np
import pandas as pd
from common import crowd, data_folder
from stress import draw_crowd

from pidual.data import Inputs
from pidual.data.datasets import crowds as crowd_files
from pidual.data.datasets import load_dataset
from pidual.data.datasets.base import NoisyDataset
from pidual.data.picture_features import PictureFeatures

TEXT_FEATURES = 128


# --- real crowds ---


def labelme(seed):
    """LabelMe on its pooled VGG features; the same for every seed."""
    return load_labelme()


@cache
def load_labelme():
    return load_dataset("labelme", data_folder())


def images(name, seed, embedded=False):
    """CIFAR-10S or CIFAR-100 SM500 on vectors of its images; the same for every seed."""
    return load_images(name, embedded)


@cache
def load_images(name, embedded):
    data = load_dataset(name, data_folder())
    x, x_test = (embedded_images if embedded else image_vectors)(data.x, data.x_test)
    return dataclasses.replace(data, x=x, x_test=x_test)


def medical_treat(seed, embedded=False):
    """Medical relations: the sentence, the words between its two terms, and the terms themselves."""
    data = load_dataset("medical_treat", data_folder(), seed=seed)
    texts = read_texts(crowd_files.MEDICAL)
    return with_texts(data, texts.apply(lambda row: relation_views(*row), axis=1), embedded)


def llm_emotion(seed, embedded=False):
    """Emotions: words and word pairs, and pieces of words."""
    data = load_dataset("llm_emotion", data_folder(), seed=seed)
    texts = read_texts(crowd_files.EMOTION)["text"]
    return with_texts(data, texts.map(lambda text: (text,)), embedded)


def read_texts(crowd):
    """Texts by item."""
    return crowd_files.read_texts(data_folder(), crowd)


def digits(level, answers, seed):
    """Digits-PI with one or more of the 16 annotators an image."""
    return load_dataset(f"digits_pi:{level}", data_folder(), seed=seed, answers_per_item=answers)


def stress(seed):
    """A crowd of benchmarks/stress.py."""
    return crowd(**draw_crowd(seed))


def relation_views(sentence, first, second):
    """A sentence with its terms replaced by names, the words between the two, and the terms."""
    named = sentence
    for term, name in sorted([(first, "termone"), (second, "termtwo")], key=lambda pair: -len(pair[0])):
        named = named.replace(term, f" {name} ")  # the longer one first, which may hold the other
    places = sorted((named.find(name), len(name)) for name in ("termone", "termtwo"))
    between = named[places[0][0] + places[0][1] : places[1][0]] if places[0][0] >= 0 else ""
    order = "onefirst" if named.find("termone") <= named.find("termtwo") else "twofirst"
    return named, f"{order} {between}", f"{first} {second}"


def with_texts(data, views, embedded=False):
    """The same data on vectors of views of its texts: each view TF-IDF of words and pairs; the first of pieces too."""
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    parts = {name: views[data.about[name]].tolist() for name in ("items", "test_items")}
    made = {name: [] for name in parts}
    for number in range(len(parts["items"][0])):
        kinds = [{"ngram_range": (1, 2)}] + ([{"analyzer": "char_wb", "ngram_range": (3, 5)}] if number == 0 else [])
        for kind in kinds:
            vectoriser = TfidfVectorizer(min_df=2, sublinear_tf=True, **kind)
            fitted = vectoriser.fit_transform([texts[number] for texts in parts["items"]])
            made["items"].append(fitted)
            made["test_items"].append(vectoriser.transform([texts[number] for texts in parts["test_items"]]))
    train, test = (hstack(made[name]).tocsr() for name in parts)
    svd = TruncatedSVD(min(TEXT_FEATURES, *(size - 1 for size in train.shape)), random_state=0).fit(train)
    x, x_test = (svd.transform(part).astype(np.float32) for part in (train, test))
    if embedded:
        x, x_test = beside(x, x_test, *(embedded_texts(parts[name]) for name in parts))
    return dataclasses.replace(data, x=as_text(x, data.name), x_test=as_text(x_test, data.name))


def as_text(x, name):
    """Vectors of text, of which all directions are scaled alike: they come in the order of their importance."""
    return Inputs.from_array(x, kind="text", source=name)


def image_vectors(x, x_test):
    """Vectors of images, learned from `x`."""
    features = PictureFeatures.fit(x)
    return tuple(as_text(features(part), "images") for part in (x, x_test))


# --- vectors of pretrained models ---


def embedded_images(x, x_test):
    """Vectors of images by EfficientNet."""
    from embedded import efficientnet

    return tuple(Inputs.from_array(efficientnet(part), source="images") for part in (x, x_test))


def embedded_texts(views):
    """Vectors of texts by MiniLM, of several views side by side."""
    from embedded import minilm

    return np.concatenate([minilm(texts) for texts in zip(*views, strict=True)], axis=1)


def beside(x, x_test, vectors, vectors_test):
    """Vectors beside others, with as much variance in sum, as `pidual fit --embed` has them beside TF-IDF."""
    scale = np.sqrt(x.var(0).sum() / vectors.var(0).sum())
    return np.concatenate([x, vectors * scale], axis=1), np.concatenate([x_test, vectors_test * scale], axis=1)


# --- synthetic crowds ---


def make_synthetic(
    n_items,
    answers,
    *,
    n_annotators=40,
    n_classes=5,
    n_features=20,
    noise=0.3,
    confusions=0.0,
    spammers=0.0,
    adversaries=0.0,
    shared=0.0,
    separation=2.0,
    n_test=2000,
    seed=0,
):
    """A crowd by its answer model.

    n_items, answers   each item has `answers` different annotators
    noise              mean share of wrong answers of an honest annotator on items that do not mislead
    confusions         from 0, wrong answers are spread evenly, to 1, a class is taken for another one by habit: half of
                       the habits are everybody's, half the annotator's own, and some classes are harder than others
    spammers           share of the annotators who answer without looking: one half at random, one half always the same
    adversaries        share of the annotators who know the answer and give the next class
    shared             share of the items that mislead: 70% of the honest answers to one are the same wrong class
    separation         half the typical distance of two centres: with 5 classes the best possible classifier is right
                       about 71% of the items at 1.5, 85% at 2, 94% at 2.5 and 98% at 3
    """
    rng = np.random.default_rng([17, seed])
    centres = rng.normal(size=(n_classes, 2, n_features)) * separation * np.sqrt(2 / n_features)
    x, y = draw_items(n_items, centres, rng)
    x_test, y_test = draw_items(n_test, centres, rng)
    matrices, kind = answer_models(n_annotators, n_classes, noise, confusions, spammers, adversaries, rng)
    who = (
        np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :answers].ravel()
        if n_annotators <= 500
        else (np.stack([rng.choice(n_annotators, answers, replace=False) for _ in range(n_items)]).ravel())
    )
    item = np.repeat(np.arange(n_items), answers)
    label = (rng.random((len(item), 1)) > matrices[who, y[item]].cumsum(1)).sum(1).clip(max=n_classes - 1)
    misled = rng.random(n_items) < shared
    decoy = (y + rng.integers(1, n_classes, n_items)) % n_classes
    follows = misled[item] & (kind[who] == "honest") & (rng.random(len(item)) < 0.7)
    label = np.where(follows, decoy[item], label)
    wrong = label != y[item]
    pace = np.log(8.0) + rng.normal(0, 0.3, n_annotators) - 1.0 * (kind == "spammer")
    seconds = np.exp(pace[who] - 0.5 * (wrong & (kind[who] == "honest")) + rng.normal(0, 0.5, len(item))).round(2)
    names = np.asarray([f"worker-{number:04d}" for number in range(n_annotators)])
    frame = pd.DataFrame({"item": item, "annotator": names[who], "seconds": seconds, "label": label, "y": y[item]})
    pi = {"annotator": "category", "seconds": "duration"}
    about = {"misled": misled, "kind": dict(zip(names, kind, strict=True))}
    return NoisyDataset("synthetic", frame, pi, x, x_test, y_test, [str(k) for k in range(n_classes)], about)


def draw_items(n, centres, rng):
    """Points around two centres a class, with their classes, every class equally often (up to one)."""
    y = rng.permutation(np.arange(n) % len(centres))
    x = rng.standard_normal((n, centres.shape[2])) + centres[y, rng.integers(0, 2, n)]
    return x.astype(np.float32), y


def answer_models(n_annotators, n_classes, noise, confusions, spammers, adversaries, rng):
    """P(answer | truth) of every annotator (A, K, K), and what each one is."""
    off = 1 - np.eye(n_classes)

    def habits(*shape):
        drawn = rng.dirichlet(np.full(n_classes, 0.3), (*shape, n_classes)) * off + 1e-6 * off
        return drawn / drawn.sum(-1, keepdims=True)

    spread = (1 - confusions) * off / (n_classes - 1) + confusions * (0.5 * habits() + 0.5 * habits(n_annotators))
    hard = confusions * rng.normal(0, 0.15, n_classes)
    right = rng.beta(8 * (1 - noise), 8 * noise, n_annotators)[:, None] + hard
    right = right.clip(0.02, 0.98)[..., None]
    matrices = np.eye(n_classes) * right + spread * (1 - right)
    kind = np.full(n_annotators, "honest", dtype=object)
    order = rng.permutation(n_annotators)
    n_spammers, n_adversaries = round(spammers * n_annotators), round(adversaries * n_annotators)
    kind[order[:n_spammers]] = "spammer"
    kind[order[n_spammers : n_spammers + n_adversaries]] = "adversary"
    for number, annotator in enumerate(order[:n_spammers]):
        favourite = np.full(n_classes, 1 / n_classes) if number % 2 else np.eye(n_classes)[rng.integers(n_classes)]
        matrices[annotator] = favourite
    for annotator in order[n_spammers : n_spammers + n_adversaries]:
        matrices[annotator] = 0.8 * np.roll(np.eye(n_classes), 1, axis=1) + 0.2 / n_classes
    return matrices, kind


SYNTHETIC = {
    "plain_3": {"n_items": 1000, "answers": 3},
    "tiny_2": {"n_items": 200, "answers": 2, "n_annotators": 15, "noise": 0.35, "separation": 2.5},
    "tiny_10": {"n_items": 200, "answers": 10, "n_annotators": 25, "noise": 0.45, "confusions": 0.5, "separation": 1.5},
    "confusions_1": {"n_items": 3000, "answers": 1, "n_classes": 6, "confusions": 1.0, "noise": 0.4, "separation": 2.5},
    "confusions_5": {"n_items": 1000, "answers": 5, "n_classes": 6, "confusions": 1.0, "noise": 0.45},
    "spammers_3": {"n_items": 800, "answers": 3, "spammers": 0.4, "noise": 0.25},
    "spammers_binary_5": {
        "n_items": 800,
        "answers": 5,
        "n_classes": 2,
        "spammers": 0.4,
        "noise": 0.25,
        "separation": 1.5,
    },
    "adversaries_5": {"n_items": 800, "answers": 5, "adversaries": 0.2, "noise": 0.25},
    "shared_3": {"n_items": 1000, "answers": 3, "shared": 0.25, "noise": 0.25},
    "shared_10": {"n_items": 500, "answers": 10, "shared": 0.25, "noise": 0.3, "separation": 2.5},
    "all_kinds_4": {
        "n_items": 2000,
        "answers": 4,
        "n_classes": 8,
        "confusions": 0.7,
        "spammers": 0.15,
        "adversaries": 0.05,
        "shared": 0.15,
        "noise": 0.3,
    },
    "many_annotators_3": {"n_items": 4000, "answers": 3, "n_annotators": 2000, "confusions": 0.5, "spammers": 0.2},
    "large_1": {
        "n_items": 20_000,
        "answers": 1,
        "n_annotators": 200,
        "n_classes": 10,
        "confusions": 0.5,
        "spammers": 0.2,
    },
    "large_2": {
        "n_items": 20_000,
        "answers": 2,
        "n_annotators": 200,
        "n_classes": 10,
        "confusions": 0.5,
        "spammers": 0.2,
    },
}


def synthetic(name, seed):
    """A synthetic crowd by its name."""
    return make_synthetic(**SYNTHETIC[name], seed=seed)


# --- by name ---

REAL = {
    "labelme": labelme,
    "cifar10s": partial(images, "cifar10s"),
    "cifar100_sm500": partial(images, "cifar100_sm500"),
    "medical_treat": medical_treat,
    "llm_emotion": llm_emotion,
}
EMBEDDED = {f"{name}:embedded": partial(REAL[name], embedded=True) for name in REAL if name != "labelme"}
DIGITS = {f"digits_{level}_{n}": partial(digits, level, n) for level in ("low", "high") for n in (1, 3)}
GROUPS = {
    "real": list(REAL),
    "embedded": list(EMBEDDED),
    "digits": list(DIGITS),
    "stress": ["stress"],
    "synthetic": list(SYNTHETIC),
}
CROWDS = REAL | EMBEDDED | DIGITS | {"stress": stress} | {name: partial(synthetic, name) for name in SYNTHETIC}
STRESS_CROWDS = 4  # crowds of benchmarks/stress.py for a seed of the others
