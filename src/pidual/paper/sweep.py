"""Search for the options that do best on the noisy validation rows; any number of workers may share a sweep.

    run_sweep   table + inputs + options + search -> a directory with trials.csv and best.json

The trials are kept in an Optuna study, in a SQLite file of the directory or behind any URL that Optuna takes. Whoever
makes the study adds all its trials at once; each worker takes one that waits, until none is left. A trial of which
there has been no heartbeat for a minute is put back; its fit continues from the state it saved, if that can be seen.

`run_tuned` is the paper's whole protocol: search the grid of a method, then fit seeds with what did best.

    OUT/<scale>/<dataset>/tune/<method>/   the sweep of a method (`paper.sweep`), which any number of processes share
"""

import contextlib
import json
import math
import random
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from optuna.exceptions import (
    DuplicatedStudyError,
    ExperimentalWarning,
    StorageInternalError,
    TrialPruned,
    UpdateFinishedTrialError,
)
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ..data import AnnotationTable, Inputs
from ..data.datasets.base import NoisyDataset
from ..data.pi.random_pi import derive_seed
from ..errors import RunError, UsageError
from ..files import replacing, without_passwords, write_csv, write_json
from ..fit.fit import train
from ..fit.options import FitOptions
from ..fit.prepare import Job, prepare
from ..fit.record import describe
from ..learn.engine import Interrupted, Progress, Session, make_fabric
from ..learn.engine.checkpoint import StateStore
from ..options.launcher import place_among_processes
from ..run.lifecycle import find_changes, locked, refuse_change, remove_state
from .recipes import Recipe, merge
from .runs import Fit, load_data, run_fits
from .score import Result, table_and_inputs
from .search import Search, Space, plain, recipe_search

try:
    import optuna
except ImportError as error:
    raise UsageError(f"A sweep needs Optuna ({error}); install it with `pip install 'pidual[sweep]'`.") from error


