"""Start a sweep or join it: check everything, make the directory and the study, and work."""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import MedianPruner

from ... import __version__
from ...data import AnnotationTable, Inputs
from ...errors import RunError, UsageError
from ...files import write_json
from ...fit.options import FitOptions
from ...fit.prepare import Job, prepare
from ...learn.engine import Progress
from ...options.launcher import place_among_processes
from ...run.lifecycle import SWEEP_KIND, check_directory, locked, remove_sweep
from ...run.records.reading import FORMAT, read_record
from .records import SweepRecord
from .results import Sweep, write_results
from .space import Space
from .study import check_same, identity, open_study, opened, refuse_busy, safe_url, storage_errors
from .worker import Worker

SAMPLERS = ("grid", "tpe")
TPE_TRIALS = 30  # where the number of trials is not given
STARTING_SECONDS = 20.0  # for others who start at the same moment
STARTUP_TRIALS, WARMUP_SHARE = 4, 0.25  # no pruning before so many trials, nor in this part of the epochs


def run_sweep(
    table: AnnotationTable,
    inputs: Inputs,
    out: str | Path,
    options: FitOptions,
    search: Mapping[str, Sequence[Any]],
    *,
    sampler: str = "grid",
    trials: int | None = None,
    prune: bool = False,
    storage: str | None = None,
    study: str = "sweep",
    source: Mapping[str, Any] | None = None,
    reads: Sequence[str | Path] = (),
    fit_command: Sequence[str] = (),
    force: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> Sweep:
    """Fit at the points of a search space, alone or together with other workers, until none is left to take.

    Parameters
    ----------
    table : AnnotationTable
    inputs : Inputs
    out : path
        The sweep's directory; made when everything has been checked.
    options : FitOptions
        What all fits have in common.
    search : mapping
        Option of training, of the method or of the network (`network.KEY`) -> values to try.
    sampler : "grid" or "tpe"
        All points in random order, or those first that a tree-structured Parzen estimator expects most of.
    trials : int, optional
        Points to try, over all workers and restarts; by default all of them, with "tpe" at most 30.
    prune : bool
        Stop a trial whose accuracy is below the median of the others at the same epoch.
    storage : str, optional
        URL of the database of the study; by default a SQLite file in `out`.
    study : str
        Name of the study in the storage.
    source : mapping, optional
        Where table and inputs came from, for the record.
    reads : sequence of paths
        Further files the fits are made from, such as the key of the pseudonyms.
    fit_command : sequence of str
        The words of the `pidual fit` command that makes a fit with `options`.
    force : bool
        Replace a sweep that is there; files that pidual did not write stay.
    resume : bool
        Continue, or join, a sweep that is there; its data and options must be the same.
    progress : Progress, optional
        Called at the steps and epochs of every fit.
    say : callable
        Called with one line for every trial.
    stop : callable
        Asked at every step; True saves the state, frees the point and raises Interrupted.
    """
    out, progress = Path(out), progress or Progress()
    read = (table.source, inputs.source, *reads)
    check_sweep(out, force=force, resume=resume, inputs=read)
    space, job = prepare_sweep(table, inputs, options, search, sampler)
    for text in job.warnings:
        progress.note(f"Warning: {text}")
    same = identity(job, space, sampler, prune)
    about = {"study": study, "storage": storage and safe_url(storage), **same}
    url = storage or f"sqlite:///{out.absolute() / 'study.sqlite'}"
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = MedianPruner(STARTUP_TRIALS, math.ceil(WARMUP_SHARE * job.training.epochs))
    limit = min(trials or (TPE_TRIALS if sampler == "tpe" else len(space)), len(space))
    if storage:
        with storage_errors(url), opened(url):  # before a sweep that is there is replaced
            pass
    with contextlib.ExitStack() as held:
        with locked(out, patience=STARTING_SECONDS):  # for this moment only: workers share the directory
            check_sweep(out, force=force, resume=resume, inputs=read)  # another worker may have been here
            if force:
                refuse_busy(url, study, out)
            start_directory(out, about, source or {}, force=force, resume=resume)
        held.enter_context(storage_errors(url))
        opened_study = open_study(held.enter_context(opened(url)), study, pruner, same, force=force, resume=resume)
        write = partial(write_results, out, space, fit_command, int(job.valid.sum()))
        worker = Worker(table, inputs, opened_study, space, sampler, limit, out / "state", prune, progress, say, stop)
        return worker.run_all(write)


def prepare_sweep(
    table: AnnotationTable, inputs: Inputs, options: FitOptions, search: Mapping[str, Sequence[Any]], sampler: str
) -> tuple[Space, Job]:
    """The points to search and the fit at the first of them, when everything has been checked."""
    if place_among_processes().world > 1:
        raise UsageError("A trial runs on one process; start the same sweep several times instead of under torchrun.")
    if sampler not in SAMPLERS:
        raise UsageError(f"There is no sampler '{sampler}'; use one of {', '.join(SAMPLERS)}.")
    space = Space(search, options)
    job = prepare(table, inputs, space.options(0))
    space.check(job)
    if not job.valid.any():
        raise UsageError("There are no noisy validation rows to choose by; raise --valid-fraction or name a --split.")
    return space, job


def check_sweep(out: Path, *, force: bool, resume: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a directory that must not be written to, or whose sweep a worker is busy with."""
    check_directory(out, force=force, resume=resume, inputs=inputs, kind=SWEEP_KIND)


def start_directory(out: Path, about: dict[str, Any], source: Mapping[str, Any], *, force: bool, resume: bool) -> None:
    """Make the directory, or check that the sweep in it is the same."""
    config = out / "sweep.json"
    try:
        if force:
            remove_sweep(out)
        if resume and config.exists():
            way_out = "the sweep is damaged, so start over with --force (force=True in Python)"
            check_same(f"The sweep in {out}", read_record(config, SweepRecord, way_out=way_out).to_json(), about)
            return
        created = {
            "pidual": __version__,
            "format": FORMAT,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(config, created | {"source": dict(source)} | about)
    except OSError as error:
        raise RunError(f"Cannot write to {out} ({error.strerror}); choose another directory (--out).") from error
