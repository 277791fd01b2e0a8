"""Why a label looks wrong, in a few plain words, from evidence that is in the data.

Privileged information is mentioned only where it tells something: a very low or high value only if labels with such
values are flagged clearly more often than labels are overall, a category likewise. Annotators are called "this
annotator"; no id is ever written.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError
from ..metrics import wilson_interval
from ..predictions import Predictions, join_parts

Array = npt.NDArray[Any]
Texts = list[str]

TAIL = 0.05  # a value is extreme beyond this share of values
LIFT = 1.5  # evidence must go with this many times the usual share of issues
MIN_SUPPORT = 20  # rows a tail or a category needs before it counts as evidence
MAX_NAMED_CATEGORIES = 50  # values of a column with more may be ids and are not written out
MAX_SORTED = 500_000  # rows from which percentiles are taken
CLEARLY_LOWER = 0.05  # by how much an annotator must be below the others to be mentioned
MAX_NAME = 40

PERCENT = np.array(["under 1%", *(f"{i}%" for i in range(1, 100)), "over 99%"], dtype=object)


def reasons_for(predictions: Predictions, is_issue: npt.ArrayLike, *, posterior: bool = False) -> dict[str, Texts]:
    """Parts of the reasons for these issues of `predictions`, in row order; see `find_reason_parts`.

    Where the quality is a `posterior`, the gate follows from it and says nothing more.
    """
    pi = predictions.frame[predictions.pi_columns] if predictions.pi_columns else None
    return find_reason_parts(
        is_issue,
        classes=predictions.classes,
        given=predictions.given,
        predicted=predictions.suggested,
        label_quality=predictions.label_quality,
        predicted_probability=predictions.suggested_probability,
        by_consensus=predictions.has_consensus,
        item=predictions.item,
        annotator=predictions.annotator,
        gate=None if posterior else predictions.gate,
        pi=pi,
    )


def find_reasons(is_issue: npt.ArrayLike, **evidence: Any) -> Texts:
    """A short reason for every issue, in row order: the parts of `find_reason_parts`, which takes the same, as text."""
    parts = find_reason_parts(is_issue, **evidence)
    return [join_parts(row) for row in zip(*parts.values(), strict=True)]


def find_reason_parts(
    is_issue: npt.ArrayLike,
    *,
    classes: Sequence[Any],
    given: npt.ArrayLike,
    predicted: npt.ArrayLike,
    label_quality: npt.ArrayLike,
    predicted_probability: npt.ArrayLike,
    by_consensus: bool = False,
    item: npt.ArrayLike | None = None,
    annotator: npt.ArrayLike | None = None,
    gate: npt.ArrayLike | None = None,
    pi: pd.DataFrame | None = None,
) -> dict[str, Texts]:
    """Why each issue looks wrong, in parts that each say one thing.

    Parameters
    ----------
    is_issue : bool array (N,)
    classes : list
        Class names in the order of their codes.
    given, predicted : int array (N,)
        Codes of the given labels, and of those to put in their place.
    label_quality, predicted_probability : array (N,)
        Probability of the given, and of the other label.
    by_consensus : bool
        Whether the other label is the consensus of the item; else it is what the model predicts.
    item, annotator : int array (N,), optional
        Codes; with items, the other labels of the same item are counted; with annotators, their quality is compared.
    gate : array (N,), optional
    pi : pandas.DataFrame (N rows), optional
        PI columns with their raw values.

    Returns
    -------
    dict of lists of str
        By name of the part, in the order in which they are read: label (what consensus or model say instead), votes,
        annotator, pi, gate; a part is left out where it is not looked for. One text per issue, in row order; "" where
        there is nothing to say.
    """
    is_issue, given, predicted = np.asarray(is_issue, dtype=bool), np.asarray(given), np.asarray(predicted)
    if not is_issue.shape == given.shape == predicted.shape:
        raise UsageError(
            f"Issues, given and predicted labels need one value per annotation, but their shapes are "
            f"{is_issue.shape}, {given.shape} and {predicted.shape}."
        )
    rows = np.flatnonzero(is_issue)
    if not len(rows):
        return {}
    names = np.array([_short(name) for name in classes], dtype=object)
    sure = np.asarray(label_quality), np.asarray(predicted_probability)
    parts = {"label": _other_label(rows, names, given, predicted, *sure, by_consensus)}
    if item is not None:
        parts["votes"] = _votes(rows, names, given, predicted, np.asarray(item), len(names))
    if annotator is not None:
        who = "consensus" if by_consensus else "model"
        parts["annotator"] = _annotator(rows, given == predicted, np.asarray(annotator), who)
    if pi is not None and len(pi.columns):
        columns = [_pi_column(rows, str(name), pi[name], is_issue) for name in pi]
        parts["pi"] = [join_parts(row) for row in zip(*columns, strict=True)]
    if gate is not None:
        parts["gate"] = _gate(rows, np.asarray(gate))
    return parts


def _other_label(
    rows: Array, names: Array, given: Array, predicted: Array, quality: Array, probability: Array, by_consensus: bool
) -> Texts:
    """What consensus or model say instead, and how likely the given label is."""
    says, gives = ("consensus is", "consensus gives") if by_consensus else ("model says", "model gives")
    other = given[rows] != predicted[rows]
    sure, left = _percent(probability[rows]), _percent(quality[rows])
    said, instead = names[predicted[rows]], names[given[rows]]
    return [
        f"The {says} {a} ({p}), not {b} ({q})." if differs else f"The {gives} {b} only {q}."
        for differs, a, p, b, q in zip(other, said, sure, instead, left, strict=True)
    ]


def _votes(rows: Array, names: Array, given: Array, predicted: Array, item: Array, k: int) -> Texts:
    """How the other labels of the item fall."""
    item = item.astype(np.int64)
    mine = item[rows]
    others = np.bincount(item)[mine] - 1
    concerned = np.zeros(int(item.max()) + 1, dtype=bool)
    concerned[mine] = True
    near = concerned[item]
    keys, counts = np.unique(item[near] * k + given[near], return_counts=True)

    def votes(label: Array) -> Array:
        wanted = mine * k + label
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, counts[at], 0)

    differs = given[rows] != predicted[rows]
    same = votes(given[rows]) - 1
    against = np.where(differs, votes(predicted[rows]), 0)
    return [
        _vote_text(n, m, s, a) if n else ""
        for n, m, s, a in zip(others.tolist(), against.tolist(), same.tolist(), names[predicted[rows]], strict=True)
    ]


def _vote_text(others: int, against: int, same: int, predicted: str) -> str:
    if others == 1:
        only = f"says {predicted}" if against else "says the same as this one" if same else "says something else again"
        return f"The only other label of this item {only}."
    if max(against, same) == others:
        return f"All {others} other labels of this item say {predicted if against else 'the same as this one'}."
    say, agree = ("says" if against == 1 else "say"), ("agrees" if same == 1 else "agree")
    first = f"{against or 'none'} of {others} other labels of this item {say} {predicted}"
    return f"{first[0].upper()}{first[1:]}, {same or 'none'} {agree} with this one."


def _annotator(rows: Array, agrees: Array, annotator: Array, who: str) -> Texts:
    """This annotator beside the others, where clearly worse."""
    n = np.bincount(annotator)
    agreed = np.bincount(annotator, weights=agrees)
    rest = (agreed.sum() - agreed) / np.maximum(n.sum() - n, 1)
    share = agreed / np.maximum(n, 1)
    _, high = wilson_interval(agreed, n)
    worse = (share < rest - CLEARLY_LOWER) & (high < rest) & (n < n.sum())
    texts = np.full(len(n), "", dtype=object)
    for one in np.flatnonzero(worse):
        texts[one] = (
            f"The {who} agrees with {share[one]:.0%} of this annotator's labels, with {rest[one]:.0%} of the others'."
        )
    found: Texts = texts[annotator[rows]].tolist()
    return found


def _pi_column(rows: Array, name: str, column: "pd.Series[Any]", is_issue: Array) -> Texts:
    """What a PI column tells, if anything."""
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return _extreme(rows, name, column.to_numpy(dtype=np.float64, na_value=np.nan), is_issue)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return [""] * len(rows)
    return _category(rows, name, column.astype("category"), is_issue)


def _extreme(rows: Array, name: str, values: Array, is_issue: Array) -> Texts:
    """Very low or very high values, where such values go with issues."""
    texts = np.full(len(rows), "", dtype=object)
    known = np.isfinite(values)
    ordered = np.sort(values[known][:: max(1, int(known.sum()) // MAX_SORTED)])
    if len(ordered) < MIN_SUPPORT / TAIL or ordered[0] == ordered[-1]:
        return list(texts)
    mine = values[rows]
    fewer = np.searchsorted(ordered, mine, side="left") / len(ordered)
    more = 1 - np.searchsorted(ordered, mine, side="right") / len(ordered)
    low, high = np.quantile(ordered, [TAIL, 1 - TAIL])
    if _tells(known & (values <= low), is_issue):
        _fill(texts, np.isfinite(mine) & (more >= 1 - TAIL), mine, more, _extreme_text(name, lower=True))
    if _tells(known & (values >= high), is_issue):
        _fill(texts, np.isfinite(mine) & (fewer >= 1 - TAIL), mine, fewer, _extreme_text(name, lower=False))
    return list(texts)


def _fill(texts: Array, where: Array, values: Array, shares: Array, write: Callable[[float, str], str]) -> None:
    chosen = np.flatnonzero(where)
    texts[chosen] = [
        write(value, f"{min(int(100 * share + 0.5), 99)}%")
        for value, share in zip(values[chosen].tolist(), shares[chosen].tolist(), strict=True)
    ]


def _extreme_text(name: str, *, lower: bool) -> Callable[[float, str], str]:
    """How to say that a value of this column is lower, or higher, than most."""
    words = set(name.lower().replace("-", "_").replace(" ", "_").split("_"))
    timed = bool(
        words & {"time", "duration", "latency", "rt", "seconds", "secs", "sec", "ms", "elapsed"}
    ) or name.lower().endswith("time")
    unit = " ms" if words & {"ms", "milliseconds"} else " s" if words & {"s", "sec", "secs", "seconds"} else ""
    if timed and unit:
        speed = "faster" if lower else "slower"
        return lambda value, share: f"Answered in {value:.3g}{unit}, {speed} than {share} of answers."
    side = ("faster" if lower else "slower") if timed else ("lower" if lower else "higher")
    return lambda value, share: f"{_short(name)} is {value:.3g}, {side} than {share} of answers."


def _category(rows: Array, name: str, column: "pd.Series[Any]", is_issue: Array) -> Texts:
    """Categories in which clearly more labels are issues than overall."""
    codes = column.cat.codes.to_numpy().astype(np.int64)
    categories = column.cat.categories
    n = np.bincount(codes + 1, minlength=len(categories) + 1)[1:]
    issues = np.bincount(codes + 1, weights=is_issue, minlength=len(categories) + 1)[1:]
    share, overall = issues / np.maximum(n, 1), is_issue.mean()
    low, _ = wilson_interval(issues, n)
    named = len(categories) <= MAX_NAMED_CATEGORIES
    texts = np.full(len(n) + 1, "", dtype=object)
    for code in np.flatnonzero((n >= MIN_SUPPORT) & (share >= LIFT * overall) & (low > overall)):
        what = (
            f"{_short(name)} is {_short(categories[int(code)])}" if named else f"Of labels with the same {_short(name)}"
        )
        joint = ", of which" if named else ","
        texts[code + 1] = f"{what}{joint} {share[code]:.0%} look wrong ({overall:.0%} overall)."
    found: Texts = texts[codes[rows] + 1].tolist()
    return found


def _gate(rows: Array, gate: Array) -> Texts:
    """A gate that is open, and more so than usual."""
    usual = float(np.median(gate))
    return [
        f"How it was made explains it better than the item does (gate {g:.2f})." if g >= 0.5 and g > usual else ""
        for g in gate[rows].tolist()
    ]


def _tells(tail: Array, is_issue: Array) -> bool:
    """Whether rows in `tail` are issues clearly more often than rows are overall."""
    n = int(np.count_nonzero(tail))
    return n >= MIN_SUPPORT and bool(is_issue[tail].mean() >= LIFT * is_issue.mean())


def _percent(shares: Array) -> Iterable[str]:
    """Shares as words; a share that rounds to nothing or all is said to be under or over."""
    whole = np.clip(np.rint(shares * 100), 1, 99).astype(np.int64)
    found: Texts = PERCENT[np.where(shares < 0.01, 0, np.where(shares > 0.99, 100, whole))].tolist()
    return found


def _short(name: Any) -> str:
    text = " ".join(str(name).split())
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"