HEARTBEAT_SECONDS, GRACE_SECONDS = 15, 60  # how often a worker shows that it lives, and how long it may be silent
STARTING_SECONDS = 20.0  # for others who start at the same moment
LOCKED_SECONDS = 120.0  # how long SQLite waits for another worker's write
OPEN_TRIES = 8
STUDY = "study.sqlite"
POINT = "asked"  # attribute of a trial that was added here, not made by Optuna because none was waiting
OURS = {STUDY, "trials.csv", "best.json", "state"}  # in the directory


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found so far."""

    out: Path  # the directory
    trials: pd.DataFrame  # one row per trial: its options, what came of it, and its state: complete, failed or running
    best: dict[str, Any] | None  # the contents of best.json; None if no trial is complete


def run_sweep(
    table: AnnotationTable,
    inputs: Inputs,
    out: str | Path,
    options: FitOptions,
    search: Search,
    *,
    trials: int | None = None,
    storage: str | None = None,
    fit_command: Sequence[str] = (),
    resume: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> Sweep:
    """Fit at the points of a search space, alone or together with other workers, until none is left.

    `out`: directory of the sweep, made when everything has been checked.
    `options`: what all fits have in common.
    `search`: option of training, of the method or of the network (`network.KEY`) -> values to try.
    `trials`: points to try, in random order, over all workers and restarts; by default all of them.
    `storage`: URL of the database of the study, which has the name of `out`; by default a SQLite file in `out`.
    `fit_command`: the words of the `pidual fit` command that makes a fit with `options`.
    `resume`: continue, or join, an existing sweep; its data and options must be the same.
    `progress`: called at the steps and epochs of every fit.
    `say`: called with one line for every trial.
    `stop`: asked at every step; True saves the state, puts the trial back and raises Interrupted.
    """
    out, progress = Path(out), progress or Progress()
    check_directory(out, resume)
    if place_among_processes().world > 1:
        raise UsageError("A trial runs on one process; start the same sweep several times instead of under torchrun.")
    space = Space(search, options)
    job = prepare(table, inputs, space.options(0))
    space.check(job)
    if not job.valid.any():
        raise UsageError("There are no noisy validation rows to choose by; raise --valid-fraction or name a --split.")
    for text in job.warnings:
        progress.note(f"Warning: {text}")
    limit = min(trials or len(space.points), len(space.points))
    url = _check_url(storage or f"sqlite:///{out.absolute() / STUDY}")
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    with contextlib.ExitStack() as held:
        with locked(out, patience=STARTING_SECONDS):  # while starting only: workers share the directory
            check_directory(out, resume)
            held.enter_context(database(url))
            same = identity(job, space)
            name = out.resolve().name if storage else "sweep"
            study = _open_study(held.enter_context(opened(url)), name, same, space, limit, resume)
        worker = Worker(table, inputs, out, study, space, fit_command, int(job.valid.sum()), progress, say, stop)
        say(f"{limit} of {len(space.points)} points of {', '.join(space.texts)}; done before: {len(worker.ended())}")
        return worker.run_all()


def check_directory(out: Path, resume: bool) -> None:
    """Refuse a directory with something else in it, or with a sweep that is not to be joined."""
    names = {path.name for path in out.iterdir() if path.name[0] != "."} if out.is_dir() else set()
    if (out.exists() and not out.is_dir()) or (names and not names & OURS):
        raise RunError(f"{out} exists and is not the directory of a sweep; choose another directory (--out).")
    if names and not resume:
        raise RunError(
            f"{out} already holds a sweep; continue or join it with --resume (resume=True in Python), or choose "
            "another directory (--out)."
        )


# --- the study ---


def identity(job: Job, space: Space) -> dict[str, Any]:
    """Return what must be the same in all workers of a sweep: data, search space, and options at its first point."""
    config = describe(job)
    names = ("fingerprint", "x_fingerprint", "n_train", "n_valid", "pi")
    data = {name: value for name, value in config.data.to_json().items() if name in names}
    search = {name: [json.loads(text) for text in texts] for name, texts in space.texts.items()}
    return {**config.identity(), "data": data, "search": search}


def _check_url(url: str) -> str:
    """Refuse what is not the URL of a database."""
    try:
        make_url(url)
    except ArgumentError as error:
        raise UsageError(
            f"'{without_passwords(url)}' is not the URL of a database; --storage takes one such as "
            "sqlite:////shared/study.sqlite or postgresql://user@host/name."
        ) from error
    return url


@contextlib.contextmanager
def database(url: str) -> Iterator[None]:
    """Turn errors of the database into a sentence."""
    place = without_passwords(make_url(url).render_as_string(hide_password=True))
    try:
        yield
    except (StorageInternalError, SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error.__cause__, "orig", None) or getattr(error, "orig", None) or error).strip()
        way_out = "trials that ended are kept: continue with --resume (resume=True in Python)"
        if isinstance(error, ImportError):
            way_out = "install the driver of the database"
        elif "not a database" in reason or "malformed" in reason:
            way_out = "the file is damaged or no database, so choose another (--storage, --out)"
        raise RunError(f"The database {place} failed ({without_passwords(reason)}); {way_out}.") from error


@contextlib.contextmanager
def opened(url: str) -> Iterator[RDBStorage]:
    """Open the storage behind a URL; close it in the end."""
    sqlite = url.startswith("sqlite")
    arguments: dict[str, Any] = {}
    if sqlite:
        arguments = {"connect_args": {"timeout": LOCKED_SECONDS, "isolation_level": None}, "poolclass": NullPool}
    for left in reversed(range(OPEN_TRIES)):
        try:
            with quiet():
                beat, grace = HEARTBEAT_SECONDS, GRACE_SECONDS
                storage = RDBStorage(url, engine_kwargs=arguments, heartbeat_interval=beat, grace_period=grace)
            break
        except SQLAlchemyError:  # another worker may be making the tables at this moment
            if not left:
                raise
            time.sleep(0.1 + 0.3 * random.random())
        except RuntimeError as error:
            raise RunError(f"The database cannot be used by this version of Optuna ({error}).") from error
    if sqlite:  # which has no locks of rows: what reads in order to write has the database to itself
        event.listen(storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    storage.heartbeat_stale_trial_callback = storage.failed_trial_callback = put_back  # the second: before Optuna 4.9
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ignore that Optuna calls heartbeats experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def enqueue(study: optuna.Study, params: Mapping[str, str]) -> None:
    """Let a trial of a point wait."""
    study.enqueue_trial(dict(params), user_attrs={POINT: params})


def put_back(study: optuna.Study, trial: FrozenTrial) -> None:
    """Let another trial of the same point wait; called by Optuna when there has been no heartbeat of one."""
    enqueue(study, trial.user_attrs[POINT])


def _open_study(
    storage: RDBStorage, name: str, same: Mapping[str, Any], space: Space, limit: int, resume: bool
) -> optuna.Study:
    """Make the study with all its trials, or join it if it is of the same sweep."""
    try:
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
        study.set_user_attr("pidual", dict(same))
        _add_trials(study, space, 0, limit)
        return study
    except DuplicatedStudyError as error:
        if not resume:
            raise RunError(
                f"There is a study '{name}' in the storage; join it with --resume (resume=True in Python), or choose "
                "another name of the directory (--out), which is that of the study."
            ) from error
    study = optuna.load_study(study_name=name, storage=storage)
    until = time.monotonic() + STARTING_SECONDS
    while "points" not in study.user_attrs:  # whoever made it is adding its trials
        if time.monotonic() > until or (study.trials and "pidual" not in study.user_attrs):
            raise RunError(f"The study '{name}' was not made by `pidual sweep`, or only in part; choose another --out.")
        time.sleep(0.2)
    known = study.user_attrs
    way_out = "use the data and options it was started with, or another directory (--out)."
    contents = {"fingerprint": "the table", "x_fingerprint": "the inputs"}
    for part, was, now in find_changes(known["pidual"], same):
        refuse_change(f"The sweep '{name}'", part, was, now, way_out, contents)
    if limit > known["points"]:
        _add_trials(study, space, known["points"], limit)
    return study


def _add_trials(study: optuna.Study, space: Space, first: int, end: int) -> None:
    """Let trials of the grid's points wait, in random order."""
    order = np.random.default_rng(derive_seed(space.fixed.seed, 11)).permutation(len(space.points))
    for number in order[first:end]:
        enqueue(study, space.params[number])
    study.set_user_attr("points", end)


