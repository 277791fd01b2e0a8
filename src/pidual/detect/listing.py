"""Which labels to list: those that look wrong, or as many as somebody can look at. What a run says stays as it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.people import are_pseudonyms
from ..errors import UsageError
from ..errors.messages import listed, quoted
from ..run.predictions import Predictions
from .reasons import find_reasons

Rows = npt.NDArray[np.int64]
FIRST = ("row", "item", "text", "given_label", "consensus_label", "label_quality", "reason")  # what people look at


@dataclass(frozen=True)
class Choice:
    """What to list; by default the labels that look wrong."""

    cutoff: float | None = None  # instead: labels of lower quality than this
    budget: int | None = None  # instead: this many labels of lowest quality
    # instead: this many labels of lowest quality of each given class, or this share of them (below 1, rounded up)
    per_class: float | None = None
    # classes, annotators: list only labels of these classes, and only those by these annotators
    classes: tuple[Any, ...] = ()
    annotators: tuple[Any, ...] = ()
    resting: bool = False  # instead: the labels that rest on their own answer, or `budget` of lowest quality among them

    def __post_init__(self) -> None:
        given = [name for name in ("cutoff", "budget", "per_class") if getattr(self, name) is not None]
        given += ["resting"] * (self.resting and self.budget is None)
        if len(given) > 1:
            raise UsageError(f"{given[0]} and {given[1]} both choose what to list; pass only one.")
        if self.cutoff is not None and (isinstance(self.cutoff, str) or not 0 <= self.cutoff <= 1):
            raise UsageError(f"The cut-off {self.cutoff!r} is not between 0 and 1, the range of label quality.")
        if self.budget is not None and self.budget < 0:
            raise UsageError(f"The budget {self.budget} is negative; give the number of labels to list.")
        if self.per_class is not None and not (
            0 < self.per_class < 1 or (self.per_class >= 1 and self.per_class == int(self.per_class))
        ):
            raise UsageError(
                f"per_class must be a number of labels, or a share above 0 and below 1, not {self.per_class!r}."
            )


def list_labels(predictions: Predictions, choice: Choice, about: "pd.Series[str] | None" = None) -> pd.DataFrame:
    """List the chosen rows, most suspicious first, each with its reason; is_label_issue is what it was.

    With `per_class` the rows come by their place within their class, so that a rare class is not at the end.

    `predictions`: marked.
    `about`: what items are about, by row of the table: the column text.
    """
    rows = _choose_rows(predictions, choice)
    frame = predictions.frame.drop(columns=predictions.reason_parts).iloc[rows].copy()
    told = (frame["reason"] != "").to_numpy()
    if not told.all():
        shown = np.bincount(rows[~told], minlength=len(predictions)) > 0
        texts = np.full(len(predictions), "", dtype=object)
        texts[shown] = find_reasons(predictions, shown)["whole"]
        frame["reason"] = pd.Series(np.where(told, frame["reason"], texts[rows]), index=frame.index, dtype="str")
    if about is not None and len(about) and "text" not in frame:
        frame["text"] = frame["row"].map(about).fillna("")
    first = [name for name in FIRST if name in frame]
    return frame[first + [name for name in frame.columns if name not in first]]


def _choose_rows(predictions: Predictions, choice: Choice) -> Rows:
    """Return the positions of the chosen rows, most suspicious first."""
    quality = predictions.label_quality
    order: Rows = np.argsort(quality, kind="stable")
    order = order[_wanted(predictions, choice)[order]]
    if choice.resting:
        return order[predictions.is_resting[order]][: choice.budget]
    if choice.budget is not None:
        return order[: choice.budget]
    if choice.per_class is not None:
        return _of_each_class(order, predictions.given, choice.per_class, len(predictions.classes))
    is_issue = predictions.is_issue if choice.cutoff is None else quality.astype(np.float64) < choice.cutoff
    return order[is_issue[order]]


def _of_each_class(order: Rows, given: npt.NDArray[Any], limit: float, n_classes: int) -> Rows:
    """Return the first rows of each class in `order`, by their place in the class."""
    code = given[order]
    count = np.bincount(code, minlength=n_classes)
    by_class = np.argsort(code, kind="stable")
    place = np.empty(len(order), np.int64)
    place[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    most = np.full(n_classes, limit) if limit >= 1 else np.ceil(count * limit - 1e-9)
    kept = np.flatnonzero(place < most[code])
    return order[kept[np.argsort(place[kept], kind="stable")]]


def _wanted(predictions: Predictions, choice: Choice) -> npt.NDArray[np.bool_]:
    """Return which rows are of the classes and annotators asked for."""
    wanted = np.ones(len(predictions), dtype=bool)
    if choice.classes:
        wanted &= _are_of(predictions.frame["given_label"], choice.classes, "class")
    if choice.annotators:
        if "annotator" not in predictions.frame:
            raise UsageError("Nothing is known about annotators here, so none can be chosen; leave the annotator out.")
        wanted &= _are_of(predictions.frame["annotator"], choice.annotators, "annotator")
    return wanted


def _are_of(column: "pd.Series[Any]", names: Iterable[Any], what: str) -> npt.NDArray[np.bool_]:
    """Return which values of a category column have one of these names."""
    known = {str(name): code for code, name in enumerate(column.cat.categories)}
    for name in names:
        if str(name) not in known:
            hidden = what == "annotator" and are_pseudonyms(known)
            hint = "; these are pseudonyms, and `pidual annotators RUN --names` says whose" if hidden else ""
            raise UsageError(f"There is no {what} {quoted(str(name))}; known are {listed(list(known), 10)}{hint}.")
    chosen = np.zeros(len(known), dtype=bool)
    chosen[[known[str(name)] for name in names]] = True
    return np.asarray(chosen[column.cat.codes.to_numpy()])


def expected_precision(quality: npt.ArrayLike) -> float | None:
    """Return the share of labels of these qualities that are expected to be wrong; None without labels."""
    quality = np.asarray(quality, np.float64)
    return float(np.mean(1 - quality)) if len(quality) else None
