"""Judge labels without training a network: by given probabilities, or by the answers and their PI alone.

    judged = judge(table, pred_probs)
    judged.items, judged.predictions, judged.annotators, judged.summary

A temperature, a bias of the classes and the answer model are fitted; `pidual fit --probs` and `--no-x` do the same into
a run directory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs, known_codes, load_probabilities, no_inputs
from ..data.sources.in_arrow import as_stream, in_pandas
from ..errors import UsageError
from ..fit.fit import fit_and_predict, train
from ..fit.judge import Results
from ..fit.judge import judge as judge_labels
from ..fit.options import FitOptions
from ..fit.prepare import prepare
from ..learn.engine import Session, make_fabric
from ..run.records.summary import Summary
from .verdict import status_shown, warn_of_verdict


@dataclass(frozen=True)
class Judgement:
    """What all answers, and given probabilities, say about the labels; the columns are those of a run directory.

    Parameters
    ----------
    items : DataFrame
        One row per item: the consensus of its answers, and the probability of every class.
    predictions : DataFrame
        One row per annotation, in the order of the table: label_quality, whether it looks wrong, and why.
    annotators : DataFrame or None
        One row per annotator, where annotators are known.
    summary : Summary
        As that of a run (`Run.summary`): noise estimate, what held-out answers decided (`model_selection`), warnings.

    See Also
    --------
    judge : Makes it.

    Examples
    --------
    >>> from pidual import judge, make_crowd
    >>> crowd = make_crowd(200, noise=0.3)
    >>> judged = judge(crowd.frame[["item", "annotator", "label"]])
    >>> judged.items.columns[:4].tolist()
    ['item', 'consensus_label', 'consensus_quality', 'num_annotations']
    >>> noise = judged.summary.noise
    >>> bool(noise.low < crowd.noise_rate < noise.high)
    True
    """

    items: pd.DataFrame
    predictions: pd.DataFrame
    annotators: pd.DataFrame | None
    summary: Summary

    def __repr__(self) -> str:
        n, issues = len(self.predictions), int(self.predictions["is_label_issue"].sum())
        about = status_shown(self.summary.verdict.status)
        return f"Judgement({n:,} annotations of {len(self.items):,} items, {issues:,} issues{about})"


def judge(
    table: Any,
    pred_probs: Any = None,
    *,
    pi: Sequence[str] | None = None,
    pi_kinds: Mapping[str, str] | None = None,
    truth: Any = None,
    no_answer: Sequence[str] = (),
) -> Judgement:
    """Judge all answers to each item together, without training a network.

    Parameters
    ----------
    table : AnnotationTable, DataFrame, path or Arrow stream
        Annotations; a frame, a file or folder of parts, or a table of polars, DuckDB or Arrow, has
        columns `label` and, where these are known, `item` and `annotator`, as for
        `AnnotationTable.from_frame`. Annotators then keep their names.
    pred_probs : array (n, K), DataFrame, Arrow stream or path, optional
        Probabilities of the classes for every item, from a classifier that has not seen the item's labels (out of
        sample): columns in the order of the classes, sorted; rows by item number, one per row of the table, or by name
        where there is a column `item`. A memory map is read in parts. None: there are no inputs, and the answers and
        their PI alone count.
    pi : sequence of str, optional
        Columns of privileged information of a frame; by default the annotator.
    pi_kinds : mapping, optional
        Kinds of PI columns, instead of guessing them.
    truth : array (N,), DataFrame or path, optional
        Known classes (gold): labels or codes by row, missing where none is known, or a frame with columns item and
        truth. From 20 items on they correct all that is stated, and `summary.gold` has what they say. By default those
        of a column `truth` of the table.
    no_answer : sequence of str, optional
        Labels of a frame that mean no answer, such as "unsure", as for `read_table`; rows with one are not in
        `predictions`.

    Returns
    -------
    Judgement
        `items`, `predictions`, `annotators` and `summary`.

    See Also
    --------
    find_label_issues : The same for labels and probabilities as arrays, by the call of cleanlab.
    CrowdClassifier : Judges labels by inputs, and learns to predict.

    Examples
    --------
    By the answers and their PI alone:

    >>> from pidual import judge, make_crowd
    >>> crowd = make_crowd(200, noise=0.3)
    >>> answers = crowd.frame[["item", "annotator", "seconds", "label"]]
    >>> judged = judge(answers, pi=["annotator", "seconds"])
    >>> judged.summary.verdict.status
    'ok'
    >>> worst = judged.predictions.sort_values("label_quality").head(100)
    >>> wrong = crowd.frame["label"] != crowd.frame["y"]
    >>> bool(wrong[worst["row"]].mean() > 0.8)
    True
    """
    if isinstance(table, pd.DataFrame | Mapping | str | Path) or as_stream(table) is not None:
        table = AnnotationTable.from_frame(table, pi=pi, no_answer=no_answer, keep_ids=True)
    elif no_answer:
        raise UsageError("no_answer is for a frame; give it to read_table, which makes the table.")
    if not isinstance(table, AnnotationTable):
        raise UsageError(
            f"table must be an AnnotationTable, a DataFrame, a path or a stream of Arrow, not {type(table).__name__}."
        )
    pred_probs = in_pandas(pred_probs)
    if pred_probs is not None and not isinstance(pred_probs, np.ndarray | pd.DataFrame | str | Path):
        pred_probs = np.asarray(pred_probs)
    of_sets = table.sets is not None
    inputs = no_inputs() if pred_probs is None else load_probabilities(pred_probs, table.all_classes, sets=of_sets)
    known = None if truth is None else known_codes(truth, table)
    results = judge_inputs(table, inputs, pi_kinds=pi_kinds, truth=known)
    warn_of_verdict(results.summary.verdict)
    return Judgement(results.items, results.predictions.frame, results.annotators, results.summary)


def judge_inputs(
    table: AnnotationTable,
    inputs: Inputs,
    *,
    pi_kinds: Mapping[str, str] | None = None,
    reasons: bool = True,
    truth: NDArray[np.int64] | None = None,
) -> Results:
    """Judge a table and inputs that are checked, as `judge` does; give reasons if wanted. `truth` are codes by row."""
    job = prepare(table, inputs, FitOptions.judging(pi_kinds), truth=truth)
    with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
        fabric = make_fabric("cpu")
        fitted, answers = fit_and_predict(job, lambda each, _: train(each, Session(fabric)), fabric)
        assert answers is not None
        return judge_labels(job, fitted, answers, reasons=reasons)