# --- a worker ---


class _FailedError(Exception):
    """No fit at the point of a trial can end well."""


@dataclass
class Worker:
    """Takes trials that wait, fits at their points and records the results; see `run_sweep`."""

    table: AnnotationTable
    inputs: Inputs
    out: Path
    study: optuna.Study
    space: Space
    fit_command: Sequence[str]
    n_valid: int
    progress: Progress
    say: Callable[[str], None]
    stop: Callable[[], bool]

    def run_all(self) -> Sweep:
        """Run trials until none waits and none runs elsewhere, or runs for longer than one worker may be silent."""
        patience = time.monotonic() + GRACE_SECONDS
        while True:
            if self.stop():
                raise Interrupted("stopped between two trials")
            with quiet():
                fail_stale_trials(self.study)
            if self.trials(TrialState.WAITING):
                self.run_one()
                self.write()
                patience = time.monotonic() + GRACE_SECONDS
            elif time.monotonic() > patience or not self.trials(TrialState.RUNNING):
                break
            else:
                time.sleep(0.2)
        for point, trial in self.ended().items():
            if trial.state != TrialState.RUNNING:
                remove_state(self.store(point).folder)
        return self.write()

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the trials in one of these states."""
        return self.study.get_trials(deepcopy=False, states=states)

    def ended(self) -> dict[int, FrozenTrial]:
        """Return point -> the first trial of it that is complete, has failed for good, or runs."""
        return self.firsts(TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)

    def firsts(self, *states: TrialState) -> dict[int, FrozenTrial]:
        """Return point -> the first trial of it in one of these states, unless another is to take its place.

        A point that was asked for is known before its trial runs, so that all workers name the same trial.
        """
        found: dict[int, FrozenTrial] = {}
        for trial in self.trials(*states):
            params = trial.user_attrs.get(POINT)
            if params in self.space.params and (trial.state != TrialState.FAIL or "error" in trial.user_attrs):
                found.setdefault(self.space.params.index(params), trial)
        return found

    def store(self, point: int) -> StateStore:
        """Return where the state of the fit at a point is saved."""
        return StateStore(self.out / "state" / f"point-{point}")

    def run_one(self) -> None:
        """Run a trial, and record the result."""
        self.study.sampler = optuna.samplers.RandomSampler()  # which has nothing to choose
        try:
            with quiet():
                self.study.optimize(self.objective, n_trials=1, catch=(_FailedError,))
        except (UpdateFinishedTrialError, ValueError) as error:
            if not (isinstance(error, UpdateFinishedTrialError) or str(error).startswith("Cannot tell")):
                raise
            self.say("A trial was taken over by another worker, because this one did not respond for too long")

    def objective(self, trial: optuna.Trial) -> float:
        """Fit at the point of a trial; return the accuracy on noisy validation rows."""
        if POINT not in trial.user_attrs:
            raise TrialPruned  # another worker took the last trial that waited
        trial.storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]  # the first, before a kill
        params = {name: trial.suggest_categorical(name, texts) for name, texts in self.space.texts.items()}
        point = self.space.params.index(params)
        ended = self.firsts(TrialState.WAITING, TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)
        if point in ended and ended[point].number < trial.number:
            raise TrialPruned  # somebody added the point twice
        values = self.space.points[point].items()
        self.say(f"Trial {trial.number}: {', '.join(f'{name}={plain(value)}' for name, value in values)}")
        try:
            result = self.fit(point)
        except (UsageError, RuntimeError) as error:  # what no fit at this point can do, such as fit into the memory
            reason = str(error).partition("\n")[0]
            trial.set_user_attr("error", reason)
            self.say(f"Trial {trial.number}: failed ({reason})")
            raise _FailedError from error
        except BaseException:
            put_back(self.study, self.study.trials[trial.number])
            raise
        for name in ("selected_epoch", "valid_loss", "seconds"):
            trial.set_user_attr(name, result[name])
        remove_state(self.store(point).folder)
        when = f"epoch {result['selected_epoch'] + 1}, {result['seconds']:.1f} s"
        self.say(f"Trial {trial.number}: noisy validation {result['valid_accuracy']:.1%} at {when}")
        return float(result["valid_accuracy"])

    def fit(self, point: int) -> dict[str, Any]:
        """Fit, and return the scores of the selected epoch."""
        job = prepare(self.table, self.inputs, self.space.options(point))
        fabric = make_fabric(job.options.accelerator, job.training.precision)
        fitted = train(job, Session(fabric, self.store(point), [self.progress], self.stop))
        record = next(record for record in reversed(fitted.history) if record["epoch"] == fitted.selected_epoch)
        return {
            "selected_epoch": fitted.selected_epoch,
            "valid_accuracy": record["valid_accuracy"],
            "valid_loss": record["valid_loss"] if math.isfinite(record["valid_loss"]) else None,
            "seconds": round(sum(record["seconds"] for record in fitted.history), 3),
        }

    def write(self) -> Sweep:
        """Write trials.csv and best.json."""
        trials, space = self.ended(), self.space
        rows = [
            {"trial": trial.number, "state": "failed" if trial.state == TrialState.FAIL else trial.state.name.lower()}
            | space.points[point]
            | {"valid_accuracy": trial.value if trial.state == TrialState.COMPLETE else None}
            | {name: trial.user_attrs.get(name) for name in ("valid_loss", "selected_epoch", "seconds", "error")}
            for point, trial in sorted(trials.items(), key=lambda pair: pair[1].number)
        ]
        columns = ["trial", "state", *space.texts, "valid_accuracy", "valid_loss", "selected_epoch", "seconds", "error"]
        frame = pd.DataFrame(rows, columns=columns).astype({"selected_epoch": "Int64"})
        with replacing(self.out / "trials.csv") as temporary:
            write_csv(frame, temporary)
        best = self.find_best({point: t for point, t in trials.items() if t.state == TrialState.COMPLETE})
        if best is not None:
            write_json(self.out / "best.json", best)
        return Sweep(self.out, frame, best)

    def find_best(self, complete: Mapping[int, FrozenTrial]) -> dict[str, Any] | None:
        """Return the trial with the best accuracy on noisy validation rows; of equals, that with the lowest loss."""

        def merit(point: int) -> tuple[float, float, int]:
            loss = complete[point].user_attrs["valid_loss"]
            return complete[point].value or 0.0, -math.inf if loss is None else -loss, -point

        if not complete:
            return None
        point = max(complete, key=merit)
        trial, options, fixed = complete[point], self.space.points[point], self.space.fixed
        settings = [word for name, value in options.items() for word in ("--set", f"{name}={plain(value)}")]
        return {
            "method": fixed.method,
            "setting": fixed.setting,
            "seed": fixed.seed,
            "options": options,
            "valid_accuracy": trial.value,
            "valid_loss": trial.user_attrs["valid_loss"],
            "selected_epoch": trial.user_attrs["selected_epoch"],
            "n_valid": self.n_valid,
            "trial": trial.number,
            "n_trials": len(complete),
            "command": shlex.join([*self.fit_command, *settings]),
        }


def run_tuned(
    fits: Sequence[Fit],
    data: Path,
    out: Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """Do the fits as `run_fits` does, each in the settings that did best for its method; sweeps that ended stay.

    `data`, `out`: folder of the datasets, and of the result files.
    `threads`, `progress`, `stop`: as in `run_fits`.
    `say`: called with one line for every trial.
    """
    tuned: dict[str, Recipe] = {}
    for recipe in {fit.recipe.dataset: fit.recipe for fit in fits}.values():
        loaded, own = load_data(recipe, data), [fit for fit in fits if fit.recipe == recipe]
        changes = next((fit.changes for fit in own if not fit.variant), {})
        for method in dict.fromkeys(fit.method for fit in own):
            say(f"Searching options of {method} on noisy validation rows of {recipe.dataset}")
            how = {"threads": threads, "progress": progress, "say": say, "stop": stop}
            recipe = _tune(recipe, method, loaded, out, changes, how)
        tuned[recipe.dataset] = recipe
    fits = [replace(fit, recipe=tuned[fit.recipe.dataset]) for fit in fits]
    return run_fits(fits, data, out, threads=threads, progress=progress, stop=stop)


def _tune(
    recipe: Recipe, method: str, data: NoisyDataset, out: Path, changes: Mapping[str, Any], how: dict[str, Any]
) -> Recipe:
    """Return the recipe with what its grid has best for a method; as it is where there is nothing to search."""
    own = {name: values for name, values in recipe.search.items() if name not in changes}
    options, search = recipe_search(recipe, data, method, changes=changes, own=own or None)
    if not search:
        return recipe
    folder = Fit(recipe, method).path(out).parent / "tune" / method
    threads, how = how["threads"], {name: value for name, value in how.items() if name != "threads"}
    best = run_sweep(
        *table_and_inputs(data), folder, replace(options, threads=threads), search, resume=True, **how
    ).best
    if best is None:
        raise RunError(f"No trial of {method} ended well; {folder / 'trials.csv'} says why.")
    found = {"options": best["options"], "trials": best["n_trials"], "by": "accuracy on noisy validation rows, seed 0"}
    methods = merge(recipe.methods, {method: best["options"]})
    return replace(recipe, methods=methods, tuned={**recipe.tuned, method: found})
