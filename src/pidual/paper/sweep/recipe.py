"""A search on a dataset of the benchmarks: the settings that are not searched are those of its recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...data.datasets.base import NoisyDataset
from ...errors import UsageError
from ...fit.options import FitOptions
from ...learn.methods import METHODS, check_method
from ...options import signature
from ..grids import GRID_NAMES
from ..recipes import Recipe
from ..runs import Fit
from .space import choose_search


def recipe_search(
    recipe: Recipe,
    data: NoisyDataset,
    method: str,
    *,
    changes: Mapping[str, Any] | None = None,
    grid: str | None = None,
    own: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
) -> tuple[FitOptions, dict[str, Sequence[Any]]]:
    """What all fits of a search on a recipe's dataset have in common, and what is searched: arguments of `run_sweep`.

    Parameters
    ----------
    recipe : Recipe
    data : NoisyDataset
        The recipe's dataset.
    method : str
    changes : mapping, optional
        Settings in place of the recipe's; they are not searched.
    grid : str, optional
        One of GRID_NAMES; by default that of the dataset, or else "paper", where there are no values of one's own.
    own : mapping, optional
        Option -> values.
    seed : int
    """
    check_method(method)
    changes, own, base = changes or {}, own or {}, recipe.dataset.partition(":")[0]
    both = [name for name in own if name in changes]
    if both:
        raise UsageError(f"{both[0]} is given a value and searched as well; give one of the two.")
    options = {key: value for key, value in changes.items() if key != "network"}
    if "noise_rate" in signature(METHODS[method]):
        options = {"noise_rate": data.noise_rate, **options}  # known, and not searched
    fixed = FitOptions(method=method, options=options)
    search = choose_search(fixed, grid or (base if base in GRID_NAMES and not own else None), own)
    search = {name: values for name, values in search.items() if len(values) > 1 or name in own}  # one is the recipe's

    def rest(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name not in search}

    rest_of_method = {method: rest(recipe.methods.get(method, {}))}
    fit = Fit(replace(recipe, settings=rest(recipe.settings), methods=rest_of_method), method, seed, changes=changes)
    made = fit.options(data.noise_rate)
    return replace(made, options=rest(made.options), pi_kinds={**data.pi, **made.pi_kinds}), search
