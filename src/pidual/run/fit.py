"""The one job: an annotation table and inputs become a run directory."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric

from ..engine import Fitted, Interrupted, fit, make_fabric
from ..engine.checkpoint import StateStore
from ..engine.history import append_record, write_history
from ..engine.progress import Progress
from ..engine.threads import using_threads
from ..inputs import Inputs
from ..schemas import run_id
from ..table import AnnotationTable
from .directory import Run
from .judge import assess
from .lifecycle import begun_folder, check_directory, locked, take_place
from .options import FitOptions
from .prepare import Job, prepare
from .record import check_config, describe, go_on_as_started, start_run, write_run


def fit_table(
    table: AnnotationTable,
    inputs: Inputs,
    out: str | Path,
    options: FitOptions | None = None,
    *,
    source: Mapping[str, Any] | None = None,
    reads: Sequence[str | Path] = (),
    notes: Sequence[str] = (),
    force: bool = False,
    resume: bool = False,
    save_every: float = 15.0,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Fit, score and report, into a run directory.

    Parameters
    ----------
    table : AnnotationTable
    inputs : Inputs
    out : path
        The run directory; made when everything has been checked.
    options : FitOptions
    source : mapping, optional
        Where table and inputs came from, for the record.
    reads : sequence of paths
        Further files the run is made from, such as the key of the pseudonyms.
    notes : sequence of str
        Warnings from reading table and inputs, for the record.
    force : bool
        Replace a run that is there, when the new one is complete; files that pidual did not write stay.
    resume : bool
        Continue a run that is there; its data and options must be the same. A finished one is left as it is.
    save_every : float
        Seconds between two resume points within an epoch.
    progress : Progress, optional
    stop : callable
        Asked at every step; True saves the state and raises Interrupted.
    """
    out, options, progress = Path(out), options or FitOptions(), progress or Progress()
    read = (table.source, inputs.source, *reads)
    check_directory(out, force=force, resume=resume, inputs=read)
    job = prepare(table, inputs, options)
    job.warnings[:0] = notes
    if resume:
        go_on_as_started(begun_folder(out), job)
    config = describe(job, source or {})
    check_config(out, config)
    fabric = make_fabric(options.accelerator, job.training.precision)
    first = fabric.global_rank == 0
    with locked(out) if first else contextlib.nullcontext():
        folder, finished = out, False
        if first:
            check_directory(out, force=force, resume=resume, inputs=read)  # another process may have been here
            folder = start_run(out, config, force=force, resume=resume)
            finished = (folder / "summary.json").exists()
        folder, finished = fabric.broadcast((folder, finished))
        if job.choice:
            progress.fit(job.choice)
        for text in job.warnings:
            progress.note(f"Warning: {text}")
        if folder != out:
            progress.note(f"The run in {out} stays until this one is finished.")
        if not finished:
            fit_into(folder, job, fabric, save_every=save_every, progress=progress, stop=stop)
        if first:
            take_place(out, folder)
            if not (out / "report.html").exists():
                Run(out).write_report()
    return Run(out)


def fit_into(
    folder: Path, job: Job, fabric: Fabric, *, save_every: float, progress: Progress, stop: Callable[[], bool]
) -> None:
    """Train from the resume point in a folder, or from the start, and write all files of the run but its report."""
    first = fabric.global_rank == 0
    store = StateStore(folder / "state", save_every, fabric.broadcast(run_id(Run(folder).config) if first else ""))
    # Records of epochs that a kill took back are written again.
    if first and (history := store.history()):
        write_history(folder / "metrics.jsonl", history)
    recorder = Recorder(progress, folder / "metrics.jsonl" if first else None)
    started = time.monotonic()
    fitted = train(job, fabric=fabric, store=store, progress=recorder, stop=stop)
    if stop():
        raise Interrupted("stopped after training, before the labels were judged")
    if first:
        write_history(folder / "metrics.jsonl", fitted.history)
        known = len(job.warnings)
        results = assess(job, fitted, fabric)
        for text in job.warnings[known:]:
            progress.note(f"Warning: {text}")
        results.summary["seconds_total"] = time.monotonic() - started
        write_run(folder, job, fitted, results)


def train(
    job: Job,
    *,
    fabric: Fabric | None = None,
    store: StateStore | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Fit the method of a job."""
    train_rows = job.part(0)
    assert train_rows is not None
    with using_threads(job.threads):
        return fit(
            job.build, train_rows, job.part(1), job.training, fabric=fabric, store=store, progress=progress, stop=stop
        )


class Recorder(Progress):
    """Passes everything on, and writes each epoch's record to metrics.jsonl."""

    def __init__(self, progress: Progress, path: Path | None):
        self.progress, self.path = progress, path

    def start(self, epochs: int, steps: int, done: int, stage: str = "", parts: int = 1) -> None:
        self.progress.start(epochs, steps, done, stage, parts)

    def part(self, number: int, stage: str) -> None:
        self.progress.part(number, stage)

    def step(self, epoch: int, step: int) -> None:
        self.progress.step(epoch, step)

    def epoch(self, record: dict[str, Any]) -> None:
        if self.path is not None:
            append_record(self.path, record)
        self.progress.epoch(record)

    def note(self, text: str) -> None:
        self.progress.note(text)

    def stop(self) -> None:
        self.progress.stop()
