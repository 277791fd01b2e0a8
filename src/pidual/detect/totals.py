"""What is said about answers as sums, which add up over the parts of a table: noise, people, number of issues.

    merge(run.judge(part) for part in parts)        as of run.judge of all parts together
    merge([merge(today), merge(yesterday)])

An item's answers must be in one part, as for `Run.judge`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.sources.in_arrow import in_pandas
from ..errors import UsageError
from ..metrics import NORMAL_90
from ..run.records.summary import Rate
from .annotators import describe_sums, worst_first
from .counts import Counts

ENDS = ("wrong_if_shared", "wrong_if_independent")
NEEDED = ("given_label", "consensus_label", "consensus_quality", "label_quality", "is_label_issue", "wrong", *ENDS)


@dataclass(frozen=True)
class Totals:
    """What `merge` returns: sums over judged answers; rows of one annotator about one item are one answer.

    Parameters
    ----------
    n_rows : int
        Judged labels.
    n_issues : int
        Those of them that look wrong.
    by_item : Series
        Sums over items: their number, that of their answers, wrong ones to be expected, and products of these.
    people : DataFrame
        Sums over the answers of each annotator.
    cells : DataFrame
        Answers, and right ones to be expected, by annotator, consensus and given label.

    See Also
    --------
    merge : Makes it.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, fit_table, make_crowd, merge
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> run = fit_table(table, Inputs.from_array(crowd.x), "runs/crowd")
    >>> totals = merge([run.judge(frame, crowd.x)])
    >>> totals.n_rows, totals.n_items, len(totals.annotators)
    (180, 60, 6)
    >>> bool(totals.noise.low < crowd.noise_rate < totals.noise.high)
    True
    """

    n_rows: int
    n_issues: int
    by_item: "pd.Series[float]"
    people: pd.DataFrame
    cells: pd.DataFrame

    def __repr__(self) -> str:
        return f"Totals({self.n_rows:,} labels of {self.n_items:,} items, {self.n_issues:,} look wrong)"

    @classmethod
    def of(cls, judged: Any) -> "Totals":
        """Add up the rows that `Run.judge` returned."""
        frame = in_pandas(judged)
        lost = [name for name in NEEDED if not isinstance(frame, pd.DataFrame) or name not in frame]
        if lost:
            raise UsageError(f"merge adds up what Run.judge returns, and a part has no column '{lost[0]}'; judge it.")
        n_rows, n_issues, named = len(frame), int(frame["is_label_issue"].sum()), "annotator" in frame
        frame = frame[~frame.duplicated(["item", "annotator"], keep="last")] if named else frame
        said = frame[["wrong", *ENDS]].astype(np.float64).assign(n=1.0)
        said["within"] = np.sqrt(said["wrong"] * (1 - said["wrong"]))
        item = said.groupby(frame["item"].astype(str).to_numpy()).sum()
        sums = item[["n", "wrong", *ENDS]].sum()
        sums["items"], sums["n_n"] = float(len(item)), (item["n"] ** 2).sum()
        sums["within"] = (item["within"] ** 2).sum()
        sums["n_wrong"], sums["wrong_wrong"] = (item["n"] * item["wrong"]).sum(), (item["wrong"] ** 2).sum()
        true, given = (frame[name].astype(object) for name in ("consensus_label", "given_label"))
        who = frame["annotator"].astype(str) if named else pd.Series("", frame.index, dtype="str")
        own = frame[["label_quality", "is_label_issue", ENDS[1]]].astype(np.float64)
        own = own.set_axis(["right", "issues", "wrong"], axis=1)
        n = frame["consensus_quality"].astype(np.float64)
        cells = pd.DataFrame({"n": n, "right": n * (given == true)}).groupby(
            [who.rename("who"), true.rename("true"), given.rename("given")]
        )
        people = own.assign(n=1.0).groupby(who.rename("who")).sum()
        return cls(n_rows, n_issues, sums, people if named else people[:0], cells.sum())

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.by_item["items"])

    @property
    def noise(self) -> Rate:
        """Estimated share of wrong labels, and the range that may be stated, as `summary.noise` of a run."""
        sums = self.by_item
        if not (n := float(sums["n"])):
            return Rate(0.0, 0.0, 0.0)
        ends = [float(sums[name]) / n for name in ("wrong", *ENDS)]
        between = sums["wrong_wrong"] - 2 * ends[0] * sums["n_wrong"] + ends[0] ** 2 * sums["n_n"]
        error = NORMAL_90 * float(np.sqrt(max(0.0, between) + sums["within"])) / n
        return Rate(ends[0], max(0.0, min(ends) - error), min(1.0, max(ends) + error))

    @property
    def annotators(self) -> pd.DataFrame | None:
        """One row per annotator: the columns of annotators.parquet that are sums; None where nobody is known."""
        if not len(self.people):
            return None
        names, cells = self.people.index, self.cells.reset_index()
        classes = sorted({*cells["true"], *cells["given"]})
        orders = {"who": names, "true": pd.Index(classes), "given": pd.Index(classes)}
        who, true, given = (order.get_indexer(pd.Index(cells[name])) for name, order in orders.items())
        n, rights = cells["n"].to_numpy(), cells["right"].to_numpy()
        counts = Counts.in_cells(who, true, given, n, rights, len(classes))
        n, rights, issues, wrong = (self.people[name].to_numpy() for name in ("n", "right", "issues", "wrong"))
        said = describe_sums(names, classes, n, rights, issues, counts, most=n - wrong)
        return worst_first(pd.DataFrame(said))


def merge(parts: Any) -> Totals:
    """Add up what `Run.judge` says about the parts of a table: noise, annotators, number of issues.

    Parameters
    ----------
    parts : sequence
        Tables that `Run.judge` returned, of pandas or Arrow, and sums that `merge` returned. All answers to an item are
        in one part.

    Returns
    -------
    Totals
        The same, to rounding, as of all parts in one table.

    See Also
    --------
    Run : Its `judge` judges new answers by a finished run.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, fit_table, make_crowd, merge
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> run = fit_table(table, Inputs.from_array(crowd.x), "runs/crowd")
    >>> parts = [frame[frame["item"] < 30], frame[frame["item"] >= 30]]  # or on other machines
    >>> totals = merge(run.judge(part, crowd.x) for part in parts)
    >>> totals.n_rows, totals.n_items
    (180, 60)
    """
    alone = not isinstance(parts, Iterable) or isinstance(parts, pd.DataFrame) or hasattr(parts, "__arrow_c_stream__")
    found = [part if isinstance(part, Totals) else Totals.of(part) for part in ([parts] if alone else parts)]
    if not found:
        raise UsageError("merge needs a part at least; give it tables that Run.judge returned.")
    people, cells = (pd.concat([getattr(part, name) for part in found]) for name in ("people", "cells"))
    return Totals(
        sum(part.n_rows for part in found),
        sum(part.n_issues for part in found),
        pd.DataFrame([part.by_item for part in found]).sum(),
        people.groupby(level=0).sum(),
        cells.groupby(level=[0, 1, 2]).sum(),
    )
