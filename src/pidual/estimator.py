"""PiDualClassifier: scikit-learn's contract over the engine and detection."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)
from torch import nn

from .batch import Rows
from .engine import make_fabric
from .engine.predict import predict_probabilities
from .errors import DataError, UsageError
from .inputs import Inputs
from .run import FitOptions, assess, prepare, train
from .table import AnnotationTable


class PiDualClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier for labels that cannot be fully trusted.

    Parameters
    ----------
    method : str, default="pi_dual"
        Any method of `pidual methods`.
    setting : {"default", "paper"}, default="default"
        Where options that are not given come from.
    module : nn.Module or callable, default=None
        Prediction network: x of shape (B, ...) to logits of shape (B, n_classes). A module is copied, and its weights
        are the starting point; a callable is called without arguments. X reaches it as float32 (uint8 stays uint8),
        not standardised. By default an MLP for vectors, a small CNN for images (N, C, H, W), on standardised inputs.
    epochs, batch_size, lr : optional
        The training options asked for most often.
    training, method_options, network_options : mapping, optional
        Any further options of `pidual.Training`, of the method, and of the network.
    pi_kinds : mapping, optional
        Kind of PI columns that should not be guessed: "category", "number" or "duration".
    validation_fraction : float, default=0.1
        Share of the items held out to choose the epoch and to watch over the fit. Rows with equal X are one item.
    accelerator : str, default="auto"
        A Lightning Fabric accelerator.
    random_state : int, RandomState instance or None, default=None
        Of everything random.

    Attributes
    ----------
    classes_ : array
        Class labels.
    n_features_in_ : int
        Features of X.
    feature_names_in_ : array
        Their names, where X had names.
    label_issues_ : DataFrame
        What `find_label_issues` returns.
    annotators_ : DataFrame or None
        One row per annotator, where `pi` has a column "annotator".
    history_ : list of dict
        One record per epoch.
    summary_ : dict
        Noise estimate, selected epoch, what the guard did.

    Examples
    --------
    >>> from pidual import PiDualClassifier
    >>> from pidual.datasets.synthetic import make_crowd
    >>> crowd = make_crowd(seed=0)
    >>> X, y = crowd.x[crowd.frame["item"]], crowd.frame["label"]
    >>> model = PiDualClassifier(random_state=0, epochs=5).fit(X, y, pi=crowd.frame[["annotator", "seconds"]])
    >>> list(model.find_label_issues().columns[:4])
    ['is_label_issue', 'label_quality', 'given_label', 'predicted_label']
    """

    def __init__(
        self,
        method: str = "pi_dual",
        *,
        setting: str = "default",
        module: nn.Module | Callable[[], nn.Module] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        training: Mapping[str, Any] | None = None,
        method_options: Mapping[str, Any] | None = None,
        network_options: Mapping[str, Any] | None = None,
        pi_kinds: Mapping[str, str] | None = None,
        validation_fraction: float = 0.1,
        accelerator: str = "auto",
        random_state: Any = None,
    ):
        self.method = method
        self.setting = setting
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.training = training
        self.method_options = method_options
        self.network_options = network_options
        self.pi_kinds = pi_kinds
        self.validation_fraction = validation_fraction
        self.accelerator = accelerator
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, pi: Any = None, sample_weight: ArrayLike | None = None) -> "PiDualClassifier":
        """Learn from noisy labels.

        Parameters
        ----------
        X : array or DataFrame of shape (N, D), or array (N, C, H, W)
            Inputs, one row per annotation.
        y : array (N,)
            Given labels.
        pi : DataFrame, mapping of columns, or array (N,) or (N, P), optional
            Privileged information: what is known of how each label was made. A single column without a name is taken
            as the annotator.
        sample_weight : array (N,), optional
            Weight of every row.
        """
        X, y = validate_data(self, X, y, allow_nd=True, dtype="numeric", ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y has one class only ({self.classes_[0]!r}); a classifier needs at least 2 classes.")
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
            weight = weight / weight.mean()
        x = as_input(X)
        table = make_table(x, codes, pi)
        job = prepare(table, Inputs(x, None, "array", {}, {}), self._options(), module=self._maker(), sample_weight=weight)
        fabric = make_fabric(self.accelerator, job.training.precision)
        fitted = train(job, fabric=fabric)
        results = assess(job, fitted, fabric)
        self.method_ = fitted.method.cpu()
        self.history_ = fitted.history
        self.summary_ = results.summary
        self.label_issues_ = self._issues(results.predictions.frame)
        self.annotators_ = results.annotators
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities (N, n_classes), columns in the order of `classes_`; no PI is needed."""
        check_is_fitted(self)
        x = as_input(validate_data(self, X, reset=False, allow_nd=True, dtype="numeric"))
        rows = Rows.build(x, np.arange(len(x)), np.zeros(len(x), np.int64))
        fabric = make_fabric(self.accelerator)
        p = np.concatenate(list(predict_probabilities(fabric.to_device(self.method_), rows, fabric))).astype(np.float64)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predicted labels (N,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def find_label_issues(self) -> pd.DataFrame:
        """What the fit says of its training labels, one row per training row, in order.

        Returns
        -------
        DataFrame
            is_label_issue (bool), label_quality (in [0, 1], low = likely wrong), given_label, predicted_label, and what
            the method adds, such as gate (in [0, 1], high = likely wrong).
        """
        check_is_fitted(self)
        return self.label_issues_.copy()

    def _issues(self, frame: pd.DataFrame) -> pd.DataFrame:
        issues = frame[["is_label_issue", "label_quality"]].copy()
        for name in ("given_label", "predicted_label", "noise_label"):
            if name in frame:
                issues[name] = self.classes_[frame[name].cat.codes.to_numpy()]
        extra = [name for name in ("predicted_probability", "gate", "reason") if name in frame]
        return issues.join(frame[extra])

    def _options(self) -> FitOptions:
        asked = {"epochs": self.epochs, "batch_size": self.batch_size, "lr": self.lr}
        return FitOptions(
            method=self.method,
            setting=self.setting,
            method_options=self.method_options or {},
            training=dict(self.training or {}) | {name: value for name, value in asked.items() if value is not None},
            network_options=self.network_options or {},
            valid_fraction=self.validation_fraction,
            pi_kinds=self.pi_kinds or {},
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            accelerator=self.accelerator,
        )

    def _maker(self) -> Callable[[], nn.Module] | None:
        """A function that makes the user's network, and checks what it answers."""
        if self.module is None:
            return None
        module, n_classes = self.module, len(self.classes_)

        def make() -> nn.Module:
            made = copy.deepcopy(module) if isinstance(module, nn.Module) else module()
            return CheckedNetwork(made, n_classes)

        return make


class CheckedNetwork(nn.Module):
    """A user's network, with an error that says what is wrong when its answer has the wrong shape."""

    def __init__(self, network: nn.Module, n_classes: int):
        super().__init__()
        self.network, self.n_classes = network, n_classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(x)
        if logits.shape != (len(x), self.n_classes):
            raise UsageError(
                f"The module answers with shape {tuple(logits.shape)} to {len(x)} inputs; it must give one logit for each "
                f"of the {self.n_classes} classes, shape {(len(x), self.n_classes)}."
            )
        return logits


def as_input(X: NDArray[Any]) -> NDArray[Any]:
    """X as the networks take it: uint8 as it is, everything else as float32."""
    x = X if X.dtype == np.uint8 else X.astype(np.float32, copy=False)
    if x.dtype != np.uint8 and not np.isfinite(x).all():
        raise DataError("X has values too large for float32 or infinity; scale it first.")
    return np.ascontiguousarray(x) if x.flags.writeable else x.copy()


def make_table(x: NDArray[Any], codes: NDArray[np.integer[Any]], pi: Any) -> AnnotationTable:
    """An annotation table of arrays; rows with equal inputs are annotations of one item."""
    n = len(x)
    flat = np.ascontiguousarray(x.reshape(n, -1))
    _, items = np.unique(flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1])))[:, 0], return_inverse=True)
    frame = pd.DataFrame({"item": pd.Categorical.from_codes(items, pd.RangeIndex(items.max() + 1))})
    frame["label"] = pd.Categorical.from_codes(codes, pd.RangeIndex(codes.max() + 1))
    columns = pi_frame(pi, n)
    for name in columns:
        frame[name] = columns[name].astype("str").astype("category") if name == "annotator" else columns[name]
    return AnnotationTable(frame, "pi", list(columns))


def pi_frame(pi: Any, n: int) -> pd.DataFrame:
    """Privileged information as a frame with names that do not clash with the table's own."""
    if pi is None:
        return pd.DataFrame(index=range(n))
    if isinstance(pi, pd.Series):
        frame = pi.to_frame(pi.name if pi.name is not None else "annotator")
    elif isinstance(pi, pd.DataFrame | Mapping):
        frame = pd.DataFrame(pi)
    else:
        array = np.asarray(pi)
        if array.ndim == 1:
            frame = pd.DataFrame({"annotator": array})
        elif array.ndim == 2:
            frame = pd.DataFrame({f"pi_{j}": array[:, j] for j in range(array.shape[1])})
        else:
            raise UsageError(f"pi must have one or two dimensions, not {array.ndim}.")
    check_consistent_length(frame, range(n))
    reserved = {"item", "label", "y", "split"}
    names = ["annotator" if name == "worker" else str(name) for name in frame.columns]
    frame = frame.set_axis([f"pi_{name}" if name in reserved else name for name in names], axis=1)
    if frame.columns.has_duplicates:
        raise UsageError(f"pi has the column '{frame.columns[frame.columns.duplicated()][0]}' twice.")
    return frame.reset_index(drop=True)
