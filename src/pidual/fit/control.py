"""What PI was worth: a second fit in which the training rows have each other's PI, compared on held-out items.

Networks of PI may help by what comes with them, such as more weights or slower training. The second fit has all of
that, and the same seed; what it lacks is what PI says about a label. Random PI stays with its row.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.pi.random_pi import derive_seed
from ..detect.gold.estimates import t_quantile
from ..errors import UsageError
from ..run.records.summary import Gain, PIWorth
from .predict import Answers, group_of_rows
from .prepare import Job


def shuffle_pi(job: Job) -> Job:
    """Return the job with the PI of the training rows, but for random PI, dealt out again among them."""
    trained = torch.from_numpy(np.flatnonzero(job.train))
    order = trained[np.random.default_rng(derive_seed(job.options.seed, 14)).permutation(len(trained))]
    codes, numbers = job.rows.codes.clone(), job.rows.numbers.clone()
    codes[trained], numbers[trained] = codes[order], numbers[order]
    return replace(job, rows=replace(job.rows, codes=codes, numbers=numbers))


def check_control(job: Job) -> None:
    """Refuse a control of a method that trains nothing on PI, and one without held-out labels."""
    if job.method_class.by_item or not job.method_class.needs_pi or not job.spec.pi_dim:
        raise UsageError("A control needs a network that is given PI; use --method pi_dual, and --pi with its columns.")
    if not job.valid.any():
        raise UsageError("A control is compared on held-out labels, and none is held out; give --valid-fraction 0.1.")


def measure_worth(job: Job, own: Answers, control: Answers) -> PIWorth:
    """Compare the classifiers of two fits on held-out rows: with the given labels, and with the consensus.

    The consensus is partly what a classifier says itself, so that of each fit counts half.
    """
    rows = np.flatnonzero(job.valid)
    item = group_of_rows(job.rows.groups)[rows]
    said = np.stack([each.predictions.predicted[rows] for each in (own, control)])
    best = np.stack([each.posteriors.label[item] for each in (own, control)])
    right, agrees = said == own.predictions.given[rows], (said[:, None] == best).mean(1)
    return PIWorth(len(np.unique(item)), _gain(right.astype(float), item), _gain(agrees, item))


def _gain(shares: NDArray[np.float64], item: NDArray[np.int64]) -> Gain:
    """Return the means of two rows of shares (2, R), and what the first is ahead, with an interval by items.

    As if one more row differed, so that it has a width where none does.
    """
    own, control = shares.mean(1).tolist()
    off = np.bincount(item, shares[0] - shares[1] - (own - control))
    half = t_quantile(len(np.unique(item)) - 1) * float(np.sqrt(off @ off + 1)) / len(item)
    return Gain(own, control, own - control, max(-1.0, own - control - half), min(1.0, own - control + half))
