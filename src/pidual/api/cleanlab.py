"""The call of cleanlab, `find_label_issues(labels, pred_probs)`: its arguments and results around `judge_given`."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.given import Given, read_given, read_given_sets
from ..data.in_memory import warn_of_order
from ..data.probabilities import as_floats
from ..errors import DataWarning, UsageError
from ..errors.messages import listed
from ..learn.answers.one_label import LEAST
from ..run.predictions import Predictions
from .label_issues import FIT_NUMBERS, judge_given
from .verdict import warn_of_verdict

RANKINGS = ("label_quality", "self_confidence", "normalized_margin", "confidence_weighted_entropy")


def find_label_issues(
    labels: Any,
    pred_probs: Any,
    *,
    return_indices_ranked_by: str | None = None,
    rank_by_kwargs: Mapping[str, Any] | None = None,
    filter_by: str = "auto",
    frac_noise: float = 1.0,
    num_to_remove_per_class: Sequence[int] | None = None,
    min_examples_per_class: int = 1,
    confident_joint: Any = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    multi_label: bool = False,
    classes: Sequence[Any] | None = None,
    annotators: Any = None,
    items: Any = None,
    as_frame: bool = False,
) -> Any:
    """Find labels that look wrong, given a classifier's out-of-sample probabilities; same call as in cleanlab.

    Parameters
    ----------
    labels : array (N,) or (N, A)
        Given labels: column numbers of `pred_probs`, or names of classes. For several annotators, one column each, with
        -1, NaN or None where an annotator gave none. With `multi_label`, a list of lists: the classes of each row.
    pred_probs : array (N, K), memory map, DataFrame or path of a .npy file
        Probabilities of the classes for each row, from a classifier not trained on the row's label. A memory map is
        read in parts. With `multi_label`, those of a row need not sum to one.
    return_indices_ranked_by : str, optional
        Return numbers of rows, worst first, instead of a mask: by "label_quality", or by cleanlab's "self_confidence",
        "normalized_margin" or "confidence_weighted_entropy".
    rank_by_kwargs : mapping, optional
        Must be empty: `label_quality` needs no adjustment.
    filter_by : "auto"
        The labels are chosen by their posterior probability; cleanlab's filters are refused.
    frac_noise : float
        Share of the found labels to return: those of lowest quality.
    num_to_remove_per_class : sequence of int, optional
        Instead: this many labels of lowest quality of each given class. With `multi_label`, two numbers for each
        class: of rows without it, and with it.
    min_examples_per_class : int
        Leave at least this many labels of each class unmarked.
    confident_joint : None
        Not supported: an error if given.
    multi_label : bool
        Whether rows have several classes or none: a row looks wrong if any class should be in its set, or should not.
        Each class is judged as a yes or no of its own.
    n_jobs : int, optional
        Ignored, because the call takes seconds.
    verbose : bool
        Ignored.
    classes : sequence, optional
        Names of the columns of `pred_probs`, where `labels` are names. By default the columns of a frame, else the
        labels sorted.
    annotators : array (N,), optional
        Who gave each label.
    items : array (N,), optional
        What each label is about, where items have several labels, one per row: these are judged together. `pred_probs`
        then has a row for each label, or one for each item (items are its row numbers, or the index of a frame).
    as_frame : bool
        Return a frame instead: is_label_issue, label_quality, given_label, predicted_label, consensus_label, a row for
        each label in order, under the index of a Series. Labels of several annotators have the columns row and
        annotator too, and missing ones none; with `items`, item.
        With `multi_label`: row, tag, is_label_issue, label_quality and has_tag, a row for each class that a set has or
        should have.

    Returns
    -------
    bool array of the shape of `labels`, or int array
        Whether each label looks wrong; or, ranked, the rows of those that do (of several annotators: row and column).

    See Also
    --------
    judge : Judge a table of annotations, with or without probabilities.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_predict
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from pidual import find_label_issues, make_crowd
    >>> crowd = make_crowd(200, answers_per_item=1, noise=0.2)
    >>> labels, model = crowd.frame["label"], KNeighborsClassifier()
    >>> pred_probs = cross_val_predict(model, crowd.x, labels, method="predict_proba")
    >>> issues = find_label_issues(labels, pred_probs)
    >>> wrong = labels != crowd.frame["y"]
    >>> f"{issues.sum()} of {len(labels)} look wrong, {wrong[issues].sum()} of these are"
    '43 of 200 look wrong, 36 of these are'
    >>> find_label_issues(labels, pred_probs, return_indices_ranked_by="label_quality").shape
    (43,)
    """
    _refuse_cleanlab(rank_by_kwargs, filter_by, confident_joint)
    if return_indices_ranked_by not in (None, *RANKINGS):
        raise UsageError(
            f"return_indices_ranked_by must be one of {', '.join(RANKINGS)} or None, not {return_indices_ranked_by!r}."
        )
    if not 0 <= frac_noise <= 1:
        raise UsageError(f"frac_noise must be a share from 0 to 1, not {frac_noise!r}.")
    choose = partial(_choose, share=frac_noise, least=min_examples_per_class)
    if multi_label:
        if annotators is not None or items is not None:
            raise UsageError(
                "multi_label has no annotators or items; judge sets of several people with read_table and judge."
            )
        said, probs, names = read_given_sets(labels, pred_probs, classes)
        found = _judge_sets(said, probs, names, num_to_remove_per_class, choose)
        return _sets_as_cleanlab(*found, said, probs, names, return_indices_ranked_by, as_frame)
    warn_of_order({"labels": labels, "pred_probs": pred_probs, "annotators": annotators, "items": items})
    given = read_given(labels, pred_probs, classes=classes, annotators=annotators, items=items)
    if items is None and _are_answers(given):
        warnings.warn(
            "Rows of pred_probs repeat, with other annotators, and each counts as an item of its own; if they are "
            "answers to one item, give items=, so that they are judged together.",
            DataWarning,
            stacklevel=2,
        )
    predictions, summary = judge_given(given, reasons=False)
    warn_of_verdict(summary.verdict, "these issues")
    chosen = choose(predictions, num_to_remove_per_class)
    if as_frame:
        frame = _as_cleanlab(given, predictions.with_issues(chosen))
        return frame.set_axis(labels.index) if isinstance(labels, pd.Series) else frame
    if return_indices_ranked_by is None:
        mask = np.zeros(given.shape, dtype=bool)
        mask[given.places] = chosen
        return mask
    ranked = _rank(given, predictions, np.flatnonzero(chosen), return_indices_ranked_by)
    return given.places[0][ranked] if len(given.shape) == 1 else np.stack([place[ranked] for place in given.places], 1)


def _are_answers(given: Given) -> bool:
    """Return whether labels of different annotators have equal probabilities, as answers to one item have."""
    if given.annotators is None or len(given.shape) == 2 or given.probs.size > FIT_NUMBERS:
        return False
    row = np.unique(np.asarray(given.probs), axis=0, return_inverse=True)[1].ravel()
    both = pd.DataFrame({"row": row, "who": given.annotators})
    return len(row) > 1.5 * (row.max() + 1) and not both.duplicated().any()


def _refuse_cleanlab(rank_by_kwargs: Mapping[str, Any] | None, filter_by: str, confident_joint: Any) -> None:
    """Refuse what has no meaning here."""
    if filter_by != "auto":
        raise UsageError(
            f"filter_by={filter_by!r} is a rule of cleanlab's; pidual goes by the posterior, so leave filter_by out."
        )
    if rank_by_kwargs:
        raise UsageError("rank_by_kwargs is not used: label_quality is relative to the class already; leave it out.")
    if confident_joint is not None:
        raise UsageError("confident_joint is not used: how classes are confused is estimated here; leave it out.")


def _choose(
    predictions: Predictions, per_class: Sequence[int] | None, *, share: float, least: int
) -> NDArray[np.bool_]:
    """Choose the labels to return by what cleanlab's options say."""
    given, order = predictions.given, np.argsort(predictions.label_quality, kind="stable")
    k = len(predictions.classes)
    if per_class is None:
        found = order[predictions.is_issue[order]]
        found = found[: round(share * len(found))]
    elif len(per_class) != k:
        raise UsageError(f"num_to_remove_per_class has {len(per_class)} numbers and there are {k} classes.")
    else:
        found = np.concatenate([order[given[order] == one][: int(n)] for one, n in enumerate(per_class)])
    spare = np.bincount(given, minlength=k) - least
    chosen = np.zeros(len(predictions), dtype=bool)
    chosen[found] = True
    for one in np.flatnonzero(np.bincount(given[found], minlength=k) > spare):
        chosen[[row for row in found if given[row] == one][max(0, spare[one]) :]] = False
    return chosen


