"""Points of a study, taken by any number of workers, each point once.

No lock is needed: a worker takes a point by adding a running trial, and of several trials of a point the first that was
not put back has it. A trial is put back when its worker was stopped, or is known to be dead: its lock file is free or,
as seen from another machine, its heart has not beaten for a minute.
"""

import contextlib
import platform
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import optuna
from msgspec import ValidationError, convert
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from ...data.pi.random_pi import derive_seed
from ...errors import RunError
from ...files.locks import is_locked, lock
from ...learn.engine import Interrupted
from ...run.records.reading import describe_problem
from .records import Trial
from .space import Space
from .study import study_errors

BEAT_SECONDS, SILENT_SECONDS = 5.0, 60.0
LOCK_NAME = re.compile(r"[0-9a-f]{32}\.lock")  # no other file that a study names is opened


@contextlib.contextmanager
def lock_file(folder: Path) -> Iterator[dict[str, str]]:
    """Hold a lock that ends with this process; yields what others need to look at it.

    The file stays where the process does not end well, so that other workers see that its trial is free.
    """
    path = folder / f"{uuid.uuid4().hex}.lock"
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        yield {"host": platform.node(), "lock": str(path.absolute()) if lock(file) else ""}
    path.unlink(missing_ok=True)


def is_alive(worker: Mapping[str, str]) -> bool | None:
    """Whether a worker lives, by its lock file; None where that is not known."""
    path = Path(worker["lock"])
    if worker["host"] != platform.node() or not LOCK_NAME.fullmatch(path.name) or not path.is_file():
        return None
    try:
        file = path.open("rb")
    except FileNotFoundError:  # the worker ended between the two looks
        return None
    with file:
        return is_locked(file)


def dead_locks(folder: Path) -> list[Path]:
    """Lock files of workers that live no more."""
    files = folder.glob("*.lock")
    return [path for path in files if is_alive({"host": platform.node(), "lock": str(path)}) is False]


