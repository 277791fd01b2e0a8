"""Which labels a run would change, and to what."""

import numpy as np
import pandas as pd

from ..run.files import RunFiles

COLUMNS = ["row", "item", "annotator", "given_label", "new_label", "source", "label_quality", "consensus_quality"]


def decide(run: RunFiles, sure: float = 0.0) -> pd.DataFrame:
    """The labels that a run marks as issues, with the consensus of their items as the new ones.

    Parameters
    ----------
    run : RunFiles
        The run.
    sure : float
        Labels of items whose consensus is less likely than this stay.

    Returns
    -------
    pandas.DataFrame
        `row` (of the table, counted from 0), `item`, `annotator` where it is known, `given_label`, `new_label`,
        `source` of the change ("consensus"), `label_quality`, `consensus_quality` and `reason`, in table order.
    """
    frame = run.predictions.frame
    changed = frame["is_label_issue"].to_numpy(bool) & (frame["consensus_quality"].to_numpy(np.float64) >= sure)
    found: pd.DataFrame = frame[changed]
    found = found.assign(new_label=found["consensus_label"], source="consensus")
    differs = found["given_label"].astype(str) != found["new_label"].astype(str)
    found = found[differs].sort_values("row", kind="stable")
    return found[[name for name in [*COLUMNS, "reason"] if name in found]].reset_index(drop=True)
