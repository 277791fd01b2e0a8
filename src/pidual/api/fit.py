"""The one job as a call: an annotation table and inputs become a run."""

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs
from ..errors import UsageError
from ..fit.control import check_control, measure_worth, shuffle_pi
from ..fit.fit import check_called, fit_and_predict, train, train_into
from ..fit.judge import judge
from ..fit.options import FitOptions, Provenance
from ..fit.predict import predict
from ..fit.prepare import prepare
from ..fit.record import check_config, describe, go_on_as_started, start_run, write_run
from ..fit.refit import begin_again, describe_change, known_classes, refit_options
from ..learn.engine import Callback, Interrupted, Progress, Session, make_fabric
from ..learn.engine.checkpoint import StateStore
from ..run.decisions import copy_decisions
from ..run.files import RunFiles
from ..run.lifecycle import begun_folder, check_directory, locked, promote
from ..run.records.config import as_source
from ..show.report import build_report
from .run import Run
from .verdict import warn_of_verdict


def fit_table(
    table: AnnotationTable,
    inputs: Inputs,
    out: str | Path,
    options: FitOptions | None = None,
    *,
    truth: NDArray[np.int64] | None = None,
    from_run: Run | str | Path | None = None,
    control: bool = False,
    provenance: Provenance | None = None,
    force: bool = False,
    resume: bool = False,
    save_every: float = 15.0,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Fit a table and its inputs, judge the labels and write a report, into a run directory.

    Parameters
    ----------
    table : AnnotationTable
        The labels, as `read_table` reads them.
    inputs : Inputs
        What they are about, as `load_inputs` reads it.
    out : path
        The run directory; created after everything has been checked.
    options : FitOptions, optional
        Method, seed, network, ...; by default those of `FitOptions()`.
    truth : int array (N,), optional
        Code of the class of each annotation's item where it is known, else -1, as `read_truth` reads it.
    from_run : Run or path, optional
        A run of the same data: classes that its reviewers decided on are known, the answer model begins with its
        weights, and options are by default its own. See `fit.refit`.
    control : bool
        Fit shuffled PI beside it, and say what PI was worth (`fit.control`); for a network that is given PI.
    provenance : Provenance, optional
        Where table and inputs came from, for the record.
    force : bool
        Replace an existing run when the new one is complete; files that pidual did not write stay.
    resume : bool
        Continue an existing run; its data and options must be the same. A finished one is not changed.
    save_every : float
        Seconds between two resume points within an epoch.
    progress : Progress, optional
        Called at every step and epoch.
    callbacks : sequence of Callback
        Called with the trainer at every step and epoch.
    stop : callable
        Asked at every step; True saves the state and raises `Interrupted`.

    Returns
    -------
    Run
        The finished run.

    See Also
    --------
    CrowdClassifier : The same fit of arrays, without files.
    Run : What the directory holds, and what can be done with it.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, fit_table, make_crowd
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "seconds", "label"]]
    >>> table = AnnotationTable.from_frame(frame, pi=["annotator", "seconds"], keep_ids=True)
    >>> run = fit_table(table, Inputs.from_array(crowd.x), "runs/crowd")
    >>> run.summary.verdict.status
    'ok'
    >>> (run.path / "report.html").exists()
    True
    """
    _check_kinds(table, inputs)
    out, provenance, progress = Path(out), provenance or Provenance(), progress or Progress()
    before = None if from_run is None else Run.open(from_run)
    if before is not None:
        truth, options = known_classes(before, table, truth), options or refit_options(before)
    options = options or FitOptions()
    check = partial(check_directory, out, force=force, resume=resume)
    check(inputs=(reads := (table.source, inputs.source, *provenance.reads)))
    job = prepare(table, inputs, options, truth=truth)
    check_called(job, callbacks)
    if control:
        check_control(job)
    job.warnings[:0] = provenance.warnings
    if resume:
        go_on_as_started(begun_folder(out), job)
    source = as_source(provenance.source)
    config = describe(job, source if before is None else begin_again(before, job, source))
    config = check_config(out, config)
    fabric = make_fabric(options.accelerator, job.training.precision)
    first = fabric.global_rank == 0
    fabric.barrier()  # the others have checked the directory before there is anything in it
    with locked(out) if first else contextlib.nullcontext():
        if first:
            check(inputs=reads)  # another process may have been here
        begun = start_run(out, config, force=force, resume=resume) if first else None
        folder, config, finished = fabric.broadcast(begun)
        notes = [f"Warning: {warning}" for warning in job.warnings]
        notes += [f"The run in {out} stays until this one is finished."] if folder != out else []
        if job.choice:
            progress.heading(job.choice)
        for text in notes:
            progress.note(text)
        run = RunFiles(folder)
        if not finished:
            started = time.monotonic()
            store = StateStore(folder / "state", save_every, config.run_id)
            session = Session(fabric, store, (*callbacks, progress), stop)
            fitted, answers = fit_and_predict(job, partial(train_into, folder, session), fabric, progress)
            beside = train(shuffle_pi(job), session.part("shuffled")) if control else None
            if stop():
                raise Interrupted("stopped after training, before the labels were judged")
            if answers is not None:
                results = judge(job, fitted, answers)
                summary = results.summary
                for text in summary.warnings[len(job.warnings) :]:
                    progress.note(f"Warning: {text}")
                change = None if before is None else describe_change(before, results.items, summary)
                seconds = time.monotonic() - started
                worth = None if beside is None else measure_worth(job, answers, predict(job, beside, fabric))
                results.summary = replace(summary, from_run=change, pi_worth=worth, seconds_total=seconds)
                run = write_run(folder, config, answers.judging.job, fitted, results)
        if first:
            promote(out, folder)
            if not (out / "report.html").exists():
                build_report(run.moved(out))
    if before is not None and first:
        copy_decisions(before, RunFiles(out))
    known = {name: run.known[name] for name in ("config", "summary", "history") if name in run.known}
    if "summary" in known:
        warn_of_verdict(known["summary"].verdict)
    return Run.holding(out, **known)


def _check_kinds(table: Any, inputs: Any) -> None:
    """Refuse arguments of another kind."""
    if not isinstance(table, AnnotationTable):
        raise UsageError(
            f"table must be an AnnotationTable, not {type(table).__name__}; make it with read_table, or with "
            "AnnotationTable.from_frame or from_arrays."
        )
    if not isinstance(inputs, Inputs):
        raise UsageError(f"inputs must be Inputs, not {type(inputs).__name__}; make them with load_inputs.")
