"""Any classifier of scikit-learn as f: what it says about items it has not seen, and what all answers say then.

    p  <- out-of-fold probabilities of the classifier, fitted to the classes of each item with their votes as weights
    q  <- posterior of every item, by p and all answers (`without_x`)

The classifier that predicts is then fitted to all items, with the weights q. There is no second round of p from q: the
q of other items were made with the help of an item's own label, which so would reach the classifier that judges it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from ..data import AnnotationTable, load_probabilities
from ..data.pi.random_pi import derive_seed
from ..errors import DataError, UsageError
from ..errors.messages import first_line
from ..fit.closed import ClosedFit
from ..fit.fit import fit_and_predict, train
from ..fit.options import FitOptions
from ..fit.predict import Answers, chunks
from ..fit.prepare import Job, prepare
from ..learn.answers.judging import log_of
from ..learn.engine import Fitted, Session, make_fabric

FOLDS = 5
LEAST_WEIGHT = 0.02  # a class less likely than this gives no row to fit to
FLOOR = 1e-4  # mixed into the classifier's probabilities: a class that it has not seen is not impossible


def fit_any(
    estimator: Any,
    x: NDArray[Any],
    table: AnnotationTable,
    *,
    sample_weight: NDArray[np.floating[Any]],
    seed: int = 0,
    pi_kinds: Mapping[str, str] | None = None,
    truth: NDArray[np.int64] | None = None,
) -> tuple[Any, Job, Fitted, Answers | None, str]:
    """Fit a classifier to the answers of a table; return it, the labels judged by it, and a note or "".

    Parameters
    ----------
    estimator : classifier with predict_proba
        Copied; it stays as it is.
    x : array (items, ...)
        Input of every item, by the table's order of items.
    table : AnnotationTable
    sample_weight : array (len(table),)
        Weight of every annotation.
    seed : int
        Of folds.
    pi_kinds : mapping, optional
        As for `without_x.judge`.
    truth : int array (len(table),), optional
        Code of the class of each annotation's item where it is known, else -1.
    """
    weight_name = check_classifier(estimator)
    x = x.reshape(len(x), -1)
    k = len(table.classes)
    q = vote_shares(table, sample_weight)
    learned = np.flatnonzero(q.sum(1) > 0)
    fold = np.random.default_rng(derive_seed(seed, 11)).permutation(len(learned)) % min(FOLDS, len(learned))
    p = np.full((len(x), k), 1 / k, np.float32)
    others = np.setdiff1d(np.arange(len(x)), learned)
    for part in range(int(fold.max()) + 1):
        machine = fit_soft(clone(estimator), x, q, learned[fold != part], weight_name)
        held_out = np.concatenate([learned[fold == part], others if part == 0 else []]).astype(np.int64)
        p[held_out] = probabilities(machine, x[held_out], k)
    job = prepare(
        table, load_probabilities(p, k), FitOptions.judging(pi_kinds), sample_weight=sample_weight, truth=truth
    )
    fabric = make_fabric("cpu")
    fitted, answers = fit_and_predict(job, lambda each, _: train(each, Session(fabric)), fabric)
    final = fit_soft(clone(estimator), x, item_posteriors(job, fitted), learned, weight_name)
    name = type(estimator).__name__
    note = f"{name} takes no sample weights: it was fitted to the most probable class of each item."
    return final, job, fitted, answers, "" if weight_name else note


def check_classifier(estimator: Any) -> str | None:
    """Return the argument of fit that weighs rows, None where there is none; refuse what is no classifier for us."""
    for method in ("fit", "predict_proba"):
        if isinstance(estimator, type) or not hasattr(estimator, method):
            what = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
            way_out = "make an object of it" if isinstance(estimator, type) else "wrap it in CalibratedClassifierCV"
            raise UsageError(f"estimator must have {method}, which {what} has not; {way_out}, or use another.")
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline) and has_fit_parameter(estimator.steps[-1][1], "sample_weight"):
        return f"{estimator.steps[-1][0]}__sample_weight"
    return None


def vote_shares(table: AnnotationTable, weight: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return the share of the answers to each item that say each class; zeros for items without a weighted answer.

    Rows of one answer share its weight.
    """
    if table.answer_codes is not None:
        weight = weight / np.bincount(table.answer_codes)[table.answer_codes]
    votes = np.zeros((len(table.frame["item"].cat.categories), len(table.classes)), np.float32)
    np.add.at(votes, (table.item_codes, table.label_codes), weight)
    total = votes.sum(1, keepdims=True)
    shares: NDArray[np.float32] = np.divide(votes, total, out=np.zeros_like(votes), where=total > 0)
    return shares


def fit_soft(
    machine: Any, x: NDArray[Any], q: NDArray[np.float32], items: NDArray[np.int64], weight_name: str | None
) -> Any:
    """Fit to classes that are not certain: each likely one of an item is a row, weighted by how likely it is."""
    if weight_name is None:
        rows, classes, weights = items, q[items].argmax(1), {}
    else:
        chosen, classes = np.nonzero(q[items] >= np.minimum(LEAST_WEIGHT, q[items].max(1, keepdims=True)))
        rows = items[chosen]
        weights = {weight_name: q[rows, classes].astype(np.float64)}
    try:
        return machine.fit(x[rows], classes, **weights)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{type(machine).__name__} cannot be fitted to these inputs ({first_line(error)}); use another estimator."
        ) from error


def probabilities(machine: Any, x: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """Return what a fitted classifier says about all classes, those among them that it has not seen."""
    p = np.zeros((len(x), n_classes), np.float64)
    if len(x):
        p[:, machine.classes_] = machine.predict_proba(x)
    p = p.clip(min=0) + FLOOR / n_classes
    return np.asarray(p / p.sum(1, keepdims=True))


def item_posteriors(job: Job, fitted: Fitted) -> NDArray[np.float32]:
    """Return q of every item and class, by the order of the table's items; an item without a row has zeros."""
    assert isinstance(fitted, ClosedFit)
    q = np.zeros((len(job.table.frame["item"].cat.categories), job.spec.n_classes), np.float32)
    codes = job.rows.item.numpy()[fitted.answers.first(np.arange(len(job.rows.groups)))]
    for items in chunks(job):
        said = fitted.judge(
            fitted.answers.of(items)[0], log_of(fitted.probabilities(items)), fitted.answers.truth(items)
        )
        q[codes[items]] = said.q
    return q
