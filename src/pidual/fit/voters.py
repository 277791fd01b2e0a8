"""Fit, and where annotators turn out to copy each other, fit again with each cluster of them as one voter."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric

from ..detect.copies import Copies, find_copies
from ..detect.sentences import describe_copies
from ..learn.engine import Fitted, Progress
from .predict import Answers, group_of_rows, predict
from .prepare import Job

MERGED = "merged"  # the part of a run's state that the second fit has
MOST_NUMBERS = 2**23  # answers x classes that are searched for copies; of more, those of evenly spaced items


def fit_and_predict(
    job: Job, fit: Callable[[str], Fitted], fabric: Fabric, progress: Progress | None = None
) -> tuple[Fitted, Answers | None]:
    """Fit a job, and return what the fitted method says; None on all processes but the first.

    The job's votes change where annotators copy each other. A method that judges items has then learned that they are
    right, because they agree, and is fitted again; others are asked again.

    Parameters
    ----------
    job : Job
    fit : callable
        Fits the job, given the name of a part of its state: "" or MERGED.
    fabric : Fabric
    progress : Progress, optional
        Notes who copies.
    """
    first, fitted = fabric.global_rank == 0, fit("")
    answers = predict(job, fitted, fabric) if first else None
    found: tuple[Copies, Copies] | None = fabric.broadcast(None if answers is None else search_copies(job, answers))
    if found is None:
        return fitted, answers
    people = [str(name) for name in job.table.frame["annotator"].cat.categories]
    job.copies, job.open_pairs = (pairs.describe(people) for pairs in found)
    if not job.copies:
        return fitted, answers
    voter = found[0].voters(len(people))[job.table.annotator_codes]
    vote = pd.factorize(job.table.item_codes.astype(np.int64) * len(people) + voter)[0]
    job.rows = replace(job.rows, vote=torch.from_numpy(vote))
    if first and progress is not None:
        for record in job.copies:
            progress.note(f"Warning: {describe_copies(record)}")
    fitted = fit(MERGED) if job.method_class.by_item else fitted
    return fitted, predict(job, fitted, fabric) if first else None


def search_copies(job: Job, answers: Answers) -> tuple[Copies, Copies] | None:
    """Return what `find_copies` finds in all answers and what inputs say; None where annotators are not known."""
    who, kept = job.table.annotator_codes, answers.by_input
    if who is None or kept is None:
        return None
    rows = np.arange(len(who)) if job.counted is None else job.counted
    step = -(-(len(rows) + len(kept.items)) * job.spec.n_classes // MOST_NUMBERS)
    number, every = group_of_rows(job.rows.groups), kept.every * step
    rows = rows[number[rows] % every == 0]
    p = np.exp(kept.log_p[::step].astype(np.float32))
    return find_copies(number[rows] // every, who[rows], job.table.label_codes[rows], p)
