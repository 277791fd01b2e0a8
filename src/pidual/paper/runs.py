"""The fits of a benchmark as result files: one each, never done twice, even when several processes share the folder.

OUT/<scale>/<dataset>/<method>-<seed>.json             a finished fit
OUT/<scale>/<dataset>/<method>-<seed>.claim, .state/   one that a process is doing, or was doing when it was killed

At the paper's scale, train as the code base does that the paper was built on, which is written for Keras (METHODS 1.4).
"""

import contextlib
import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import nn

from .. import __version__
from ..data import Inputs
from ..data.datasets import load_dataset
from ..data.datasets.base import NoisyDataset
from ..errors import RunError, UsageError
from ..errors.messages import no_method
from ..files import lock, read_json, write_json, write_text
from ..fit.options import FitOptions
from ..fit.settings import split_settings
from ..learn.engine import Progress, make_fabric
from ..learn.engine.checkpoint import StateStore
from ..learn.methods import METHODS
from ..options import Training, at_least, check_options, defaults, one_of, signature
from ..run.lifecycle import find_changes, refuse_change
from .ablations import ABLATIONS
from .recipes import MAIN_METHODS, Recipe
from .score import Result, fit_and_score

NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
Groups = list[dict[str, Any]]


@dataclass(frozen=True)
class CodeBaseTraining(Training):
    """Options of training that only the code base needs, beside those of `Training`.

    Parameters
    ----------
    lr_scale_batch : int, optional
        Batch size that `lr` is meant for: the rate becomes lr * batch_size / lr_scale_batch. None uses `lr` at any
        batch size.
    decay_convention : {"pytorch", "keras"}
        How `weight_decay` is counted. "pytorch" adds weight_decay * w to the gradient. "keras" adds twice that, the
        gradient of the penalty weight_decay * w^2.
    decay_norms : bool
        Apply weight decay to gains and biases of normalisation layers too. All other parameters have it, except those
        of PI networks, which the method option `pi_weight_decay` decides on.
    momentum_convention : {"pytorch", "keras"}
        Where the learning rate enters. "pytorch" multiplies the velocity by the current rate. In "keras" past gradients
        keep the rate they came with. The two differ only for some steps after the rate changes.
    valid_whole_batches : bool
        Leave out the last noisy validation rows if they do not fill a batch: with batches of 256, 256 of 400 rows are
        used. A set smaller than a batch is used whole.
    """

    lr_scale_batch: Annotated[int | None, at_least(1)] = None
    decay_convention: Annotated[str, one_of("pytorch", "keras")] = "pytorch"
    decay_norms: bool = True
    momentum_convention: Annotated[str, one_of("pytorch", "keras")] = "pytorch"
    valid_whole_batches: bool = False

    @property
    def scaled_lr(self) -> float:
        return self.lr * (self.batch_size / self.lr_scale_batch if self.lr_scale_batch else 1)

    def count_valid(self, n: int) -> int:
        return (n // self.batch_size * self.batch_size or n) if self.valid_whole_batches else n

    def make_sgd(self, groups: Groups) -> torch.optim.Optimizer:
        return _KerasSGD(groups, {}) if self.momentum_convention == "keras" else super().make_sgd(groups)

    def decay_groups(self, method: nn.Module, groups: Groups) -> Groups:
        if self.decay_convention == "keras":  # the penalty is l2 * w^2, of which the gradient is 2 l2 w
            groups = [{**group, "weight_decay": 2 * group["weight_decay"]} for group in groups]
        if self.decay_norms:
            return groups
        norms = {id(p) for module in method.modules() if isinstance(module, NORMS) for p in module.parameters()}
        parts = []
        for group in groups:
            inside = [p for p in group["params"] if id(p) in norms]
            others = [p for p in group["params"] if id(p) not in norms]
            parts += [{**group, "params": others}] if others else []
            parts += [{**group, "params": inside, "weight_decay": 0.0}] if inside else []
        return parts


class _KerasSGD(torch.optim.Optimizer):
    """SGD with momentum as Keras has it, the learning rate inside the velocity.

    v <- momentum * v - lr * g
    w <- w + momentum * v - lr * g        with Nesterov's momentum, else w + v

    torch has v <- momentum * v + g and multiplies by the rate of the moment.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            weights = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not weights:
                continue
            moves = torch._foreach_add([weight.grad for weight in weights], weights, alpha=group["weight_decay"])
            torch._foreach_mul_(moves, -group["lr"])
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            velocities = [self.state[weight]["momentum_buffer"] for weight in weights]
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, moves)
            if not group["nesterov"]:
                torch._foreach_add_(weights, velocities)
                continue
            torch._foreach_add_(weights, velocities, alpha=group["momentum"])
            torch._foreach_add_(weights, moves)


STATE, CLAIM = ".state", ".claim"  # beside a result that is being made
SAVE_EVERY = 60.0  # seconds between two resume points of a fit
DATA_SEED = 0  # of subsets and of labels that are made: one noisy dataset for all seeds


@dataclass(frozen=True)
class Fit:
    """One fit of a benchmark."""

    recipe: Recipe
    method: str
    seed: int = 0
    variant: str = ""  # name of what is changed; "" for the method as it is
    changes: Mapping[str, Any] = field(default_factory=dict)  # settings that the variant changes

    @property
    def label(self) -> str:
        """The fit in a few words."""
        return f"{self.recipe.dataset} {self.method}{', ' + self.variant if self.variant else ''}, seed {self.seed}"

    @property
    def changes_nothing(self) -> bool:
        """Whether the settings that the variant changes are those of the method anyway, as tuned."""
        known, settings = defaults(METHODS[self.method]), self.recipe.method_settings
        return bool(self.changes) and known | settings(self.method, self.changes) == known | settings(self.method, {})

    def path(self, out: Path) -> Path:
        """Its result file."""
        folder = re.sub(r"[^\w.-]|^\.+", "-", self.recipe.dataset)  # the name of somebody's own data may be any text
        return out / self.recipe.scale / folder / "-".join([self.method, *words_of(self.variant), f"{self.seed}.json"])

    def identity(self) -> Result:
        """Return what makes it this fit and no other."""
        recipe = self.recipe
        identity = {
            "dataset": recipe.dataset,
            "scale": recipe.scale,
            "method": self.method,
            "variant": self.variant,
            "seed": self.seed,
            "settings": recipe.method_settings(self.method, self.changes),
            "n_train": recipe.n_train,
            "n_test": recipe.n_test,
            "valid_fraction": recipe.valid_fraction,
            "pi_kinds": dict(recipe.pi_kinds),
            "dataset_options": dict(recipe.dataset_options),
        }
        if recipe.split_seed is not None:
            identity["split_seed"] = recipe.split_seed
        if self.method in recipe.tuned:
            identity["tuned"] = recipe.tuned[self.method]
        as_json: Result = json.loads(json.dumps(identity))
        return as_json

    @property
    def ablation(self) -> dict[str, Any]:
        """What it changes of Pi-DUAL or of its PI, beside options."""
        return {name: self.changes[name] for name in ABLATIONS if name in self.changes}

    def options(self, noise_rate: float) -> FitOptions:
        """Options of the fit; a method that has to know the share of wrong labels gets that of the data."""
        settings = self.recipe.method_settings(self.method, self.changes)
        settings = {name: value for name, value in settings.items() if name not in self.ablation}
        network = settings.pop("network", None)
        if "noise_rate" in signature(METHODS[self.method]):
            settings = {"noise_rate": round(noise_rate, 4), **settings}
        return FitOptions(
            method=self.method,
            setting="paper",
            options=settings,
            network=network,
            valid_fraction=self.recipe.valid_fraction,
            valid_items=None,
            split_seed=self.recipe.split_seed,
            pi_kinds=self.recipe.pi_kinds,
            pi_min_count=1,
            seed=self.seed,
            training=CodeBaseTraining,
        )


def words_of(variant: str) -> list[str]:
    """Return a variant in the name of a result file."""
    return variant.replace("%", "").replace(",", "").split()


def choose_methods(names: Sequence[str], main: Sequence[str] = MAIN_METHODS) -> list[str]:
    """Methods by name; "main" stands for those of the recipe, "all" for all there are."""
    groups: dict[str, Iterable[str]] = {"main": main, "all": METHODS}
    unknown = [name for name in names if name not in (*groups, *METHODS)]
    if unknown:
        raise UsageError(no_method(unknown[0], METHODS, list(groups)))
    return list(dict.fromkeys(method for name in names for method in groups.get(name, [name])))


def plan(recipe: Recipe, methods: Sequence[str], seeds: int, changes: Mapping[str, Any] | None = None) -> list[Fit]:
    """Every method with every seed, in settings other than the recipe's if any; all methods of a seed before the next.

    Settings that a method does not have are refused before anything is trained.
    """
    own = split_settings(
        {name: value for name, value in (changes or {}).items() if name != "network"}, CodeBaseTraining
    ).method
    for method in methods:
        check_options(f"method '{method}'", METHODS[method], own)
    return [Fit(recipe, method, seed, changes=changes or {}) for seed in range(seeds) for method in methods]


def load_data(recipe: Recipe, folder: Path) -> NoisyDataset:
    """Load the dataset of a recipe, or the part of it that the recipe draws."""
    data = load_dataset(recipe.dataset, folder, seed=DATA_SEED, **recipe.dataset_options)
    return draw_items(data, recipe.n_train, recipe.n_test)


def draw_items(data: NoisyDataset, n_train: int | None, n_test: int | None) -> NoisyDataset:
    """Draw a dataset of this many training and test items, drawn once for all; None or more than there are: all."""
    rng = np.random.default_rng(DATA_SEED)
    changes: dict[str, Any] = {}
    items = np.unique(data.frame["item"])
    if n_train is not None and n_train < len(items):
        drawn = np.sort(rng.permutation(items)[:n_train])
        changes["frame"] = data.frame[data.frame["item"].isin(drawn)].reset_index(drop=True)
        if not isinstance(data.x, Inputs):
            changes["x"] = data.x[drawn]
            changes["frame"]["item"] = np.searchsorted(drawn, changes["frame"]["item"])
    if n_test is not None and n_test < len(data.y_test):
        drawn = np.sort(rng.permutation(len(data.y_test))[:n_test])
        if isinstance(data.x_test, Inputs):
            raise UsageError(f"{data.name}: a part of a test set that is read from disk cannot be drawn.")
        changes |= {"x_test": data.x_test[drawn], "y_test": data.y_test[drawn]}
    return dataclasses.replace(data, **changes, whole=data.whole and not changes)


def run_fits(
    fits: Sequence[Fit],
    data: Path | NoisyDataset,
    out: Path,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """Do the fits whose result is missing, and give the results of all that are done.

    A fit that another process is doing is left to it; one that was killed continues where its state was saved.

    `data`: folder of the datasets, or the one that all fits are of: results have its name then, not the recipe's.
    `out`: folder of the result files.
    `threads`: as in FitOptions; results are the same fits with any number of them.
    `stop`: asked at every step; True raises Interrupted.
    """
    progress, fits = progress or Progress(), [fit for fit in fits if not fit.changes_nothing]
    if isinstance(data, NoisyDataset):
        fits = [dataclasses.replace(fit, recipe=dataclasses.replace(fit.recipe, dataset=data.name)) for fit in fits]
    fabric = make_fabric()
    first = fabric.global_rank == 0
    loaded: Recipe | None = None
    dataset: NoisyDataset | None = None
    for number, fit in enumerate(fits, start=1):
        path = fit.path(out)
        done = _is_done(fit, path)  # all processes refuse what must be refused
        with claimed(path) if first and not done else contextlib.nullcontext(False) as mine:
            if not fabric.broadcast(mine):
                continue
            if first:
                progress.heading(f"Fit {number} of {len(fits)}: {fit.label}")
            if dataset is None or loaded != fit.recipe:
                dataset, loaded = data if isinstance(data, NoisyDataset) else load_data(fit.recipe, data), fit.recipe
            fingerprint = dataset.fingerprint()
            _check_same_data(fit, path, fingerprint, beside_plain=not isinstance(data, NoisyDataset))
            if first:
                begin(fit, path, fingerprint)
            fabric.barrier()
            store = StateStore(path.with_suffix(STATE), SAVE_EVERY)
            options = dataclasses.replace(fit.options(dataset.noise_rate), threads=threads)
            result = fit_and_score(
                dataset,
                options,
                ablation=fit.ablation,
                watched=fit.recipe.watched,
                store=store,
                progress=progress,
                stop=stop,
            )
            if first:
                used = result.pop("threads")
                write_result(path, {**fit.identity(), **result, "about": {**about(), "threads": used}})
                shutil.rmtree(store.folder)
    fabric.barrier()  # until the last result is there for all
    return [read_result(fit.path(out)) for fit in fits if fit.path(out).exists()]


def _check_same_data(fit: Fit, path: Path, fingerprint: str, *, beside_plain: bool) -> None:
    """Refuse a fit on other data than that of the results it will stand beside: those of its variant, and plain ones.

    As none of them was refused, one of each says what data that is. Who brings a dataset of their own may have changed
    it for a variant: then plain ones do not count.
    """
    names = sorted(other.name for other in path.parent.glob("*.json"))
    for variant in {fit.variant, "" if beside_plain else fit.variant}:
        pattern = re.compile("-".join([r"\w+", *map(re.escape, words_of(variant)), r"\d+\.json"]))
        one = next(filter(pattern.fullmatch, names), None)
        if one is not None and read_result(path.with_name(one))["data"]["fingerprint"] != fingerprint:
            raise RunError(
                f"{path.with_name(one)} was made with other data or another part of it; use another directory (--out)."
            )


def begin(fit: Fit, path: Path, fingerprint: str) -> None:
    """Make the folder for the state of a fit; a state that other settings or other data left there is removed."""
    state = path.with_suffix(STATE)
    begun, identity = state / "fit.json", {**fit.identity(), "fingerprint": fingerprint}
    if begun.exists() and read_json(begun) != identity:
        shutil.rmtree(state)
    state.mkdir(parents=True, exist_ok=True)
    write_json(begun, identity)


def _is_done(fit: Fit, path: Path) -> bool:
    """Whether the result is there; it must be of the same fit."""
    if not path.exists():
        return False
    way_out = "remove the file or use another directory (--out)."
    for name, made, asked in find_changes(read_result(path), fit.identity()):
        refuse_change(f"The fit in {path}", name, made, asked, way_out)
    return True


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether this process is to do the fit of a result file: no other process is doing it, or has just done it.

    The claim of a process is a lock, which ends with the process even if that is killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    claim = path.with_suffix(CLAIM)
    with claim.open("a") as file:
        try:
            lock(file)
        except BlockingIOError:
            yield False
            return
        yield not path.exists()
        if path.exists():
            claim.unlink(missing_ok=True)


def write_result(path: Path, result: Result) -> None:
    """Write a result atomically, one line for each of its parts."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in result.items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_result(path: Path) -> Result:
    """Read a result file."""
    try:
        result: Result = read_json(path)
    except ValueError as error:
        raise RunError(f"{path} is not a result file ({error}); remove it to have the fit done again.") from error
    if not isinstance(result, dict) or "fingerprint" not in (result.get("data") or {}):
        raise RunError(
            f"{path} is not a result file of this version; move it elsewhere, or use another directory (--out)."
        )
    return result


def about() -> dict[str, Any]:
    """Commit, date, versions and hardware of what runs now."""
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "pidual": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "hardware": f"{processor() or platform.machine()}, {os.cpu_count()} cores, {cuda}",
    }


@cache
def processor() -> str:
    """Name of the processor, on which the last digits of a result depend; "" where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


@cache
def commit() -> str | None:
    """Commit of the checkout this package is part of, "-dirty" where files have been changed; None outside of one."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    except OSError:  # no git
        return None
    return found.stdout.strip() or None
