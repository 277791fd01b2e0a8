"""Relabel any clean dataset with any classifiers, the way ImageNet-PI was made.

For each item and annotator (a classifier) a temperature is drawn from a Gamma distribution of shape 1 and rate beta,
and a label is drawn from the annotator's probabilities at that temperature:

    T ~ Gamma(1, beta),    label ~ softmax(log p / T)

A small beta means high temperatures, hence many wrong labels. What is known about each label, its privileged
information, is the annotator, the probability the annotator itself gave to the label it ended up with (its
confidence, at temperature 1), and the annotator's accuracy and size.

Ortiz-Jimenez et al., "When does privileged information explain away label noise?", ICML 2023.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...errors import UsageError

Probabilities = NDArray[Any] | Sequence[NDArray[Any]]  # (A, N, K), or A matrices (N, K) such as memory maps

TINY = 1e-6  # smallest probability: a tree's 0 would stay 0 at any temperature
BLOCK = 1 << 22  # numbers worked on at a time


def sample_annotations(
    probs: Probabilities,
    y: ArrayLike,
    *,
    rate: float,
    answers_per_item: int | None = 1,
    items: ArrayLike | None = None,
    annotators: Sequence[str] | None = None,
    accuracies: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Labels drawn from the annotators' probabilities at Gamma-distributed temperatures.

    `probs` (A, N, K) (N, K): probability of each class according to each annotator.
    `y` (N,): clean labels, 0 to K-1.
    `rate`: rate beta of the temperature distribution; ImageNet-PI has 0.5 (low noise) and 0.1 (high noise).
    `answers_per_item`: how many annotators, drawn uniformly without replacement, label each item; None: all of them.
    `items` (N,): names of the items; 0 to N-1 when left out.
    `annotators`: names of the annotators; "annotator-00" and so on when left out.
    `accuracies`, `sizes` (A,): what is known about each annotator: accuracy (by default that of its most probable class
        against `y`) and size, usually the logarithm of its number of parameters (by default the column is left out).
    `seed`: the same seed gives the same labels.
    Returned: one row per annotation, ordered by item: item, annotator, label, confidence in [0, 1] (high: the annotator
        believes its label), annotator_accuracy, annotator_size, y.
    """
    y = _checked(probs, y, rate)
    n_annotators, n_items = len(probs), len(y)
    names = annotator_names(n_annotators, annotators)
    accuracies = accuracy(probs, y) if accuracies is None else np.asarray(accuracies, np.float64)
    asked = choose_annotators(n_items, n_annotators, answers_per_item, np.random.default_rng([seed, 0]))
    label, confidence = np.zeros(asked.shape, np.int64), np.zeros(asked.shape, np.float32)
    for a in range(n_annotators):
        rng = np.random.default_rng([seed, 1, a])
        temperature = rng.gamma(1.0, 1.0 / rate, n_items)  # those of calibrate_rate
        rows, columns = np.nonzero(asked == a)
        for some in _blocks(len(rows), probs[a].shape[1]):
            row, column = rows[some], columns[some]
            p = np.asarray(probs[a][row], np.float64)
            label[row, column] = _draw(p, temperature[row], rng)
            confidence[row, column] = p[np.arange(len(p)), label[row, column]]
    item = np.arange(n_items) if items is None else np.asarray(items)
    frame = annotation_frame(
        item, names, asked, label, confidence, accuracies, None if sizes is None else np.asarray(sizes)
    )
    return frame.assign(y=np.repeat(y, asked.shape[1]))


def expected_noise(probs: Probabilities, y: ArrayLike, *, rate: float, seed: int = 0) -> float:
    """Share of wrong labels to expect at this rate, over all annotators and items, for one draw of temperatures."""
    y = _checked(probs, y, rate)
    right = 0.0
    for a, p in enumerate(probs):
        temperature = np.random.default_rng([seed, 1, a]).gamma(1.0, 1.0, len(y)) / rate
        for some in _blocks(len(y), p.shape[1]):
            weight = np.exp(_tempered(np.asarray(p[some], np.float64), temperature[some]))
            right += float((weight[np.arange(len(weight)), y[some]] / weight.sum(axis=1)).sum())
    return 1.0 - right / (len(y) * len(probs))


