"""The Optuna study of a sweep: opened, and checked to be of the same data and options."""

import contextlib
import json
import random
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ...errors import RunError, UsageError
from ...files import without_passwords
from ...fit.prepare import Job
from ...fit.record import describe
from ...run.identity import find_changes, refuse_change
from .space import Space

LOCKED_SECONDS = 120.0  # how long SQLite waits for another worker's write
OPEN_TRIES = 8
HEARTBEAT_SECONDS, GRACE_SECONDS = 15, 60  # how often a worker shows that it lives, and how long it may be silent


def identity(job: Job, space: Space, sampler: str, prune: bool) -> dict[str, Any]:
    """What must be the same in all workers of a sweep: data, search space, and the options at its first point."""
    config = describe(job)
    parts, known = config.identity(), config.data.to_json()
    data = {name: known[name] for name in ("fingerprint", "x_fingerprint", "n_train", "n_valid", "pi")}
    parts |= {"data": data, "search": space.search, "sampler": sampler, "prune": prune}
    same: dict[str, Any] = json.loads(json.dumps(parts))
    return same


def check_same(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to continue with other data or options."""
    way_out = "use the data and options it was started with, or another directory and study (--out, --study)."
    contents = {"fingerprint": "the table", "x_fingerprint": "the inputs"}
    for name, was, now in find_changes(old, new):
        refuse_change(what, name, was, now, way_out, contents)


def safe_url(url: str) -> str:
    """The URL without its password."""
    try:
        return without_passwords(make_url(url).render_as_string(hide_password=True))
    except ArgumentError as error:
        raise UsageError(
            f"'{without_passwords(url)}' is not the URL of a database; --storage takes one such as "
            "sqlite:////shared/study.sqlite or postgresql://user@host/name."
        ) from error


@contextlib.contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn errors of the database into a sentence."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        reason = str(getattr(error.__cause__, "orig", None) or getattr(error, "orig", None) or error).strip()
        if "not a database" in reason or "malformed" in reason:
            raise RunError(
                f"The database {safe_url(url)} is damaged or not a database ({reason}); start over with --force "
                "(force=True in Python), or choose another storage or directory (--storage, --out)."
            ) from error
        raise RunError(
            f"The database {safe_url(url)} failed ({without_passwords(reason)}); trials that ended before are kept. "
            "Continue with --resume (resume=True in Python)."
        ) from error


@contextlib.contextmanager
def study_errors(name: str) -> Iterator[None]:
    """Say so where Optuna cannot make sense of what a database holds of a study."""
    try:
        yield
    except (LookupError, ValueError) as error:
        raise RunError(
            f"The study '{name}' cannot be read ({error}); it is damaged or was changed, so start over with another "
            "directory and study (--out, --study)."
        ) from error


@contextlib.contextmanager
def opened(url: str) -> Iterator[RDBStorage]:
    """The storage behind a URL; closed in the end."""
    arguments: dict[str, Any] = {}
    if url.startswith("sqlite"):  # whose connections are cheap: none is kept by a storage that could not be opened
        arguments = {"connect_args": {"timeout": LOCKED_SECONDS}, "poolclass": NullPool}
    for left in reversed(range(OPEN_TRIES)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                beat, grace = HEARTBEAT_SECONDS, GRACE_SECONDS
                storage = RDBStorage(url, engine_kwargs=arguments, heartbeat_interval=beat, grace_period=grace)
            break
        except RuntimeError as error:
            raise RunError(f"The study in {safe_url(url)} cannot be opened ({error}).") from error
        except ImportError as error:
            raise UsageError(f"{safe_url(url)} cannot be opened ({error}); install its driver.") from error
        except SQLAlchemyError:  # another worker may be making the tables at this moment
            if not left:
                raise
            time.sleep(0.1 + 0.3 * random.random())
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def open_study(
    storage: RDBStorage,
    name: str,
    pruner: optuna.pruners.BasePruner,
    same: dict[str, Any],
    *,
    force: bool,
    resume: bool,
) -> optuna.Study:
    """Make the study, or join it where it is the same sweep."""
    if force:
        with contextlib.suppress(KeyError):
            optuna.delete_study(study_name=name, storage=storage)
    try:
        with study_errors(name):
            study = optuna.create_study(
                storage=storage,
                study_name=name,
                direction="maximize",
                sampler=optuna.samplers.RandomSampler(),  # points are chosen here, before a trial is made
                pruner=pruner,
                load_if_exists=resume,
            )
            known = study.user_attrs
            maximised = study.direction == optuna.study.StudyDirection.MAXIMIZE
            if not maximised or ("pidual" not in known and study.get_trials(deepcopy=False)):
                raise RunError(
                    f"The study '{name}' was not made by `pidual sweep`; give the study another name (--study)."
                )
    except DuplicatedStudyError as error:
        raise RunError(
            f"There is a study '{name}' in the storage; join it with --resume, replace it with --force (resume=True or "
            "force=True in Python), or give the study another name (--study)."
        ) from error
    if "pidual" not in known:
        study.set_user_attr("pidual", same)
        known = study.user_attrs  # another worker may have done so at the same time
    check_same(f"The study '{name}'", known["pidual"], same)
    return study


def read_trials(study: optuna.Study, space: Space) -> dict[int, FrozenTrial]:
    """Return point -> the first trial of it that runs or has ended; of failed ones those that no fit can end well."""
    with study_errors(study.study_name):
        trials = study.get_trials(deepcopy=False)
        found: dict[int, FrozenTrial] = {}
        for trial in sorted(trials, key=lambda trial: trial.number):
            free = trial.state == TrialState.FAIL and "error" not in trial.user_attrs
            point = trial.user_attrs.get("point")  # none of trials that are dropped at once
            if trial.state == TrialState.WAITING or point is None or free:
                continue
            known = len(trial.params) == len(space.search)  # not of one that has only just begun
            if not isinstance(point, int) or (known and trial.params not in space.params[point : point + 1]):
                raise ValueError(f"trial {trial.number} is of no point to search")
            found.setdefault(point, trial)
        return found


def running(trials: Mapping[int, FrozenTrial]) -> bool:
    """Return whether some of the trials are not at their end."""
    return any(trial.state == TrialState.RUNNING for trial in trials.values())


def refuse_busy(url: str, name: str, out: Path) -> None:
    """Refuse to replace a sweep of which a worker has shown a sign of life lately."""
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return
    busy = False
    with contextlib.suppress(RunError, KeyError, ValueError), storage_errors(url), opened(url) as storage:
        study = optuna.load_study(study_name=name, storage=storage)
        fail_stale_trials(study)
        busy = bool(study.get_trials(deepcopy=False, states=[TrialState.RUNNING]))
    if busy:
        raise RunError(
            f"A worker is still busy with the sweep in {out}, or was {GRACE_SECONDS} seconds ago; stop it, and wait "
            "that long, before you replace the sweep."
        )


def fail_stale_trials(study: optuna.Study) -> None:
    """Free the points of trials whose workers have shown no sign of life for too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)
