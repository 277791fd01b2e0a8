"""What PI was worth: a second fit in which the training rows have each other's PI, compared on held-out items.

Networks of PI may help by what comes with them, such as more weights or slower training. The second fit has all of
that, and the same seed; what it lacks is what PI says about a label. Random PI stays with its row.
"""

from dataclasses import replace

import numpy as np
import torch

from ..data.pi.random_pi import derive_seed
from ..detect.gold.estimates import t_quantile
from ..errors import UsageError
from ..run.records.summary import PIWorth
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


def measure_worth(job: Job, own: Answers, control: Answers) -> list[PIWorth]:
    """Compare the classifiers of two fits on held-out rows: with the given labels, and with the consensus.

    The consensus is partly what a classifier says itself, so that of each fit counts half. Intervals are by items, and
    as if one more row differed, so that they have a width where none does.
    """
    rows = np.flatnonzero(job.valid)
    groups, item = np.unique(group_of_rows(job.rows.groups)[rows], return_inverse=True)
    said = np.stack([each.predictions.predicted[rows] for each in (own, control)])
    best = np.stack([each.posteriors.label[groups[item]] for each in (own, control)])
    found = []
    for what, agrees in (
        ("their noisy labels", said == own.predictions.given[rows]),
        ("the consensus", (said[:, None] == best).mean(1)),
    ):
        (first, second), n = agrees.mean(1).tolist(), len(groups)
        off = np.bincount(item, agrees[0] * 1.0 - agrees[1] - (first - second))
        half = t_quantile(n - 1) * float(np.sqrt(off @ off + 1)) / len(rows)
        ends = max(-1.0, first - second - half), min(1.0, first - second + half)
        found.append(PIWorth(what, n, first, second, first - second, *ends))
    return found
