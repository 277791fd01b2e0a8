"""How PI changes the chance of a right answer, by the answer model, and how reliable that is."""

import numbers as number_types
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.pi import PIColumn, quantity
from ..data.pi.encoder import is_moment, numbers
from ..detect.counts import numbered
from ..detect.informative import FEW_VALUES, TAILS, WrongAnswers, find_informative
from ..learn.answers.model import AnswerModel, Answers
from ..learn.answers.rows import AnswerRows
from ..learn.batch import Rows, Spec
from ..metrics import NORMAL_95
from ..run.records.summary import PIEffect

ENDS = TAILS[1]  # of a column of numbers: rows of so low, and so high values are compared
EFFECT_NUMBERS = 2**20  # answers x classes that effects of PI are a mean of
MIN_SUPPORT = 20  # annotations that a category, or a column, needs
MAX_NAMED_CATEGORIES = 50  # values of a column with more may be ids and are not written out


def pi_effects(
    model: AnswerModel,
    answers: AnswerRows,
    spec: Spec,
    frame: pd.DataFrame,
    columns: Sequence[PIColumn],
    truth: NDArray[np.int64],
    learned: NDArray[np.bool_],
) -> list[PIEffect]:
    """Return how likely a right answer is where a PI column is low, and where it is high, all else being as it is.

    `answers`: all annotations.
    `spec`, `frame`, `columns`: how they are encoded, and what they are as they are.
    `truth` (N,): most likely class of each annotation's item.
    `learned` (N,): which annotations may be looked at.
    Returned: for every column but the annotator; low and high are its values at the 10th and the 90th percentile, or
        the categories of lowest and highest probability among the frequent ones. A column of more than 50 categories is
        left out, as these may be names.
    """
    known = np.flatnonzero(learned)
    sample = known[:: max(1, len(known) * spec.n_classes // EFFECT_NUMBERS)]
    effect = partial(_right_with, model, answers, sample, truth[sample] % answers.n_classes)
    found: list[tuple[str, tuple[Any, Any], tuple[float, float]]] = []
    for column in columns:
        if column.name == "annotator":
            continue
        codes = [at for at, name in enumerate(spec.code_names) if name == column.name]
        quantities = [at for at, name in enumerate(spec.number_names) if name == column.name]
        typical = _typical_rows(column, frame[column.name], answers.rows, codes, known)
        rights = [(effect(row, codes, quantities), value) for row, value in typical]
        if column.kind == "category":
            rights.sort(key=lambda pair: pair[0])
        if len(rights) > 1:
            (low, low_value), (high, high_value) = rights[0], rights[-1]
            found.append((column.name, (low_value, high_value), (low, high)))
    return with_uncertainty(found, frame.iloc[known], truth[known])


def _typical_rows(
    column: PIColumn, values: "pd.Series[Any]", rows: Rows, codes: list[int], known: NDArray[np.int64]
) -> list[tuple[int, Any]]:
    """Return annotations with a low and a high value of a column, or each of its frequent categories, and these."""
    if column.kind == "category":
        if not codes or column.n_codes > MAX_NAMED_CATEGORIES:
            return []
        code = rows.codes[:, codes[0]].numpy()[known]
        names = [*column.categories, *["other"] * column.other, *["missing"] * column.missing]
        count = np.bincount(code[code >= 0], minlength=len(names))
        frequent = np.flatnonzero(count >= max(MIN_SUPPORT, len(known) / 100))
        return [(int(known[np.argmax(code == one)]), str(names[one])) for one in frequent]
    number = quantity(values.iloc[known], column.kind)
    finite = np.flatnonzero(np.isfinite(number))
    order = finite[np.argsort(number[finite], kind="stable")]
    for share in (0.1, 0.01):
        if len(order) < MIN_SUPPORT:
            break
        places = order[int(share * len(order))], order[int((1 - share) * (len(order) - 1))]
        if number[places[0]] < number[places[1]]:
            return [(int(known[at]), _plain(values.iloc[known[at]])) for at in places]
    return []


def _plain(value: Any) -> float | str:
    """Return a value of a PI column as JSON has it."""
    return float(value) if isinstance(value, number_types.Real) else str(value)


def _right_with(
    model: AnswerModel,
    answers: AnswerRows,
    sample: NDArray[np.int64],
    truth: NDArray[np.int64],
    row: int,
    codes: list[int],
    quantities: list[int],
) -> float:
    """Return the mean probability of a right answer, were these PI columns as in one row."""
    all_codes, all_numbers = answers.rows.codes.numpy(), answers.rows.numbers.numpy()
    changed, moved = all_codes[sample].copy(), all_numbers[sample].copy()
    changed[:, codes], moved[:, quantities] = all_codes[row, codes], all_numbers[row, quantities]
    n, k = len(sample), answers.n_classes
    said = Answers.build(np.arange(n), truth, answers.design, changed, moved, n_items=n, n_classes=k)
    log_p = model.log_likelihood(said)[np.arange(len(sample)), truth]
    return float(np.exp(log_p).mean())


def with_uncertainty(
    effects: Sequence[tuple[str, tuple[Any, Any], tuple[float, float]]], frame: pd.DataFrame, truth: NDArray[np.int64]
) -> list[PIEffect]:
    """Return effects of PI columns with an interval of their difference, and whether each indicates wrong answers.

    The interval has the width of that of a plain comparison: of rows with low values and rows with high values, or of
    the two categories, each answer beside the same annotator's others; answers to one item count together.

    `effects`: of each column: name, low and high value, and how likely an answer is right at these.
    `frame` (N rows): item, label, PI columns and, where known, annotator.
    `truth` (N,): most likely class of every row's item.
    """
    wrong = frame["label"].cat.codes.to_numpy() != truth
    who = frame["annotator"].cat.codes.to_numpy() if "annotator" in frame else None
    item = frame["item"].cat.codes.to_numpy()
    answers = WrongAnswers.of(wrong, who, item)
    columns = [name for name, _, _ in effects]
    informative = {one.name: bool(one.is_informative.any()) for one in find_informative(frame[columns], answers)}
    found = []
    for name, values, (right_at_low, right_at_high) in effects:
        difference, reach = right_at_high - right_at_low, NORMAL_95 * spread(answers, *ends(frame[name], *values))
        effect = PIEffect(
            column=name,
            low=values[0],
            high=values[1],
            right_at_low=right_at_low,
            right_at_high=right_at_high,
            difference=difference,
            difference_low=float(np.clip(difference - reach, -1, 1)),
            difference_high=float(np.clip(difference + reach, -1, 1)),
            tells=informative[name],
        )
        found.append(effect)
    return found


def ends(column: "pd.Series[Any]", low: Any, high: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return rows with low, and with high values of a column; of categories, or few different numbers, those named."""
    if isinstance(low, str) and not is_moment(column):
        values = column.astype("category")
        names = np.array([*map(str, values.cat.categories), "missing"], dtype=object)[values.cat.codes]
        return names == low, names == high
    known = numbers(column)
    if not is_moment(column) and len(np.unique(known[np.isfinite(known)])) <= FEW_VALUES:
        return known == low, known == high
    first, last = np.nanquantile(known, [ENDS, 1 - ENDS])
    return known <= first, known >= last


def spread(answers: WrongAnswers, low: NDArray[np.bool_], high: NDArray[np.bool_]) -> float:
    """Return the standard error of the difference of two groups' shares of wrong answers."""
    off, total = answers.wrong - answers.rate, 0.0
    for group in (low, high):
        rows = np.flatnonzero(group)
        per_item = np.bincount(numbered(answers.item[rows])[1], weights=off[rows])
        total += float((per_item**2).sum()) / max(len(rows), 1) ** 2 if len(rows) else 1.0
    return float(np.sqrt(total))
