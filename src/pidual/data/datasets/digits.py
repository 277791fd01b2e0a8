"""Digits-PI: scikit-learn's handwritten digits, relabelled by 16 classifiers the way ImageNet-PI was made.

Small enough for a laptop, with wrong labels that are known and privileged information that explains most of them: who
labelled an image, how much that annotator believed its own label, and how good and how large it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .base import NoisyDataset
from .relabel import relabel

NOISE = {"low": 0.44, "high": 0.72}
PI = {"annotator": "category", "confidence": "number", "annotator_accuracy": "number", "annotator_size": "number"}


@dataclass(frozen=True, eq=False, repr=False)
class DigitsPI(NoisyDataset):
    """The digits with noisy labels, and a clean test set no annotator has seen; pixels are numbers from 0 to 16."""

    x: NDArray[np.float32]
    x_test: NDArray[np.float32]

    def fingerprint(self) -> str:
        """As of other datasets, except for the annotators' own numbers, which differ a little between processors."""
        exact = NoisyDataset(**vars(self) | {"frame": self.frame[["item", "label", "y", "annotator"]]})
        return exact.fingerprint()

    @property
    def images(self) -> NDArray[np.uint8]:
        """`x` as images of shape (N, 1, 8, 8)."""
        return (self.x.reshape(-1, 1, 8, 8) * (255 / 16)).round().astype(np.uint8)  # grey, from 0 to 255


def load_digits_pi(
    noise: Literal["low", "high"] | float = "low", *, answers_per_item: int | None = 1, seed: int = 0
) -> DigitsPI:
    """Relabel scikit-learn's digits.

    `noise` ({"low", "high"} or float): share of wrong labels: "low" is 44%, "high" is 72%; the outcome differs by
        sampling, about a point.
    `answers_per_item`: how many of the 16 annotators label each image; None: all.
    `seed`: seed of the labels. The split into training and test images and the annotators are always the same.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    rate = _noise_rate(noise)
    digits = load_digits()
    x, x_test, y, y_test = train_test_split(
        digits.data.astype(np.float32), digits.target, test_size=0.3, stratify=digits.target, random_state=0
    )
    frame = relabel(x, y, _fit_annotators(x, y), noise=rate, answers_per_item=answers_per_item, seed=seed)
    names = [str(name) for name in digits.target_names]
    return DigitsPI(f"digits_pi:{noise}", frame, PI, x, x_test, y_test, names)


def load_noise_level(data: Path, noise: Literal["low", "high"], *, seed: int = 0, **options: Any) -> DigitsPI:
    """Digits-PI as `load_dataset` asks for it; it needs no files in `data`."""
    return load_digits_pi(noise, seed=seed, **options)


def _fit_annotators(x: NDArray[np.float32], y: NDArray[np.int64]) -> dict[str, Any]:
    """Fit the 16 annotators: classifiers of several kinds, held back by few pixels, few images or little capacity."""
    from sklearn.base import clone

    fitted = {}
    for number, (name, (model, n_images)) in enumerate(_annotators().items()):
        rows = np.random.default_rng([16, number]).permutation(len(x))[:n_images]
        fitted[name] = clone(model).fit(x[rows], y[rows])
    return fitted


def _noise_rate(noise: str | float) -> float:
    """Return the wanted share of wrong labels as a number."""
    if isinstance(noise, str):
        if noise not in NOISE:
            raise UsageError(f"noise is 'low', 'high' or a number between 0 and 0.9, not {noise!r}")
        return NOISE[noise]
    return float(noise)


def _annotators() -> Mapping[str, tuple[Any, int | None]]:
    """Unfitted annotators and the number of images each may learn from (None: all)."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier

    logistic = LogisticRegression(max_iter=300)
    return {
        "logistic": (_scaled(logistic), None),
        "logistic-simple": (_scaled(LogisticRegression(C=0.02, max_iter=300)), None),
        "logistic-100": (_scaled(logistic), 100),
        "logistic-200": (_scaled(logistic), 200),
        "logistic-400": (_scaled(logistic), 400),
        "logistic-16px": (_scaled(logistic, pixels=16), None),
        "logistic-24px": (_scaled(logistic, pixels=24), None),
        "logistic-top": (_scaled(logistic, pixels=range(32)), None),
        "lda": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2), None),
        "lda-100": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5), 100),
        "qda": (QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.5), None),
        "bayes": (GaussianNB(var_smoothing=0.1), None),
        "bayes-counts": (MultinomialNB(), 300),
        "forest": (RandomForestClassifier(30, max_depth=12, random_state=0), None),
        "extra-trees": (ExtraTreesClassifier(50, random_state=1), 600),
        "neighbours": (KNeighborsClassifier(10, weights="distance"), 300),
    }


def _scaled(model: Any, pixels: Any = None) -> Any:
    """Return a pipeline that standardises (a random number, or a range, of) the pixels first."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if pixels is None:
        return make_pipeline(StandardScaler(), model)
    chosen = np.random.default_rng(pixels).permutation(64)[:pixels] if isinstance(pixels, int) else np.asarray(pixels)
    return make_pipeline(ColumnTransformer([("pixels", StandardScaler(), chosen)]), model)
