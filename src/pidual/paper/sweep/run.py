"""A worker of a sweep: take a point, fit there, record the result, until there is no point left."""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.pruners import MedianPruner
from optuna.trial import TrialState

from ... import __version__
from ...data import AnnotationTable, Inputs
from ...errors import RunError, UsageError
from ...files import write_json
from ...fit.fit import train
from ...fit.options import FitOptions
from ...fit.prepare import Job, prepare
from ...learn.engine import Callback, Interrupted, make_fabric
from ...learn.engine.checkpoint import StateStore
from ...learn.engine.fit import Trainer
from ...learn.engine.history import Record
from ...learn.engine.progress import Progress
from ...options.launcher import place_among_processes
from ...run.lifecycle import SWEEP_KIND, check_directory, locked, remove_state, remove_sweep
from ...run.records.reading import FORMAT, read_record
from .queue import Queue, beating, dead_locks, lock_file, owners
from .records import SweepRecord
from .results import Results, Sweep
from .space import Space
from .study import check_same, identity, open_study, opened, safe_url, storage_errors

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
        Asked at every step; True saves the state, puts the trial back and raises Interrupted.
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
            start_directory(out, about, source or {}, force=force, resume=resume)
            lock = held.enter_context(lock_file(out / "state"))
        held.enter_context(storage_errors(url))
        opened_study = open_study(held.enter_context(opened(url)), study, pruner, same, force=force, resume=resume)
        queue = Queue(opened_study, space, sampler, limit, lock, stop)
        worker = Worker(table, inputs, queue, out / "state", prune, progress, say, stop)
        return worker.run_all(Results(out, queue, fit_command, int(job.valid.sum())))


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
    if force and {*out.glob("state/*.lock")} != {*dead_locks(out / "state")}:
        raise RunError(f"A worker is still busy with the sweep in {out}; stop it before you replace the sweep.")


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


@dataclass
class Worker:
    """What runs the trials of a sweep; see `run_sweep`."""

    table: AnnotationTable
    inputs: Inputs
    queue: Queue
    states: Path
    prune: bool
    progress: Progress
    say: Callable[[str], None]
    stop: Callable[[], bool]

    def store(self, point: int) -> StateStore:
        """Where the state of the fit at a point is saved."""
        return StateStore(self.states / f"point-{point}")

    def clean(self) -> None:
        """Remove what workers that did not end well have left of points that are done now."""
        for point, trial in owners(self.queue.trials()).items():
            if trial.state.is_finished():
                remove_state(self.store(point).folder)
        for path in dead_locks(self.states):
            path.unlink(missing_ok=True)

    def run_all(self, results: Results) -> Sweep:
        """Take points and fit there until none is left; what is known after each is written."""
        limit, space = self.queue.limit, self.queue.space
        tried = f"{limit} of {len(space)}" if limit < len(space) else f"{limit}"
        self.say(f"{tried} points of {', '.join(space.search)}; taken before: {len(owners(self.queue.trials()))}")
        while (trial := self.queue.take()) is not None:
            self.run(trial)
            results.write()
        self.clean()
        return results.write(plot=True)

    def run(self, trial: optuna.Trial) -> None:
        """Fit at the point of a trial, and record the result; put the trial back where there is none."""
        number, point = trial.number, trial.user_attrs["point"]
        self.say(f"Trial {number}: {self.queue.space.describe(point)}")
        try:
            outcome = self.fit(trial, point)
            remove_state(self.store(point).folder)
        except UpdateFinishedTrialError:
            outcome = "taken over by another worker, because this one did not respond for too long"
        except StorageInternalError:
            raise
        except (UsageError, RuntimeError) as error:  # what no fit at this point can do, such as fit into the memory
            reason = str(error).partition("\n")[0]
            trial.set_user_attr("error", reason)
            self.queue.study.tell(number, state=TrialState.FAIL)
            outcome = f"failed ({reason})"
        except BaseException:
            self.queue.put_back(number)
            raise
        self.say(f"Trial {number}: {outcome}")

    def fit(self, trial: optuna.Trial, point: int) -> str:
        """One fit, to its end or until the study has seen enough of it; returns how it went."""
        study, store = self.queue.study, self.store(point)
        watch = Watch(trial, self.prune, store.history())
        with beating(trial) as lost:
            try:
                job = prepare(self.table, self.inputs, self.queue.space.options(point))
                fitted = train(
                    job,
                    fabric=make_fabric(job.options.accelerator, job.training.precision),
                    store=store,
                    progress=self.progress,
                    callbacks=[watch],
                    stop=lambda: self.stop() or lost() or watch.pruned,
                )
            except Interrupted as error:
                if self.stop():
                    raise
                if lost():
                    raise UpdateFinishedTrialError from error
                trial.set_user_attr("seconds", round(watch.seconds, 3))
                study.tell(trial.number, state=TrialState.PRUNED)
                return f"pruned after epoch {watch.epochs}"
        record = next(r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch)
        accuracy, loss = record["valid_accuracy"], record["valid_loss"]
        trial.set_user_attr("selected_epoch", fitted.selected_epoch)
        trial.set_user_attr("valid_loss", loss if math.isfinite(loss) else None)
        trial.set_user_attr("seconds", round(watch.seconds, 3))
        study.tell(trial.number, accuracy)
        return f"noisy validation {accuracy:.1%} at epoch {fitted.selected_epoch + 1}, {watch.seconds:.1f} s"


class Watch(Callback):
    """Asks the study after every epoch whether to continue the trial."""

    def __init__(self, trial: optuna.Trial, prune: bool, before: Iterable[Record]):
        self.trial, self.prune, self.pruned = trial, prune, False
        self.epochs, self.seconds = 0, 0.0
        for record in before:
            self.count(record)

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self.count(record)
        self.pruned = self.prune and self.trial.should_prune()

    def count(self, record: Record) -> None:
        """Add up the time, and report to the study; epochs after a collapse have no counterpart in other trials."""
        self.seconds += record["seconds"]
        if self.prune and record["attempt"] == 0:
            self.trial.report(record["valid_accuracy"], self.epochs)
            self.epochs += 1
