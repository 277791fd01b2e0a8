"""Which rows of a table are one answer: one person, one item, one vote."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MANY_VALUES = 20  # of a PI column that tells answers apart where annotators are not known


def number_answers(frame: pd.DataFrame, pi: list[str]) -> NDArray[np.int64] | None:
    """Return the number of the answer that each row belongs to, None where every row is an answer of its own.

    Rows of one annotator about one item are one answer, whatever their other columns hold: a second submission, or rows
    that a join has multiplied. Where annotators are not known, two people may give the same answer. So only rows that
    are equal in every column are one answer, and only if they share a PI value that is rare: of a column with another
    value in at least every second answer. A column that differs in every row, such as an id, is not compared.
    """
    if len(frame["item"].cat.categories) == len(frame):
        return None
    if "annotator" in frame:
        people = frame["annotator"].cat
        key = frame["item"].cat.codes.to_numpy().astype(np.int64) * len(people.categories) + people.codes.to_numpy()
        if not pd.Series(key).duplicated().any():  # much faster than to number them
            return None
        return pd.factorize(key)[0].astype(np.int64)
    compared = frame.drop(columns=[name for name in pi if frame[name].is_unique])
    repeated = compared.duplicated().to_numpy()
    least = max(MANY_VALUES, np.count_nonzero(~repeated) / 2)
    rare = [name for name in pi if name in compared and compared[name].nunique() >= least]
    same = compared.duplicated(keep=False).to_numpy() & compared[rare].notna().any(axis=1).to_numpy()
    if not same.any():
        return None
    number = np.arange(len(frame), dtype=np.int64)
    number[same] = len(frame) + compared[same].groupby(list(compared), observed=True, dropna=False).ngroup().to_numpy()
    return pd.factorize(number)[0].astype(np.int64)


def describe_repeats(number: NDArray[np.int64] | None, *, people: bool) -> list[str]:
    """Return a sentence on rows that repeat an answer; none where every row is an answer of its own."""
    if number is None:
        return []
    n = len(number) - int(number.max()) - 1
    what = "an answer of the same person to the same item" if people else "another row in every column"
    verb = "repeats" if n == 1 else "repeat"
    return [f"{n:,} of {len(number):,} rows {verb} {what}; together they count as one answer."]
