"""CrowdClassifier and PiDualClassifier: scikit-learn's contract over the fits and detection."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from ..data import AnnotationTable, Inputs, known_codes
from ..data.in_memory import pi_columns, pi_names, warn_of_order
from ..data.people import refuse_people_as_columns
from ..data.sources.in_arrow import in_pandas
from ..detect.sentences import describe_copies
from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import quoted
from ..fit.fit import check_called, fit_and_predict, train
from ..fit.judge import Results, judge
from ..fit.options import FitOptions
from ..fit.predict import Answers
from ..fit.prepare import Job, NothingToTrainError, prepare
from ..fit.record import describe_model
from ..learn.batch import as_storage
from ..learn.engine import Callback, Fitted, Progress, Session, make_fabric, predicting_fabric
from ..learn.engine.predict import predict_probabilities
from ..options import option_names
from ..run.predictions import Predictions
from ..run.records.summary import Summary
from .any_classifier import fit_any, probabilities
from .checks import (
    as_input,
    check_complete,
    check_network,
    check_two_classes,
    check_weight,
    distinct_rows,
    draw_seed,
    row_index,
)
from .privacy import index_without_ids, make_table, numbered, summary_without_ids
from .run import Run
from .saved import classifier_of_run, load_classifier, made_by, numbered_classes, save_classifier
from .verdict import warn_of_verdict

OPTIONS = {"training__": "", "method__": "", "network__": "network."}  # and how `pidual fit --set` begins them
OPTION_WORDS = "training__, method__ or network__"


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What `CrowdClassifier` and `PiDualClassifier` share; the first one describes it."""

    method, setting = "latent_truth", "default"
    summary_: Summary

    def __init__(
        self,
        *,
        module: nn.Module | Callable[[], nn.Module] | None = None,
        estimator: Any = None,
        network: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        pi_kinds: Mapping[str, str] | None = None,
        validation_fraction: float | None = None,
        keep_ids: bool = False,
        accelerator: str = "auto",
        threads: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
        random_state: Any = None,
        **options: Any,
    ):
        self.module = module
        self.estimator = estimator
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.pi_kinds = pi_kinds
        self.validation_fraction = validation_fraction
        self.keep_ids = keep_ids
        self.accelerator = accelerator
        self.threads = threads
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state
        self._options = options  # `fit` refuses those that do not exist

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name, including options such as `network__width`."""
        return {**super().get_params(deep), **self._options}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and options such as `network__width` whether they had a value or not."""
        self._options = self._options | {name: value for name, value in params.items() if is_option(name)}
        super().set_params(**{name: value for name, value in params.items() if not is_option(name)})
        return self

    def fit(
        self, X: Any, y: ArrayLike, pi: Any = None, sample_weight: ArrayLike | None = None, truth: Any = None
    ) -> Self:
        """Learn from noisy labels.

        Parameters
        ----------
        X : array or DataFrame of shape (N, D), or array (N, C, H, W)
            Inputs, one row per annotation: an item with three labels has three rows. Equal rows count as one item. It
            may be a table of polars, DuckDB or Arrow, and so may y (a column of one) and pi.
            Of shape (N, D), values may be missing (NaN), except with a `module`: the median stands for them, and
            where they were missing is used, too. Then they may be missing in the same columns for prediction.
        y : array (N,)
            Given labels.
        pi : DataFrame, Series, mapping of columns, or array (N,) or (N, P), optional
            Privileged information: what is known about how each label was made; values may be missing, but not those of
            the column "annotator" (or "worker", "annotator_id", ...; else the only one whose name says who gave the
            label, such as "completed_by"). A single column without a name counts as the annotator. Rows are matched by
            position.
        sample_weight : array (N,), optional
            Weight of every row. Rows of weight 0 are not trained on, but are judged like all others.
        truth : array (N,), optional
            The class of the item of each row where it is known (gold), missing elsewhere. From 20 items on it
            corrects all that is stated, by any method: see `summary_.gold`. Only the default learns from it, too.
        """
        X, y, pi, sample_weight, truth = map(in_pandas, (X, y, pi, sample_weight, truth))
        index = row_index(X, y)
        parts = {f"pi[{name!r}]": part for name, part in pi.items()} if isinstance(pi, Mapping) else {"pi": pi}
        warn_of_order({"X": X, "y": y, **parts})
        if not self.keep_ids:
            refuse_people_as_columns("X", getattr(X, "columns", ()))
        check_complete(y)
        X, y = self._validate(X, y, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weight = check_weight(sample_weight, X)
        check_two_classes(codes[weight > 0], self.classes_)
        x, items = distinct_rows(X)
        label = pd.Categorical.from_codes(codes, self.classes_.tolist())
        table = make_table(label, items, pi, weight, self.keep_ids)
        self.in_shape_ = x.shape[1:]
        known = None if truth is None else known_codes(truth, dataclasses.replace(table, source="y"))
        options, rows, machine, note = self._fit_options(table, pi), weight.astype(np.float32), None, ""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):  # the caller's generator stays as it is
            if self.estimator is None:
                job, fitted, answers = self._train(x, table, options, rows, known)
            else:
                self._check_estimator_alone(options)
                machine, job, fitted, answers, note = fit_any(
                    self.estimator,
                    x,
                    table,
                    sample_weight=rows,
                    seed=options.seed,
                    pi_kinds=options.pi_kinds,
                    truth=known,
                )
            assert answers is not None
            self._keep(job, fitted, judge(job, fitted, answers), index)
        if machine is not None:
            self.estimator_ = machine
        self._warn(job, self.summary_.warnings)
        if note:
            self.summary_ = replace(self.summary_, warnings=[*self.summary_.warnings, note])
            warnings.warn(note, DataWarning, stacklevel=2)
        return self

    def _train(
        self,
        x: NDArray[Any],
        table: AnnotationTable,
        options: FitOptions,
        weight: NDArray[np.float32],
        truth: NDArray[np.int64] | None,
    ) -> tuple[Job, Fitted, Answers | None]:
        """Fit a network, or what stands for one."""
        inputs = Inputs.from_array(x, source="X")
        assert isinstance(inputs.array, np.ndarray)
        maker = self._maker(inputs.array[:2])
        try:
            job = prepare(table, inputs, options, module=maker, sample_weight=weight, truth=truth)
        except NothingToTrainError:
            fixed = [name for name in ("epochs", "batch_size", "lr") if getattr(self, name) is not None]
            name, me = [*fixed, *self._options][0], type(self).__name__
            other = "use PiDualClassifier" if me == "CrowdClassifier" else "choose another method"
            raise UsageError(
                f"{me} trains nothing here, so {name} does nothing; leave it out, give network='mlp', or {other}."
            ) from None
        check_called(job, self.callbacks or ())
        fabric = make_fabric(self.accelerator, job.training.precision)
        session = Session(fabric, callbacks=[*(self.callbacks or ()), *self._progress()])
        return job, *fit_and_predict(job, lambda each, _: train(each, session), fabric)

    def _check_estimator_alone(self, options: FitOptions) -> None:
        """Refuse options of a network beside an estimator."""
        of_networks = ("module", "network", "epochs", "batch_size", "lr", "callbacks")
        given = [name for name in of_networks if getattr(self, name) is not None]
        given += [name for name in self._options if name.startswith(("training__", "network__"))]
        if given:
            raise UsageError(f"{given[0]} is for networks, and estimator takes their place; give one.")
        if options.options:
            raise UsageError(
                f"There is no '{next(iter(options.options))}' to set beside an estimator, as nothing else is trained; "
                "leave it out."
            )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities (N, n_classes), columns in the order of `classes_`; no PI is needed."""
        if not hasattr(self, "method_"):
            check_is_fitted(self)
        x = self._plain_rows(X)
        if x is None:
            x = self._validate(X, reset=False)
        if x.shape[1:] != self.in_shape_:
            raise UsageError(f"X has rows of shape {x.shape[1:]}, but the classifier was fitted with {self.in_shape_}.")
        if hasattr(self, "estimator_"):
            return probabilities(self.estimator_, x.reshape(len(x), -1), len(self.classes_))
        if self._model.inputs.missing is not None or np.isnan(x).any():
            x = np.asarray(Inputs.from_array(x, source="X", schema=self._model.inputs.to_json()).array)
        fabric = predicting_fabric(self.accelerator)
        p = np.concatenate(list(predict_probabilities(self.method_, as_storage(x), fabric)))
        if fabric.device.type != "cpu":
            self.method_.cpu()
        return p

    def _validate(self, *arrays: Any, **options: Any) -> Any:
        """Check X (and y) as scikit-learn does and return X as networks take it, with NaN where that is allowed."""
        arrays = tuple(map(in_pandas, arrays))
        found = validate_data(self, *arrays, allow_nd=True, dtype="numeric", ensure_all_finite="allow-nan", **options)
        X, *rest = found if len(arrays) > 1 else (found,)
        x = as_input(X, allow_nan=True)
        if self.module is not None and x.dtype != np.uint8 and np.isnan(x).any():
            raise DataError(
                "X has missing values (NaN), and a module gets X as it is; fill them in, or leave module out."
            )
        return (x, *rest) if rest else x

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.module is None  # our networks are told where it is; an estimator decides
        return tags

    def _plain_rows(self, X: Any) -> NDArray[Any] | None:
        """Return X as networks take it if nothing is wrong with it: scikit-learn's checks take longer than they do."""
        plain = (
            type(X) is np.ndarray and X.dtype in (np.float32, np.float64, np.uint8) and X.shape[1:] == self.in_shape_
        )
        if not plain or not len(X) or hasattr(self, "feature_names_in_") or not np.isfinite(X).all():
            return None
        return as_input(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return predicted labels (N,)."""
        p = self.predict_proba(X)
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def find_label_issues(self) -> pd.DataFrame:
        """Judge the training labels: one row per training row, in order.

        Returns
        -------
        DataFrame
            is_label_issue (bool), label_quality (in [0, 1], low = likely wrong), given_label, predicted_label,
            consensus_label (by input and all answers: the replacement for a wrong label), and scores of the
            method, such as gate (in [0, 1], high = likely wrong). The index is that of X, or of y, where
            these had one.
        """
        check_is_fitted(self)
        return self.label_issues_.copy()

    def save(self, path: str | Path) -> Path:
        """Write the fitted classifier to a folder of plain files, without pickle; `load` reads it.

        Ids of people are kept out as in a pickle, unless `keep_ids`. Callbacks are not saved, and of a module the
        weights only.
        """
        return save_classifier(self, path)

    @classmethod
    def load(cls, path: str | Path, *, module: nn.Module | Callable[[], nn.Module] | None = None) -> Self:
        """Read a classifier that `save` wrote.

        Parameters
        ----------
        path : path
            The folder.
        module : nn.Module or callable, optional
            The network, if the classifier was fitted with `module`; its weights are replaced by the saved ones.
        """
        model: Self = load_classifier(cls, path, module)
        return model

    @classmethod
    def from_run(cls, run: Run | str | Path) -> Self:
        """Make the classifier of a run that `pidual fit` or `fit_table` made on rows of numbers, or on images.

        Its parameters are the method, the network and the training options of the run. Which share of the items the run
        held out, and kinds of PI that were given, are not among them.
        """
        model: Self = classifier_of_run(cls, run)
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__()}
        if state.get("annotators_") is not None and not self.keep_ids:
            state["summary_"] = summary_without_ids(state["summary_"], state["annotators_"])
            state["annotators_"] = numbered(state["annotators_"], state["summary_"])
        if state.get("label_issues_") is not None and not self.keep_ids:
            issues = state["label_issues_"]
            known = () if self.annotators_ is None else self.annotators_["annotator"].astype(str)
            both = issues.index.append(self.items_.index)  # so that a person has one number in both
            if (shown := index_without_ids(both, set(known))) is not both:
                state["label_issues_"] = issues.set_axis(shown[: len(issues)])
                state["items_"] = self.items_.set_axis(shown[len(issues) :])
        return state

    def _fit_options(self, table: AnnotationTable, pi: Any) -> FitOptions:
        if self.validation_fraction is not None and not 0 <= self.validation_fraction < 1:
            raise UsageError(f"validation_fraction must be at least 0 and below 1, not {self.validation_fraction!r}.")
        if not isinstance(self.network, str | None):
            raise UsageError(
                f"network must be a name, such as 'mlp', not {self.network!r}; give a module with module=."
            )
        names = pi_names(pi_columns(pi))
        kinds = {names.get(name, str(name)): kind for name, kind in (self.pi_kinds or {}).items()}
        unknown = [name for name in kinds if name not in table.pi_columns]
        if unknown:
            there = f"its columns are {', '.join(table.pi_columns)}" if table.pi_columns else "there is none"
            raise UsageError(f"pi_kinds names '{unknown[0]}', which is not a column of pi; {there}.")
        named = {"epochs": self.epochs, "batch_size": self.batch_size, "lr": self.lr}
        settings = {name: value for name, value in named.items() if value is not None}
        for name, value in self._options.items():
            if name == "estimator":
                raise UsageError("An estimator in place of a network is for CrowdClassifier(estimator=...).")
            if not is_option(name):
                raise UsageError(f"{type(self).__name__} has no parameter {name!r}; options begin with {OPTION_WORDS}.")
            word, _, key = name.partition("__")
            if name == "training__seed":
                raise UsageError("The seed is not a training option of a classifier; give it as random_state.")
            if word == "training" and named.get(key) is not None:
                raise UsageError(f"{key} and {name} are the same option; give one.")
            if word == "training" and key not in option_names():
                raise UsageError(f"There is no training option '{key}'; there are {', '.join(option_names())}.")
            settings[OPTIONS[f"{word}__"] + key] = value
        return FitOptions(
            method=self.method,
            setting=self.setting,
            options={
                name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()
            },
            network=self.network,
            valid_fraction=self.validation_fraction,
            pi_kinds=kinds,
            seed=draw_seed(self.random_state),
            accelerator=self.accelerator,
            threads=self.threads,
        )

    def _maker(self, x: NDArray[Any]) -> Callable[[], nn.Module] | None:
        """Return a function that makes the user's network, and tries it on a few rows of X."""
        if self.module is None:
            return None
        module, n_classes = self.module, len(self.classes_)
        beside = [name for name in ("network", *self._options) if name.startswith("network")]
        if given := [name for name in beside if name != "network" or self.network is not None]:
            raise UsageError(f"{given[0]} is for networks by name, and module takes their place; give one.")

        def make() -> nn.Module:
            made = made_by(module)
            check_network(made, torch.from_numpy(x), n_classes)
            return made

        return make

    def _progress(self) -> list[Progress]:
        """Return a bar, or lines where there is no terminal, if asked for."""
        from ..fit.terminal import choose_progress  # and click with it

        return [choose_progress()] if self.verbose else []

    def _keep(self, job: Job, fitted: Fitted, results: Results, index: pd.Index | None) -> None:
        """Hold on to what was learned, and to nothing of X."""
        if hasattr(self, "estimator_"):  # of an earlier fit
            del self.estimator_
        self._own_module = self.module is not None
        self.method_ = fitted.method.cpu()
        self._model = numbered_classes(describe_model(job, fitted.method))
        self.items_ = _items_in_order(results.items, job.table, self.classes_, index)
        self.history_ = fitted.history
        self.model_selection_ = fitted.selection
        self.summary_ = results.summary
        self.annotators_ = results.annotators
        issues = self._issues(results.predictions)
        self.label_issues_ = issues if index is None else issues.set_axis(index)

    def _issues(self, predictions: Predictions) -> pd.DataFrame:
        """Return what `find_label_issues` returns."""
        frame = predictions.frame
        issues = frame[["is_label_issue", "label_quality"]].copy()
        for name in ("given_label", "predicted_label", "consensus_label", "noise_label"):
            if name in frame:
                issues[name] = self.classes_[frame[name].cat.codes.to_numpy()]
        native = type(self.method_).scores[1:]
        extra = [name for name in ("predicted_probability", *native, "reason") if name in frame]
        return issues.join(frame[extra])

    def _warn(self, job: Job, texts: Sequence[str]) -> None:
        """Pass on what the user should know about the data and of the fit."""
        for text in (*texts, *map(describe_copies, job.copies)):
            warnings.warn(text, DataWarning, stacklevel=3)
        if self.annotators_ is None and job.table.people:
            names = " or ".join(map(quoted, job.table.people))
            warnings.warn(
                "pi has no column 'annotator', so answers are not judged by person; rename the column that says who "
                f"gave the label ({names}).",
                DataWarning,
                stacklevel=3,
            )
        warn_of_verdict(self.summary_.verdict, stacklevel=4)
        guard = self.summary_.guard
        if guard.collapsed:
            warnings.warn(
                f"The fit collapsed: {guard.events[-1].reason}; the labels may have nothing to do with X, else "
                "try a smaller lr.",
                ConvergenceWarning,
                stacklevel=3,
            )


class CrowdClassifier(NoisyLabelClassifier):
    """Classifier that judges all answers to an item together: take this one, unless you want Pi-DUAL itself.

    It is what `pidual fit` does by default (the method latent_truth): worked out in closed form for vectors, in
    seconds, without options and without drawing anything at random. It needs no PI, and uses what there is.

    Parameters
    ----------
    module : nn.Module or callable, default=None
        Prediction network: x of shape (B, ...) to logits of shape (B, n_classes). A module is copied, and its weights
        are the starting point; a callable without arguments makes a new one. X reaches it as float32 (uint8 stays
        uint8), not standardised. By default latent_truth trains none: it is worked out on vectors, or on features
        of images (N, C, H, W). Other methods have an MLP, or a small CNN for images, on standardised inputs.
    estimator : scikit-learn classifier, default=None
        Instead of a network, and not for `PiDualClassifier`: any classifier with predict_proba, such as
        HistGradientBoostingClassifier(). Copies are fitted to the answers to four fifths of the items each, to judge
        the others, and then one to all items, their classes weighted by how likely they are (to the most likely ones
        if its fit takes no sample_weight). Where it takes missing values, X may have NaN.
    network : str, default=None
        Instead of `module`: the name of a network, as for `pidual fit --network`, such as "resnet34".
    epochs : int, default=None
        Epochs of training, where a network is trained; by default the method and the size of the data decide.
    batch_size : int, default=None
        Rows of a training step, where a network is trained.
    lr : float, default=None
        Learning rate, where a network is trained.
    pi_kinds : mapping, default=None
        Kinds of PI columns, instead of guessing them: "category", "number", "duration" or "raw".
    validation_fraction : float, default=None
        `valid_fraction` of a fit, by scikit-learn's name: the share of the items held out to choose the epoch and to
        watch over the fit. Rows with equal X are one item. None is 0 by the method latent_truth, else 0.1, or 0.02 for
        images in the setting "paper".
    keep_ids : bool, default=False
        Whether copies of the fitted estimator (by pickle, joblib or deepcopy) hold ids of people. They are personal
        data: by default a copy numbers the annotators in `annotators_`, and people in the index of `label_issues_`.
        People in further columns of PI (by name, such as "reviewer", or because they are e-mail addresses) are
        numbered on reading. Classes and names of columns that are e-mail addresses are refused.
    accelerator : str, default="auto"
        A Lightning Fabric accelerator.
    threads : int, default=None
        Number of CPU threads during `fit`; by default one for small networks, otherwise as many as torch has.
    callbacks : list of Callback, default=None
        Called with the trainer at every step and epoch of `fit`, where a network is trained; see `pidual.Callback`.
    verbose : int, default=0
        1 shows the progress of `fit` on stderr: a bar on a terminal, otherwise a line now and then.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    **options
        Any other option of training (`training__clip=1.0`), of the method (`method__lam=7`) and of the network
        (`network__width=64`). `set_params` and a grid search reach them by these names.

    Attributes
    ----------
    classes_ : array
        Class labels.
    n_features_in_ : int
        Features of X.
    feature_names_in_ : array
        Their names, if X had names.
    label_issues_ : DataFrame
        What `find_label_issues` returns.
    items_ : DataFrame
        One row per item (different row of X), in the order they come in: the label that its answers and the input
        support, how likely it is, and the probability of every class. The index is that of its first row.
    annotators_ : DataFrame or None
        One row per annotator, worst first, if `pi` has a column "annotator".
    history_ : list of dict
        One record per epoch, or round of what is worked out.
    model_selection_ : list of AnswerChoice
        Choices made by held-out answers: one record per setting of the population; empty for other methods.
    summary_ : Summary
        As that of a run (`Run.summary`): noise estimate, selected epoch, warnings, actions of the guard.
    method_ : Method
        The trained method; its `f` is the prediction network (with `estimator`: what recalibrates its probabilities).
    estimator_ : scikit-learn classifier
        The fitted copy of `estimator`, where one was given; its classes are numbers by the order of `classes_`.

    See Also
    --------
    PiDualClassifier : The same calls, trained by Pi-DUAL or by any other method.
    judge : Judge labels without inputs, or by probabilities that you have.
    fit_table : The same fit into a run directory, with a report.

    Notes
    -----
    It is a classifier of scikit-learn: `score`, `clone`, pipelines and grid searches work. `pidual fit --seed` of the
    same number as `random_state` gives the same answer on the same table, if equal inputs are one item there too.

    Examples
    --------
    Rows are annotations: an item with three answers has three rows.

    >>> from pidual import CrowdClassifier, make_crowd
    >>> crowd = make_crowd(200, noise=0.3)
    >>> X, y = crowd.x[crowd.frame["item"]], crowd.frame["label"]
    >>> model = CrowdClassifier().fit(X, y, pi=crowd.frame[["annotator", "seconds"]])
    >>> round(model.score(crowd.x_test, crowd.y_test), 1)
    0.9
    >>> model.find_label_issues().columns[:4].tolist()
    ['is_label_issue', 'label_quality', 'given_label', 'predicted_label']
    >>> model.annotators_["annotator"].tolist()[0] in crowd.spammers
    True
    """


class PiDualClassifier(NoisyLabelClassifier):
    """Classifier trained by Pi-DUAL: take it if PI says which labels are wrong, above all with one label per item.

    As `pidual fit --method pi_dual`: one network, the paper's objective, with settings for small data. With several
    answers to an item, `CrowdClassifier` finds more. Without PI, Pi-DUAL has random PI alone, and warns.

    Parameters
    ----------
    method : str, default="pi_dual"
        A method listed by `pidual methods`: those that the paper compares with, or "latent_truth".
    setting : {"default", "paper"}, default="default"
        Preset for options you do not set; "paper" is the paper's protocol for CIFAR, on images with its
        WRN-28-10.
    **options
        All other parameters are those of `CrowdClassifier`, but for `estimator`; attributes and methods are the same.

    See Also
    --------
    CrowdClassifier : The default, which describes all shared parameters and attributes.
    PiDualLoss : Pi-DUAL in a training loop of your own.
    METHODS : All methods by name.

    References
    ----------
    Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
    2310.06600.

    Examples
    --------
    >>> from pidual import PiDualClassifier, make_crowd
    >>> crowd = make_crowd(200, answers_per_item=1, noise=0.3)
    >>> X, y, pi = crowd.x, crowd.frame["label"], crowd.frame[["annotator", "seconds"]]
    >>> model = PiDualClassifier(epochs=10, random_state=0).fit(X, y, pi=pi)
    >>> model.predict(crowd.x_test).shape
    (1000,)
    >>> issues, wrong = model.find_label_issues(), (y != crowd.frame["y"]).to_numpy()
    >>> bool(issues["gate"][wrong].mean() > issues["gate"][~wrong].mean())
    True
    >>> elr = PiDualClassifier("elr", epochs=2, method__lam=1, network__width=64).fit(X, y)
    """

    def __init__(
        self,
        method: str = "pi_dual",
        *,
        setting: str = "default",
        module: nn.Module | Callable[[], nn.Module] | None = None,
        network: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        pi_kinds: Mapping[str, str] | None = None,
        validation_fraction: float | None = None,
        keep_ids: bool = False,
        accelerator: str = "auto",
        threads: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
        random_state: Any = None,
        **options: Any,
    ):
        shared = {name: value for name, value in locals().items() if name in SHARED}
        super().__init__(**shared)
        self._options = options  # with an estimator among them, which `fit` refuses
        self.method = method
        self.setting = setting


SHARED = tuple(CrowdClassifier().get_params())


def is_option(name: str) -> bool:
    """Return whether a parameter is an option of training, of the method or of the network."""
    return name.startswith(tuple(OPTIONS))


def _items_in_order(
    items: pd.DataFrame, table: AnnotationTable, classes: NDArray[Any], index: pd.Index | None
) -> pd.DataFrame:
    """Return the items by the rows of X they come first in, under the index of these."""
    first = np.unique(table.frame["item"].astype(int), return_index=True)[1]  # items are numbers from 0
    rows = items.set_axis(first[items["item"].astype(int)]).drop(columns="item").sort_index()
    for name in ("consensus_label", "predicted_label"):
        if name in rows:
            rows[name] = classes[rows[name].cat.codes.to_numpy()]
    return rows if index is None else rows.set_axis(index[rows.index])
