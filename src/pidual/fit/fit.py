"""The one job: an annotation table and inputs become a run directory."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightning_fabric import Fabric
from msgspec import structs
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs
from ..errors import UsageError
from ..learn.engine import Callback, Fitted, Interrupted, Progress, Session, fit, make_fabric
from ..learn.engine.checkpoint import StateStore
from ..learn.engine.fit import Trainer
from ..learn.engine.history import Record, append_record, write_history
from ..learn.engine.threads import using_threads
from ..run.decisions import copy_decisions
from ..run.files import RunFiles
from ..run.lifecycle import begun_folder, check_directory, locked, promote
from ..run.records.config import Config, as_source
from .closed import fit_closed
from .judge import judge
from .options import FitOptions, Provenance
from .predict import Answers
from .prepare import Job, prepare
from .record import check_config, describe, go_on_as_started, start_run, write_run
from .refit import begin_again, describe_change, known_classes, refit_options
from .voters import fit_and_predict


def fit_into(
    table: AnnotationTable,
    inputs: Inputs,
    out: Path,
    options: FitOptions | None,
    *,
    truth: NDArray[np.int64] | None,
    before: RunFiles | None,
    provenance: Provenance,
    force: bool,
    resume: bool,
    save_every: float,
    progress: Progress,
    callbacks: Sequence[Callback],
    stop: Callable[[], bool],
    write_report: Callable[[RunFiles], object],
) -> RunFiles:
    """Fit, judge the labels and write the files of a run; see `api.fit.fit_table`.

    `before` is the run that this one fits again, and `write_report` adds the report to a run that is complete.
    """
    check_kinds(table, inputs, callbacks)
    if before is not None:
        truth, options = known_classes(before, table, truth), options or refit_options(before)
    options = options or FitOptions()
    reads = (table.source, inputs.source, *provenance.reads)
    check_directory(out, force=force, resume=resume, inputs=reads)
    job = prepare(table, inputs, options, truth=truth)
    check_called(job, callbacks)
    job.warnings[:0] = provenance.warnings
    if resume:
        go_on_as_started(begun_folder(out), job)
    source = as_source(provenance.source)
    config = describe(job, source if before is None else begin_again(before, job, source))
    config = check_config(out, config)
    fabric = make_fabric(options.accelerator, job.training.precision)
    where: dict[str, Any] = {"force": force, "resume": resume, "inputs": reads, "write_report": write_report}
    with claimed(out, config, fabric, **where) as claim:
        moves = claim.folder != out
        announce(job, progress, [f"The run in {out} stays until this one is finished."] if moves else [])
        if not claim.finished:
            started = time.monotonic()
            store = StateStore(claim.folder / "state", save_every, claim.config.run_id)
            session = Session(fabric, store, (*callbacks, progress), stop)
            fit_part = partial(train_into, claim.folder, job, session)
            fitted, answers = fit_and_predict(job, fit_part, fabric, progress)
            if stop():
                raise Interrupted("stopped after training, before the labels were judged")
            if answers is not None:
                claim.made = judge_into(claim, job, fitted, answers, before, progress, started)
    if before is not None and fabric.global_rank == 0:
        copy_decisions(before, RunFiles(out))
    known = () if claim.made is None else ("config", "summary", "history")
    return RunFiles.holding(out, **{name: getattr(claim.made, name) for name in known})


@dataclass
class Claim:
    """A run directory that is held while a run is made in it.

    Parameters
    ----------
    folder : Path
        Where to write.
    config : Config
        What config.json there holds.
    finished : bool
        Whether the run is there already.
    made : RunFiles, optional
        The run, when it is complete.
    """

    folder: Path
    config: Config
    finished: bool
    made: RunFiles | None = None


def judge_into(
    claim: Claim,
    job: Job,
    fitted: Fitted,
    answers: Answers,
    before: RunFiles | None,
    progress: Progress,
    started: float,
) -> RunFiles:
    """Judge the labels and write the files of the run; `before` is the run that it fits again."""
    results = judge(job, fitted, answers)
    if before is not None:
        changes = describe_change(before, results.items, results.summary)
        results.summary = structs.replace(results.summary, from_run=changes)
    for text in results.summary.warnings[len(job.warnings) :]:
        progress.note(f"Warning: {text}")
    results.summary = structs.replace(results.summary, seconds_total=time.monotonic() - started)
    return write_run(claim.folder, claim.config, job, fitted, results)


def check_kinds(table: Any, inputs: Any, callbacks: Sequence[Any]) -> None:
    """Refuse arguments of another kind."""
    if not isinstance(table, AnnotationTable):
        raise UsageError(
            f"table must be an AnnotationTable, not {type(table).__name__}; make it with read_table, or with "
            "AnnotationTable.from_frame or from_arrays."
        )
    if not isinstance(inputs, Inputs):
        raise UsageError(f"inputs must be Inputs, not {type(inputs).__name__}; make them with load_inputs.")
    for each in callbacks:
        if not isinstance(each, Callback):
            raise UsageError(f"callbacks must be a list of pidual.Callback, not of {type(each).__name__}.")


def check_called(job: Job, callbacks: Sequence[Callback]) -> None:
    """Refuse callbacks where nothing is trained that would call them."""
    if callbacks and not job.trains:
        raise UsageError(
            "There is nothing to call callbacks in: latent_truth on vectors is worked out, not trained. Leave them "
            "out, or name a network to train (network='mlp')."
        )


@contextlib.contextmanager
def claimed(
    out: Path,
    config: Config,
    fabric: Fabric,
    *,
    force: bool,
    resume: bool,
    inputs: Sequence[str | Path],
    write_report: Callable[[RunFiles], object],
) -> Iterator[Claim]:
    """Hold a run directory while a run is made in it; when the block ends well, that takes its place and has its
    report."""
    first = fabric.global_rank == 0
    fabric.barrier()  # the others have checked the directory before there is anything in it
    with locked(out) if first else contextlib.nullcontext():
        folder = out
        if first:
            check_directory(out, force=force, resume=resume, inputs=inputs)  # another process may have been here
            folder, config = start_run(out, config, force=force, resume=resume)
        claim = Claim(*fabric.broadcast((folder, config, first and (folder / "summary.json").exists())))
        yield claim
        if first:
            promote(out, folder)
            if not (out / "report.html").exists():
                write_report(RunFiles.holding(out) if claim.made is None else claim.made.moved(out))


def announce(job: Job, progress: Progress, notes: Sequence[str] = ()) -> None:
    """Say what will be done, and what the user should know about the data."""
    if job.choice:
        progress.heading(job.choice)
    for text in (*(f"Warning: {warning}" for warning in job.warnings), *notes):
        progress.note(text)


def train_into(folder: Path, job: Job, session: Session, part: str = "") -> Fitted:
    """Train from the resume point in a folder, or from the start, and keep state and history there; see `train`.

    `part` is the part of the state that a second fit has.
    """
    first, path = session.is_first, folder / "metrics.jsonl"
    session = session.part(part) if part else session
    if first:
        assert session.store is not None
        if history := session.store.history():  # records of epochs that a kill took back are written again
            write_history(path, history)
        session = replace(session, callbacks=(*session.callbacks, Recorder(path)))
    fitted = train(job, session)
    if first:
        write_history(path, fitted.history)
    return fitted


def train(job: Job, session: Session | None = None) -> Fitted:
    """Fit the method of a job; see `engine.fit` and `fit_closed`."""
    if job.build is None:
        return fit_closed(job, session, start=job.start)
    train_rows = job.select(job.train)
    assert train_rows is not None
    train_rows = train_rows if job.method_class.by_item else train_rows.weighted_by_vote()
    with using_threads(job.threads):
        return fit(job.build, train_rows, job.select(job.valid), job.training, session)


class Recorder(Callback):
    """Writes the record of each epoch to metrics.jsonl."""

    def __init__(self, path: Path):
        self.path = path

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        append_record(self.path, record)