def calibrate_rate(probs: Probabilities, y: ArrayLike, noise: float, *, seed: int = 0) -> float:
    """Return the rate beta at which a share `noise` of the labels is expected to be wrong.

    `probs`, `y`: as for `sample_annotations`.
    `noise`: wanted noise rate; it must lie above the annotators' own error rate and below that of guessing, 1 - 1/K.
    `seed`: seed of the temperatures.
    """
    low, high = math.log(1e-4), math.log(1e4)  # noise falls as the rate grows
    most, least = (expected_noise(probs, y, rate=math.exp(bound), seed=seed) for bound in (low, high))
    if not least < noise < most:
        raise UsageError(
            f"these annotators can give a noise rate between {least:.3f} (their own mistakes) and {most:.3f} "
            f"(guessing), not {noise:g}; choose a rate between the two or other annotators"
        )
    while high - low > 1e-4:
        middle = (low + high) / 2
        if expected_noise(probs, y, rate=math.exp(middle), seed=seed) > noise:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def relabel(
    X: ArrayLike,
    y: ArrayLike,
    annotators: Sequence[Any] | Mapping[str, Any],
    *,
    noise: float | None = None,
    rate: float | None = None,
    answers_per_item: int | None = 1,
    items: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Relabel a clean dataset with fitted classifiers.

    `X`: inputs, handed to each classifier's `predict_proba`.
    `y` (N,): clean labels: integers or strings.
    `annotators`: anything with `predict_proba` and `classes_`; a mapping gives their names.
    `noise`, `rate`: exactly one of them: the wanted share of wrong labels, or the rate beta of the temperatures.
    `answers_per_item`, `items`, `seed`: as for `sample_annotations`.
    `sizes` (A,): size of each annotator; by default the natural logarithm of `count_parameters`.
    Returned: as `sample_annotations`, with labels and y as they are written in `y`.
    """
    if (noise is None) == (rate is None):
        raise UsageError("relabel needs exactly one of noise= (wanted share of wrong labels) and rate= (beta)")
    if not annotators:
        raise UsageError("relabel needs at least one annotator: a fitted classifier with predict_proba")
    if isinstance(annotators, Mapping):
        names, models = [str(name) for name in annotators], list(annotators.values())
    else:
        names, models = [f"annotator-{a:02d}" for a in range(len(annotators))], list(annotators)
    y = np.asarray(y)
    classes = np.unique(np.concatenate([np.unique(y), *(np.asarray(model.classes_) for model in models)]))
    probs = np.stack([_probabilities(model, X, classes) for model in models])
    codes = np.searchsorted(classes, y)
    if sizes is None:
        sizes = np.log([max(1, count_parameters(model)) for model in models])
    beta = calibrate_rate(probs, codes, noise, seed=seed) if rate is None else rate  # type: ignore[arg-type]  # one of the two is given: checked above
    frame = sample_annotations(
        probs,
        codes,
        rate=beta,
        answers_per_item=answers_per_item,
        items=items,
        annotators=names,
        sizes=sizes,
        seed=seed,
    )
    return frame.assign(label=classes[frame["label"]], y=classes[frame["y"]])


def accuracy(probs: Probabilities, y: ArrayLike) -> NDArray[np.float64]:
    """Share of items whose most probable class is right, per annotator."""
    return np.asarray([float(np.mean(np.argmax(p, axis=1) == np.asarray(y))) for p in probs])


def count_parameters(model: Any) -> int:
    """Count the fitted numbers in a scikit-learn estimator: floats in its learned attributes, nodes of its trees."""
    if isinstance(model, np.ndarray):
        if model.dtype == object:
            return sum(count_parameters(part) for part in model.reshape(-1))
        return int(model.size) if model.dtype.kind == "f" else 0
    if isinstance(model, list | tuple):
        return sum(count_parameters(part) for part in model)
    if hasattr(model, "node_count"):
        return int(model.node_count)
    if hasattr(model, "steps"):
        return count_parameters([step for _, step in model.steps])
    learned = [value for name, value in vars(model).items() if name.endswith("_")] if hasattr(model, "__dict__") else []
    kept = [
        vars(model)[name] for name in ("_fit_X",) if hasattr(model, name)
    ]  # nearest neighbours keep the data itself
    return count_parameters(learned + kept)


def annotator_names(n_annotators: int, given: Sequence[str] | None) -> list[str]:
    """Names of the annotators: the given ones, else annotator-00 and so on."""
    names = [f"annotator-{a:02d}" for a in range(n_annotators)] if given is None else list(given)
    if len(names) != n_annotators:
        raise UsageError(f"there are {n_annotators} annotators, but {len(names)} names were given")
    return names


def annotation_frame(
    items: NDArray[Any],
    names: Sequence[str],
    asked: NDArray[np.int64],
    label: NDArray[np.int64],
    confidence: NDArray[np.float32],
    accuracies: NDArray[np.float64],
    sizes: NDArray[np.float64] | None,
) -> pd.DataFrame:
    """Arrays of shape (N, answers) as one row per annotation."""
    who = asked.reshape(-1)
    columns = {
        "item": np.repeat(items, asked.shape[1]),
        "annotator": pd.Categorical.from_codes(who, pd.Index(names)),
        "label": label.reshape(-1),
        "confidence": confidence.reshape(-1),
        "annotator_accuracy": accuracies[who],
    }
    return pd.DataFrame(columns if sizes is None else columns | {"annotator_size": sizes[who]})


def choose_annotators(
    n_items: int, n_annotators: int, answers: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Which annotators label each item, in ascending order: an (N, answers) array."""
    if answers is None:
        return np.tile(np.arange(n_annotators), (n_items, 1))
    if not 1 <= answers <= n_annotators:
        raise UsageError(
            f"answers_per_item must be between 1 and the number of annotators {n_annotators}, not {answers}"
        )
    if answers == 1:
        return rng.integers(0, n_annotators, (n_items, 1))
    return np.sort(rng.permuted(np.tile(np.arange(n_annotators), (n_items, 1)), axis=1)[:, :answers], axis=1)


def _checked(probs: Probabilities, y: ArrayLike, rate: float) -> NDArray[np.int64]:
    """`y` as an array, after checking that sizes and values fit."""
    y = np.asarray(y)
    if len(probs) == 0:
        raise UsageError("there is no annotator to draw labels from: probs is empty")
    shapes = sorted({np.shape(p) for p in probs})
    if len(shapes) > 1 or len(shapes[0]) != 2 or y.shape != shapes[0][:1]:
        raise UsageError(f"probs must hold one (N, K) matrix per annotator for N = {len(y)} labels, not {shapes}")
    if not rate > 0:
        raise UsageError(f"the rate of the temperature distribution must be above 0, not {rate}")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= shapes[0][1]:
        raise UsageError(f"y must hold integers from 0 to {shapes[0][1] - 1}, the columns of probs")
    return y.astype(np.int64)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows of about BLOCK numbers each."""
    step = max(1, BLOCK // n_columns)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _tempered(p: NDArray[np.float64], temperature: NDArray[np.float64]) -> NDArray[np.float64]:
    """log p / T, up to a constant per row; 0 for the most probable class."""
    log_p = np.log(np.maximum(p, TINY))
    log_p -= log_p.max(axis=1, keepdims=True)
    return log_p / np.maximum(temperature, TINY)[:, None]


def _draw(p: NDArray[np.float64], temperature: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One class per row, from p at the row's temperature (the Gumbel-max trick)."""
    return cast(NDArray[np.int64], np.argmax(_tempered(p, temperature) + rng.gumbel(size=p.shape), axis=1))


def _probabilities(model: Any, X: ArrayLike, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the model's probabilities with one column per class of `classes`; 0 for a class it does not know."""
    known = np.asarray(model.predict_proba(X), np.float64)
    full = np.zeros((len(known), len(classes)))
    full[:, np.searchsorted(classes, np.asarray(model.classes_))] = known
    return full