class Queue:
    """The points of a study that are left to take, shared with other workers.

    Parameters
    ----------
    study : optuna.Study
    space : Space
    sampler : "grid" or "tpe"
    limit : int
        Points to take, over all workers.
    worker : mapping
        This worker, from `lock_file`.
    stop : callable
        Asked while waiting; True raises Interrupted.
    """

    def __init__(
        self,
        study: optuna.Study,
        space: Space,
        sampler: str,
        limit: int,
        worker: Mapping[str, str],
        stop: Callable[[], bool],
    ):
        self.study, self.space, self.sampler, self.limit = study, space, sampler, limit
        self.worker, self.stop = worker, stop
        order = np.random.default_rng(derive_seed(space.fixed.seed, 11)).permutation(len(space))
        self.order = [int(number) for number in order]
        self.heard: dict[int, tuple[int, float, bool]] = {}  # trial -> its beat, when first seen, not the first

    def trials(self) -> list[FrozenTrial]:
        """All trials that were not put back, in the order they were made."""
        with study_errors(self.study.study_name):
            trials = self.study.get_trials(deepcopy=False)
        kept = [trial for trial in trials if trial.state != TrialState.FAIL or "error" in trial.user_attrs]
        for trial in kept:
            self.check(trial, Trial)
        return sorted(kept, key=lambda trial: trial.number)

    def check(self, trial: FrozenTrial, kind: type[Trial]) -> None:
        """Refuse a trial that no worker of this sweep can have made."""
        complete = trial.state == TrialState.COMPLETE
        found = {**trial.user_attrs, **({"valid_accuracy": trial.value} if complete else {})}
        problem = ""
        try:
            if convert(found, kind).point >= len(self.space):
                problem = f"point must be below {len(self.space)}"
        except ValidationError as error:
            problem = describe_problem(error, found)
        if problem:
            raise RunError(
                f"The study '{self.study.study_name}' cannot be used: in trial {trial.number}, {problem}; it is "
                "damaged or was changed, so start over with another directory and study (--out, --study)."
            )

    def take(self) -> optuna.Trial | None:
        """A trial of a point that no worker has, or None where there is none left to take."""
        while True:
            if self.stop():
                raise Interrupted("stopped between two trials")
            trials = self.trials()
            lives = [self.find_life(trial) for trial in trials if trial.state == TrialState.RUNNING]
            if False in lives:
                continue  # a dead worker's trial was put back
            had = owners(trials)
            free = [number for number in self.order if number not in had]
            if free and len(had) < self.limit:
                trial = self.claim(self.suggest(free, trials))
                if trial is not None:
                    return trial
            elif None in lives:
                time.sleep(0.5)  # until each has shown a sign of life, or none for too long
            else:
                return None

    def claim(self, number: int) -> optuna.Trial | None:
        """Add a trial of the point; None where another worker was faster."""
        mine = uuid.uuid4().hex
        attributes = {"point": number, "claim": mine, **self.worker}
        self.study.add_trial(
            create_trial(
                state=TrialState.RUNNING,
                params=self.space.params[number],
                distributions=self.space.distributions,
                user_attrs=attributes,
            )
        )
        trials = self.trials()
        trial = next(trial for trial in trials if trial.user_attrs["claim"] == mine)
        earlier = owners(other for other in trials if other.number < trial.number)
        if number in earlier or len(earlier) >= self.limit:
            self.put_back(trial.number)
            return None
        return optuna.Trial(self.study, trial._trial_id)

    def suggest(self, free: Sequence[int], trials: Sequence[FrozenTrial]) -> int:
        """The free point to try next."""
        if self.sampler == "grid":
            return free[0]
        sampler = optuna.samplers.TPESampler(seed=derive_seed(self.space.fixed.seed, 12, len(trials)) % 2**32)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials([trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)])
        for _ in range(10):
            number = self.space.params.index(study.ask(self.space.distributions).params)
            if number in free:
                return number
        return free[0]

    def put_back(self, number: int) -> None:
        """Let others take the point of a trial."""
        with contextlib.suppress(UpdateFinishedTrialError, ValueError):  # someone else did
            self.study.tell(number, state=TrialState.FAIL)

    def find_life(self, trial: FrozenTrial) -> bool | None:
        """Whether the worker of a running trial lives, None where that is not known yet; a dead one's is put back."""
        alive = is_alive(trial.user_attrs)
        if alive is None:
            beat, now = trial.user_attrs.get("beat", 0), time.monotonic()
            last, since, moved = self.heard.get(trial.number, (beat, now, False))
            if beat != last:
                since, moved = now, True
            self.heard[trial.number] = (beat, since, moved)
            if now - since > SILENT_SECONDS:
                alive = False
            elif moved and now - since < 3 * BEAT_SECONDS:
                alive = True
        if alive is False:
            self.put_back(trial.number)
        return alive


def owners(trials: Iterable[FrozenTrial]) -> dict[int, FrozenTrial]:
    """Point -> the trial that has it: of those that were not put back, in the order they were made, the first."""
    found: dict[int, FrozenTrial] = {}
    for trial in trials:
        found.setdefault(trial.user_attrs["point"], trial)
    return found


@contextlib.contextmanager
def beating(trial: optuna.Trial) -> Iterator[Callable[[], bool]]:
    """Show other workers that the trial's worker lives; yields whether one of them thought otherwise and took it."""
    done, lost = threading.Event(), threading.Event()

    def beat() -> None:
        count = 0
        while not done.wait(BEAT_SECONDS):
            count += 1
            try:
                trial.set_user_attr("beat", count)
            except UpdateFinishedTrialError:
                lost.set()
                break
            except StorageInternalError:
                continue  # the next beat may get through in time
        trial.storage.remove_session()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield lost.is_set
    finally:
        done.set()
        thread.join()
