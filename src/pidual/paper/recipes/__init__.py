"""Recipes: what `pidual benchmark` runs, one short module per dataset and scale.

A recipe says where a benchmark differs from the paper's setting (`pidual fit --setting paper`), for all methods and for
single ones. `load_recipe("cifar10n", "cpu")` is the RECIPE of cifar10n_cpu.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from ...data.datasets import DATASETS, find_entry
from ...errors import UsageError

SCALES = ("cpu", "paper")
WITHOUT = ("cifar100_sm500", "medical_treat", "llm_emotion")


@dataclass(frozen=True)
class Recipe:
    """How a dataset is benchmarked at a scale.

    Parameters
    ----------
    dataset : str
        Name of the dataset, with its variant behind a colon where there are any.
    scale : "cpu" or "paper"
    settings : mapping
        Options in which all methods differ from the paper's setting: of training by their name, `network`, and options
        of the network as `network.KEY`.
    methods : mapping
        Method -> settings in which it differs from the others, options of the method among them.
    n_train, n_test : int, optional
        Items that are drawn from the training and from the test set; all by default.
    valid_fraction : float
        Share of the items held out as noisy validation set.
    split_seed : int, optional
        Of these items, the same for all seeds (the paper's code base); by default every seed holds out others.
    pi_kinds : mapping
        Kinds of PI columns where they are not the dataset's own.
    other_network : mapping
        Settings of the network that the analysis of sizes compares with.
    widths : tuple of int
        Widths of the PI networks that the analysis of sizes compares.
    seeds : int
        How many seeds a benchmark has by default.
    dataset_options : mapping
        Options of the dataset's loader.
    """

    dataset: str
    scale: str
    settings: Mapping[str, Any]
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    n_train: int | None = None
    n_test: int | None = None
    valid_fraction: float = 0.1
    split_seed: int | None = None
    pi_kinds: Mapping[str, str] = field(default_factory=dict)
    other_network: Mapping[str, Any] = field(default_factory=dict)
    widths: tuple[int, ...] = (512, 1024, 2048, 4096)
    seeds: int = 5
    dataset_options: Mapping[str, Any] = field(default_factory=dict)

    def method_settings(self, method: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All settings of a fit with this method; those of the recipe's network are left out for another network."""
        settings, changes = {**self.settings, **self.methods.get(method, {})}, changes or {}
        if changes.get("network", settings.get("network")) != settings.get("network"):
            kept = ("network", "network.statistics")
            settings = {
                name: value for name, value in settings.items() if not name.startswith("network.") or name in kept
            }
        return {**settings, **changes}


def load_recipe(dataset: str, scale: str) -> Recipe:
    """The recipe of a dataset at a scale; a name without a variant stands for the dataset's first one."""
    _, variant = find_entry(dataset)
    if dataset.partition(":")[0] in WITHOUT:
        known = ", ".join(name for name in DATASETS if name not in WITHOUT)
        raise UsageError(f"There is no recipe for '{dataset}'; there are recipes for {known}.")
    if scale not in SCALES:
        raise UsageError(f"There is no scale '{scale}'; there are {' and '.join(SCALES)}.")
    name = dataset.partition(":")[0]
    recipe: Recipe = import_module(f".{name}_{scale}", __name__).RECIPE
    return replace(recipe, dataset=f"{name}:{variant}" if variant else name)


def describe_recipes() -> dict[str, dict[str, str]]:
    """Dataset -> scale -> what the recipe is, the first line of its module."""
    names = [name for name in DATASETS if name not in WITHOUT]
    modules = {name: {scale: import_module(f".{name}_{scale}", __name__) for scale in SCALES} for name in names}
    return {
        name: {scale: (module.__doc__ or "").partition("\n")[0] for scale, module in scales.items()}
        for name, scales in modules.items()
    }
