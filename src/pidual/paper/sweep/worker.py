"""A worker of a sweep: take a point, fit there, record the result, until there is no point left."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
from optuna.exceptions import TrialPruned, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from ...data import AnnotationTable, Inputs
from ...data.pi.random_pi import derive_seed
from ...errors import UsageError
from ...fit.fit import train
from ...fit.prepare import prepare
from ...learn.engine import Callback, Interrupted, Progress, Session, make_fabric
from ...learn.engine.checkpoint import StateStore
from ...learn.engine.fit import Trainer
from ...learn.engine.history import Record
from ...run.lifecycle import remove_state
from .results import Sweep
from .space import Space
from .study import GRACE_SECONDS, fail_stale_trials, read_trials, running


class _DroppedError(Exception):
    """Another worker has the point of a trial, or the last trial there is to take."""


class _FailedError(Exception):
    """No fit at the point of a trial can end well."""


@dataclass
class Worker:
    """Runs the trials of a sweep; see `run_sweep`.

    A point is taken by adding a trial of it; of several trials of one point the first that did not fail has it. Optuna
    keeps the heartbeat of a trial and fails it if there is none for a while: then its point is free again.
    """

    table: AnnotationTable
    inputs: Inputs
    study: optuna.Study
    space: Space
    sampler: str
    limit: int
    states: Path
    prune: bool
    progress: Progress
    say: Callable[[str], None]
    stop: Callable[[], bool]

    def run_all(self, write: Callable[..., Sweep]) -> Sweep:
        """Take points and fit there until none is left; `write` what is known after each."""
        limit, space = self.limit, self.space
        tried = f"{limit} of {len(space)}" if limit < len(space) else f"{limit}"
        self.say(f"{tried} points of {', '.join(space.search)}; taken before: {len(self.taken())}")
        order = np.random.default_rng(derive_seed(space.fixed.seed, 11)).permutation(len(space)).tolist()
        patience = time.monotonic() + GRACE_SECONDS
        while True:
            if self.stop():
                raise Interrupted("stopped between two trials")
            fail_stale_trials(self.study)
            taken = self.taken()
            free = [number for number in order if number not in taken]
            if free and len(taken) < limit:
                if not self.study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
                    point = self.suggest(free, taken)
                    self.study.enqueue_trial(space.params[point], user_attrs={"point": point})
                self.run_one()
                write(self.taken)
                patience = time.monotonic() + GRACE_SECONDS
            elif time.monotonic() > patience or not running(taken):
                break
            else:
                time.sleep(0.2)  # until it is known that the workers of these trials live
        for point, trial in self.taken().items():
            if trial.state.is_finished():  # left by workers that did not end well
                remove_state(self.store(point).folder)
        return write(self.taken, plot=True)

    def taken(self) -> dict[int, FrozenTrial]:
        """Return point -> the trial that has it."""
        return read_trials(self.study, self.space)

    def suggest(self, free: Sequence[int], taken: Mapping[int, FrozenTrial]) -> int:
        """Return the free point to try next."""
        if self.sampler == "grid":
            return free[0]
        sampler = optuna.samplers.TPESampler(seed=derive_seed(self.space.fixed.seed, 12, len(taken)) % 2**32)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        ended = [trial for trial in taken.values() if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
        study.add_trials(sorted(ended, key=lambda trial: trial.number))
        for _ in range(10):
            number = self.space.params.index(study.ask(self.space.distributions).params)
            if number in free:
                return number
        return free[0]

    def store(self, point: int) -> StateStore:
        """Return where the state of the fit at a point is saved."""
        return StateStore(self.states / f"point-{point}")

    def run_one(self) -> None:
        """Run a trial that waits, and record the result."""
        try:
            self.study.optimize(self.objective, n_trials=1, catch=(_DroppedError, _FailedError))
        except (UpdateFinishedTrialError, ValueError) as error:
            if not (isinstance(error, UpdateFinishedTrialError) or str(error).startswith("Cannot tell")):
                raise
            self.say("A trial was taken over by another worker, because this one did not respond for too long")

    def objective(self, trial: optuna.Trial) -> float:
        """Fit at the point of a trial; return the accuracy on noisy validation rows."""
        point = trial.user_attrs.get("point")
        if point is None:  # another worker took the trial that was added
            raise _DroppedError
        trial.storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]  # the first, before a kill
        for name, distribution in self.space.distributions.items():
            trial.suggest_categorical(name, distribution.choices)  # type: ignore[attr-defined]
        others = {number for number, other in self.taken().items() if other.number < trial.number}
        if point in others or len(others) >= self.limit:
            raise _DroppedError
        self.say(f"Trial {trial.number}: {self.space.describe(point)}")
        try:
            accuracy = self.fit(trial, point)
        except UpdateFinishedTrialError:
            raise
        except (UsageError, RuntimeError) as error:  # what no fit at this point can do, such as fit into the memory
            reason = str(error).partition("\n")[0]
            trial.set_user_attr("error", reason)
            self.say(f"Trial {trial.number}: failed ({reason})")
            raise _FailedError from error
        remove_state(self.store(point).folder)
        return accuracy

    def fit(self, trial: optuna.Trial, point: int) -> float:
        """Fit to the end, or until the study has seen enough of it."""
        store = self.store(point)
        watch = Watch(trial, self.prune, store.history())
        job = prepare(self.table, self.inputs, self.space.options(point))
        fabric = make_fabric(job.options.accelerator, job.training.precision)
        try:
            fitted = train(job, Session(fabric, store, [watch, self.progress], lambda: self.stop() or watch.pruned))
        except Interrupted as error:
            if self.stop():
                raise
            trial.set_user_attr("seconds", round(watch.seconds, 3))
            self.say(f"Trial {trial.number}: pruned after epoch {watch.epochs}")
            remove_state(store.folder)
            raise TrialPruned from error
        record = next(r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch)
        accuracy, loss = float(record["valid_accuracy"]), record["valid_loss"]
        trial.set_user_attr("selected_epoch", fitted.selected_epoch)
        trial.set_user_attr("valid_loss", loss if math.isfinite(loss) else None)
        trial.set_user_attr("seconds", round(watch.seconds, 3))
        when = f"epoch {fitted.selected_epoch + 1}, {watch.seconds:.1f} s"
        self.say(f"Trial {trial.number}: noisy validation {accuracy:.1%} at {when}")
        return accuracy


class Watch(Callback):
    """Ask the study after every epoch whether to continue the trial."""

    def __init__(self, trial: optuna.Trial, prune: bool, before: Iterable[Record]):
        self.trial, self.prune, self.pruned = trial, prune, False
        self.epochs, self.seconds = 0, 0.0
        for record in before:
            self.count(record)

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self.count(record)
        self.trial.set_user_attr("epochs", self.epochs)  # refused if another worker has taken over
        self.pruned = self.prune and self.trial.should_prune()

    def count(self, record: Record) -> None:
        """Add up the time, and report to the study; epochs after a collapse have no counterpart in other trials."""
        self.seconds += record["seconds"]
        if record["attempt"] == 0:
            if self.prune:
                self.trial.report(record["valid_accuracy"], self.epochs)
            self.epochs += 1