def _rank(given: Given, predictions: Predictions, rows: NDArray[np.int64], by: str) -> NDArray[np.int64]:
    """Return these labels, worst first, by a score of cleanlab's or by label_quality."""
    labels, step = given.codes[rows], max(1, FIT_NUMBERS // given.probs.shape[1])
    worth = predictions.label_quality[rows].astype(np.float64)
    for start in range(0, len(rows) if by != "label_quality" else 0, step):
        part = slice(start, start + step)
        p = as_floats(given.probs[given.row[rows[part]]]).astype(np.float64)
        place = np.arange(len(p)), labels[part]
        worth[part] = own = p[place]
        if by == "normalized_margin":
            p[place] = -1
            worth[part] = own - p.max(1)
        elif by == "confidence_weighted_entropy":  # up to a monotone function
            worth[part] = (p * np.log(np.maximum(p, 1e-300))).sum(1) / np.maximum(own, LEAST)
    return rows[np.argsort(worth, kind="stable")]


def _as_cleanlab(given: Given, predictions: Predictions) -> pd.DataFrame:
    """Return one row a label, with the columns of CleanLearning's `find_label_issues`."""
    frame = predictions.frame
    own = ["is_label_issue", "label_quality", "given_label", "predicted_label", "consensus_label"]
    found = frame[own].reset_index(drop=True)
    if given.annotators is not None:
        found["row"], found["annotator"] = given.places[0], given.annotators
    if given.item is not None:
        found["item"] = frame["item"].to_numpy()
    return found


# --- several labels of a row ---


def _judge_sets(
    said: NDArray[np.bool_],
    probs: NDArray[Any],
    names: list[Any],
    per_class: Any,
    choose: Callable[[Predictions, Any], NDArray[np.bool_]],
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return which classes of which rows look wrong (N, K), and how likely each is right; warn of classes of no use."""
    issue, quality, failed = np.zeros(said.shape, bool), np.ones(said.shape, np.float32), list[Any]()
    if per_class is not None and len(per_class) != len(names):
        raise UsageError(f"num_to_remove_per_class has {len(per_class)} entries and there are {len(names)} classes.")
    for at, name in enumerate(names):
        p = as_floats(np.asarray(probs[:, at])).astype(np.float64)
        codes = said[:, at].astype(np.int64)
        if not codes.any() or codes.all():
            quality[:, at] = np.where(codes, p, 1 - p)
            continue
        given = Given(codes, (np.arange(len(codes)),), codes.shape, [f"no {name}", name], np.stack([1 - p, p], axis=1))
        predictions, summary = judge_given(given, reasons=False)
        failed += [name] if summary.verdict.status == "failed" else []
        quality[:, at] = predictions.label_quality
        issue[:, at] = choose(predictions, None if per_class is None else per_class[at])
    if failed:
        text = f"Do not use the issues of {len(failed)} of {len(names)} classes ({listed(failed, 5)})"
        warnings.warn(f"{text}: their probabilities say nothing about their labels.", DataWarning, stacklevel=3)
    return issue, quality


def _sets_as_cleanlab(
    issue: NDArray[np.bool_],
    quality: NDArray[np.float32],
    said: NDArray[np.bool_],
    probs: NDArray[Any],
    names: list[Any],
    by: str | None,
    as_frame: bool,
) -> Any:
    """Return a mask of rows, their numbers, or a frame; worst are rows whose classes are least likely all right."""
    if as_frame:
        row, tag = np.nonzero(said | issue)
        columns = {"row": row, "tag": pd.Categorical.from_codes(tag, pd.Index(names))}
        about = {"is_label_issue": issue, "label_quality": quality, "has_tag": said}
        return pd.DataFrame(columns | {name: values[row, tag] for name, values in about.items()})
    if by is None:
        return issue.any(1)
    rows = np.flatnonzero(issue.any(1))
    p = as_floats(np.asarray(probs[rows])).astype(np.float64)
    worth = quality[rows] if by == "label_quality" else np.where(said[rows], p, 1 - p)  # all of cleanlab's agree on two
    return rows[np.argsort(np.log(np.maximum(worth, LEAST)).sum(1), kind="stable")]
