"""The one job: an annotation table and inputs become a run directory."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lightning_fabric import Fabric
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs
from ..errors import UsageError
from ..learn.engine import Callback, Fitted, Interrupted, fit, make_fabric
from ..learn.engine.checkpoint import StateStore
from ..learn.engine.fit import Trainer
from ..learn.engine.history import Record, append_record, write_history
from ..learn.engine.progress import Progress
from ..learn.engine.threads import using_threads
from ..run.decisions import copy_decisions
from ..run.files import RunFiles
from ..run.lifecycle import begun_folder, check_directory, locked, promote
from ..run.schemas import run_id
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
) -> None:
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
    source = dict(provenance.source) | ({} if before is None else begin_again(before, job))
    config = describe(job, source)
    check_config(out, config)
    fabric = make_fabric(options.accelerator, job.training.precision)
    where: dict[str, Any] = {"force": force, "resume": resume, "inputs": reads, "write_report": write_report}
    with claimed(out, config, fabric, **where) as (folder, finished):
        announce(job, progress, [f"The run in {out} stays until this one is finished."] if folder != out else [])
        if not finished:
            started = time.monotonic()
            how: dict[str, Any] = {"progress": progress, "callbacks": callbacks, "stop": stop}
            fit_part = partial(train_into, folder, job, fabric, save_every=save_every, **how)
            fitted, answers = fit_and_predict(job, fit_part, fabric, progress)
            if stop():
                raise Interrupted("stopped after training, before the labels were judged")
            if answers is not None:
                judge_into(folder, job, fitted, answers, before, progress, started)
    if before is not None and fabric.global_rank == 0:
        copy_decisions(before, RunFiles(out))


def judge_into(
    folder: Path,
    job: Job,
    fitted: Fitted,
    answers: Answers,
    before: RunFiles | None,
    progress: Progress,
    started: float,
) -> None:
    """Judge the labels and write the files of the run; `before` is the run that it fits again."""
    results = judge(job, fitted, answers)
    if before is not None:
        results.summary["from_run"] = describe_change(before, results.items, results.summary)
    for text in results.summary["warnings"][len(job.warnings) :]:
        progress.note(f"Warning: {text}")
    results.summary["seconds_total"] = time.monotonic() - started
    write_run(folder, job, fitted, results)


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
    config: dict[str, Any],
    fabric: Fabric,
    *,
    force: bool,
    resume: bool,
    inputs: Sequence[str | Path],
    write_report: Callable[[RunFiles], object],
) -> Iterator[tuple[Path, bool]]:
    """Hold a run directory while a run is made in it: the folder to write to, and whether the run is there already.

    When the block ends well, the run takes its place and has its report.
    """
    first = fabric.global_rank == 0
    fabric.barrier()  # the others have checked the directory before there is anything in it
    with locked(out) if first else contextlib.nullcontext():
        folder = out
        if first:
            check_directory(out, force=force, resume=resume, inputs=inputs)  # another process may have been here
            folder = start_run(out, config, force=force, resume=resume)
        yield fabric.broadcast((folder, first and (folder / "summary.json").exists()))
        if first:
            promote(out, folder)
            if not (out / "report.html").exists():
                write_report(RunFiles(out))


def announce(job: Job, progress: Progress, notes: Sequence[str] = ()) -> None:
    """Say what will be done, and what the user should know about the data."""
    if job.choice:
        progress.heading(job.choice)
    for text in (*(f"Warning: {warning}" for warning in job.warnings), *notes):
        progress.note(text)


def train_into(folder: Path, job: Job, fabric: Fabric, part: str = "", *, save_every: float, **how: Any) -> Fitted:
    """Train from the resume point in a folder, or from the start, and keep state and history there; see `train`.

    `part` is the part of the state that a second fit has.
    """
    first = fabric.global_rank == 0
    store = StateStore(folder / "state", save_every, fabric.broadcast(run_id(RunFiles(folder).config) if first else ""))
    store = store.part(part) if part else store
    if first:
        if history := store.history():  # records of epochs that a kill took back are written again
            write_history(folder / "metrics.jsonl", history)
        how["callbacks"] = [*how["callbacks"], Recorder(folder / "metrics.jsonl")]
    fitted = train(job, fabric=fabric, store=store, **how)
    if first:
        write_history(folder / "metrics.jsonl", fitted.history)
    return fitted


def train(
    job: Job,
    *,
    fabric: Fabric | None = None,
    store: StateStore | None = None,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Fit the method of a job; see `engine.fit` and `fit_closed`."""
    if job.build is None:
        own = store if fabric is None or fabric.global_rank == 0 else None  # every process works out the same
        return fit_closed(job, start=job.start, fabric=fabric, store=own, progress=progress, stop=stop)
    train_rows = job.select(job.train)
    assert train_rows is not None
    train_rows = train_rows if job.method_class.by_item else train_rows.weighted_by_vote()
    with using_threads(job.threads):
        valid = job.select(job.valid)
        how: dict[str, Any] = {
            "fabric": fabric,
            "store": store,
            "progress": progress,
            "callbacks": callbacks,
            "stop": stop,
        }
        return fit(job.build, train_rows, valid, job.training, **how)


class Recorder(Callback):
    """Writes the record of each epoch to metrics.jsonl."""

    def __init__(self, path: Path):
        self.path = path

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        append_record(self.path, record)
