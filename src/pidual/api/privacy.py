"""The table of a fit, and what a copy of the fitted classifier may hold of people: numbers in place of ids."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from msgspec import structs
from numpy.typing import NDArray

from ..data import AnnotationTable
from ..data.people import has_address, holds_people, is_address, people_in, refuse_people_as_columns
from ..detect.copies import copied_by
from ..errors import DataError
from ..run.records.summary import Summary


def make_table(
    label: pd.Categorical, items: NDArray[np.int64], pi: Any, weight: NDArray[np.float64], keep_ids: bool
) -> AnnotationTable:
    """Make the table of a fit; rows of weight 0 are in its test split, which nothing is learned from.

    Annotators have their ids, and people in other columns numbers, unless `keep_ids`.
    """
    split = np.where(weight == 0, "test", "train") if (weight == 0).any() else None
    table = AnnotationTable.from_arrays(label, items, pi, split=split, keep_ids=True, source="pi")
    if keep_ids:
        return replace(table, frame=in_order(table.frame, weight > 0))
    refuse_people_as_columns("pi", table.pi_columns)
    if any(map(is_address, label.categories)):
        raise DataError(
            "a class of y has an e-mail address in it, which every copy of the classifier would hold; rename the "
            "class, or keep ids with keep_ids=True."
        )
    others = {name: _without_ids(name, table.frame[name]) for name in table.people if name != "annotator"}
    return replace(table, frame=in_order(table.frame.assign(**others), weight > 0))


def _without_ids(name: str, values: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of people with numbers in their place, or in place of e-mail addresses among other values."""
    codes, found = pd.factorize(values)
    some = people_in(name, values) == "some"
    names = [str(one) if some and not has_address(one) else f"{name}-{code}" for code, one in enumerate(found, 1)]
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(names)))


def in_order(frame: pd.DataFrame, used: NDArray[np.bool_]) -> pd.DataFrame:
    """Put categories of PI in the order in which they come, those of rows that are not used last."""
    if used.all():
        return frame
    ordered = {}
    for name in frame.columns.drop(["item", "label", "split"]):
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            codes = frame[name].cat.codes.to_numpy()
            order = pd.unique(np.concatenate([codes[used], codes[~used]]))
            ordered[name] = frame[name].cat.set_categories(frame[name].cat.categories[order[order >= 0]])
    return frame.assign(**ordered)


def index_without_ids(index: pd.Index, known: Collection[str] = ()) -> pd.Index:
    """Return an index with numbers in place of people, in any of its levels; `known` are ids of annotators."""
    if isinstance(index, pd.MultiIndex):
        levels = [index_without_ids(index.get_level_values(level), known) for level in range(index.nlevels)]
        return pd.MultiIndex.from_arrays(levels, names=index.names)
    name = "" if index.name is None else str(index.name)
    values = pd.Series(index) if pd.api.types.is_numeric_dtype(index) else pd.Series(index).astype("category")
    is_known = not pd.api.types.is_numeric_dtype(index) and bool(index.astype(str).isin(list(known)).any())
    if not is_known and not holds_people(name, values):
        if not any(map(has_address, values.unique())):
            return index
        return index.map(lambda value: "(an e-mail address)" if has_address(value) else value)
    return pd.Index([f"{name or 'row'}-{code + 1}" for code in pd.factorize(index)[0]], name=index.name)


def summary_without_ids(summary: Summary, annotators: pd.DataFrame | None) -> Summary:
    """Return a summary with the numbers of `numbered` in place of annotators' ids."""
    agreement = summary.agreement
    if agreement is None or annotators is None:
        return summary
    names = {str(name): f"annotator-{i}" for i, name in enumerate(annotators["annotator"], 1)}
    pairs = [structs.replace(pair, a=names[pair.a], b=names[pair.b]) for pair in agreement.pairs]
    copies = [structs.replace(one, annotators=[names[who] for who in one.annotators]) for one in summary.copies]
    return structs.replace(summary, agreement=structs.replace(agreement, pairs=pairs), copies=copies)


def numbered(annotators: pd.DataFrame, summary: Summary) -> pd.DataFrame:
    """Return the annotators' table with numbers in place of ids; the summary has them already."""
    names = [f"annotator-{i}" for i in range(1, len(annotators) + 1)]
    copies = pd.Series(copied_by(names, summary.copies), dtype="str")
    return annotators.assign(annotator=pd.Categorical(names), copies=copies)
