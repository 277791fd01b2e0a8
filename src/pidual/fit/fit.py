"""Train a job and ask it about every label; once more, where annotators copy each other, with these as one voter."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric

from ..detect.copies import Copies, find_copies
from ..detect.gold import LEAST_GOLD
from ..detect.sentences import describe_copies
from ..errors import UsageError
from ..learn.engine import Callback, Fitted, Progress, Session, fit
from ..learn.engine.callbacks import Record, append_record, write_history
from ..learn.engine.fit import Trainer
from ..learn.engine.session import using_threads
from ..learn.methods.fitted_truth import AnswerWeights
from .closed import fit_closed
from .gold import Gold
from .label_sets import fit_sets
from .predict import Answers, group_of_rows, predict
from .prepare import Job

MERGED, UNTOLD = "merged", "untold"  # parts of a run's state: of the fit with merged votes, and that without gold
MOST_NUMBERS = 2**23  # answers x classes that are searched for copies; of more, those of evenly spaced items

FitPart = Callable[[Job, str], Fitted]


def fit_and_predict(
    job: Job, fit_part: FitPart, fabric: Fabric, progress: Progress | None = None
) -> tuple[Fitted, Answers | None]:
    """Fit a job, and return what the fitted method says; None on all processes but the first.

    Items of known class, if they are enough, correct what is said: see `gold`. A method that does not judge items
    learns from labels alone, and is fitted once.

    `fit_part`: fits a job, given the name of a part of its state: "", MERGED, UNTOLD, or others after that.
    `progress`: notes who copies.
    """
    if job.n_gold < LEAST_GOLD:
        return _holding_answers(job, *_fit_merged(job, fit_part, fabric, progress))
    once = None if job.method_class.by_item else fit_part(job, "")

    def fit_of(each: Job, part: str) -> Fitted:
        return fit_part(each, part) if once is None else once

    untold = replace(job, rows=replace(job.rows, truth=None), start=None)
    answers = _fit_merged(untold, fit_of, fabric, progress, UNTOLD)[1]
    gold = None if answers is None else Gold.of(job, answers)
    job.copies, job.open_pairs = untold.copies, untold.open_pairs
    job.rows = replace(job.rows, vote=untold.rows.vote)
    fitted = fit_of(job, "")
    answers = None if gold is None else predict(job, fitted, fabric)
    if fabric.broadcast(gold is not None and answers is not None and gold.is_overturned(answers.judging)):
        jobs, judged_by = Gold.folds(job)
        fits = [fit_of(each, f"{UNTOLD}-{number}") for number, each in enumerate(jobs)]
        if gold is not None:
            judges = [predict(each, fit, fabric).judging for each, fit in zip(jobs, fits, strict=True)]
            gold = replace(gold, judges=judges, judged_by=judged_by)
    return _holding_answers(job, fitted, None if gold is None or answers is None else gold.correct(answers))


def _holding_answers(job: Job, fitted: Fitted, answers: Answers | None) -> tuple[Fitted, Answers | None]:
    """Have the method hold what was learned about answers, and from gold: other answers can then be judged by it."""
    if answers is not None and job.table.sets is None:
        by, calibrator = answers.judging, None if answers.gold is None else answers.gold.calibrator
        fitted.method.learned = held = AnswerWeights.of(job.spec, by.rows.design, by.judge, calibrator)
        fitted.last = fitted.last | {f"learned.{name}": value for name, value in held.state_dict().items()}
        job.method_options = job.method_options if job.trains else held.given
    return fitted, answers


def _fit_merged(
    job: Job, fit_part: FitPart, fabric: Fabric, progress: Progress | None, part: str = ""
) -> tuple[Fitted, Answers | None]:
    """Fit a job and ask it; the job's votes change where annotators copy each other.

    A method that judges items has then learned that they are right, because they agree, and is fitted again; others
    are asked again.
    """
    first, fitted = fabric.global_rank == 0, fit_part(job, part)
    answers = predict(job, fitted, fabric) if first else None
    found: tuple[Copies, Copies] | None = fabric.broadcast(None if answers is None else _search_copies(job, answers))
    if found is None:
        return fitted, answers
    people = [str(name) for name in job.table.frame["annotator"].cat.categories]
    job.copies, job.open_pairs = (pairs.describe(people) for pairs in found)
    if answers is not None:
        answers.judging.job.copies, answers.judging.job.open_pairs = job.copies, job.open_pairs
    if not job.copies:
        return fitted, answers
    voter = found[0].voters(len(people))[job.table.annotator_codes]
    vote = pd.factorize(job.table.item_codes.astype(np.int64) * len(people) + voter)[0]
    job.rows = replace(job.rows, vote=torch.from_numpy(vote))
    if first and progress is not None:
        for record in job.copies:
            progress.note(f"Warning: {describe_copies(record)}")
    fitted = fit_part(job, f"{part}-{MERGED}" if part else MERGED) if job.method_class.by_item else fitted
    return fitted, predict(job, fitted, fabric) if first else None


def _search_copies(job: Job, answers: Answers) -> tuple[Copies, Copies] | None:
    """Return what `find_copies` finds in all answers and what inputs say; None where annotators are not known."""
    job = answers.judging.job
    who, kept = job.table.annotator_codes, answers.judging.kept
    if who is None:
        return None
    rows = np.arange(len(who)) if job.counted is None else job.counted
    step = -(-(len(rows) + len(kept.items)) * job.spec.n_classes // MOST_NUMBERS)
    number, every = group_of_rows(job.rows.groups), kept.every * step
    rows = rows[number[rows] % every == 0]
    p = np.exp(kept.log_p[::step].astype(np.float32))
    return find_copies(number[rows] // every, who[rows], job.table.label_codes[rows] % job.spec.n_classes, p)


def check_called(job: Job, callbacks: Sequence[Callback]) -> None:
    """Refuse what is not a list of callbacks, and callbacks where nothing is trained that would call them."""
    if not isinstance(callbacks, Sequence) or not all(isinstance(each, Callback) for each in callbacks):
        raise UsageError(f"callbacks must be a list of objects of pidual.Callback, not {callbacks!r}.")
    if callbacks and not job.trains:
        raise UsageError(
            "There is nothing to call callbacks in: latent_truth on vectors is worked out, not trained. Leave them "
            "out, or name a network to train (network='mlp')."
        )


def train_into(folder: Path, session: Session, job: Job, part: str = "") -> Fitted:
    """Train from the resume point in a folder, or from the start, and keep state and history there; see `train`.

    `part` is the part of the state that a second fit has.
    """
    first, path = session.is_first, folder / "metrics.jsonl"
    session = session.part(part) if part else session
    if first:
        assert session.store is not None
        if history := session.store.history():  # records of epochs that a kill took back are written again
            write_history(path, history)
        session = replace(session, callbacks=(*session.callbacks, _Recorder(path)))
    fitted = train(job, session)
    if first:
        write_history(path, fitted.history)
    return fitted


def train(job: Job, session: Session | None = None) -> Fitted:
    """Fit the method of a job; see `engine.fit` and `fit_closed`."""
    if job.table.sets is not None:
        return fit_sets(job, session)
    if job.build is None:
        return fit_closed(job, session, start=job.start)
    train_rows = job.select(job.train)
    assert train_rows is not None
    train_rows = train_rows if job.method_class.by_item else train_rows.weighted_by_vote()
    with using_threads(job.threads):
        return fit(job.build, train_rows, job.select(job.valid), job.training, session)


class _Recorder(Callback):
    """Writes the record of each epoch to metrics.jsonl."""

    def __init__(self, path: Path):
        self.path = path

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        append_record(self.path, record)
