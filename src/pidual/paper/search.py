"""The search space of a sweep: options, their values, and all combinations as points."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from ..data.datasets.base import NoisyDataset
from ..errors import UsageError
from ..fit.factories import check_build, method_maker, network_maker
from ..fit.options import FitOptions, resolve_options
from ..fit.prepare import Job
from ..learn.methods import METHODS, check_method
from ..options import signature
from .published import GRID_NAMES, paper_grid, points
from .recipes import Recipe
from .runs import Fit

Search = Mapping[str, Sequence[Any]]  # option of training, of the method or of the network (`network.KEY`) -> values


def choose_search(options: FitOptions, grid: str | None = None, own: Search | None = None) -> dict[str, Sequence[Any]]:
    """Choose what is searched: a grid of the paper, own values, or the first with values from the second.

    `options`: what is fixed here is not searched.
    `grid`: one of GRID_NAMES; "paper" if there are no own values.
    `own`: option -> values.
    """
    _check_named(options)
    base = {} if own and grid is None else paper_grid(options.method, grid or "paper")
    return {name: values for name, values in base.items() if name not in options.options} | dict(own or {})


def recipe_search(
    recipe: Recipe,
    data: NoisyDataset,
    method: str,
    *,
    changes: Mapping[str, Any] | None = None,
    grid: str | None = None,
    own: Search | None = None,
    seed: int = 0,
) -> tuple[FitOptions, dict[str, Sequence[Any]]]:
    """Choose what is searched on a recipe's dataset; return the options of all fits and the search of `run_sweep`.

    `data`: the recipe's dataset.
    `changes`: settings that replace the recipe's; they are not searched.
    `grid`: one of GRID_NAMES; by default that of the dataset, or "paper" if there are no own values.
    `own`: option -> values.
    """
    check_method(method)
    changes, base = changes or {}, recipe.dataset.partition(":")[0]
    fixed = {name: value for name, value in changes.items() if name != "network"}
    if "noise_rate" in signature(METHODS[method]):
        fixed = {"noise_rate": data.noise_rate, **fixed}  # known, and not searched
    grid = grid or (base if base in GRID_NAMES and not own else None)
    search = choose_search(FitOptions(method=method, options=fixed), grid, own)
    search = {name: values for name, values in search.items() if len(values) > 1 or name in (own or {})}
    made = Fit(recipe, method, seed, changes=changes).options(data.noise_rate)
    given = [name for name in search if name in changes]
    if given:
        raise UsageError(f"{given[0]} is given a value and searched as well; give one of the two.")
    rest = {name: value for name, value in made.options.items() if name not in search}
    return replace(made, options=rest, pi_kinds={**data.pi, **made.pi_kinds}), search


def _check_named(options: FitOptions) -> None:
    """Refuse to search the options of no method in particular."""
    if options.method == "auto":
        raise UsageError("A sweep searches the options of one method; name it, such as --method pi_dual.")


class Space:
    """All points of a search; `params` has their values as JSON, for Optuna: any value, and 1 is not true nor 1.0."""

    def __init__(self, search: Search, fixed: FitOptions):
        _check_named(fixed)
        self.texts = {name: list(dict.fromkeys(map(json.dumps, values))) for name, values in search.items()}
        if not self.texts:
            raise UsageError("There is nothing to search; name options and values with --search.")
        for name, values in self.texts.items():
            if not values:
                raise UsageError(f"There are no values of {name} to try; give some.")
            if name in fixed.options:
                raise UsageError(f"{name} is given a value and searched as well; give one of the two.")
        self.fixed, self.params = fixed, points(self.texts)
        self.points = [{name: json.loads(text) for name, text in point.items()} for point in self.params]

    def options(self, number: int) -> FitOptions:
        """Return the options of the fit at a point."""
        return replace(self.fixed, options={**self.fixed.options, **self.points[number]})

    def check(self, job: Job) -> None:
        """Refuse impossible values, each beside the first values of the other options; `job` is of the first point."""
        for name, texts in self.texts.items():
            for text in texts[1:]:
                options = self.options(self.params.index(self.params[0] | {name: text}))
                training, method, network = resolve_options(options, job.spec.n_train, job.network.in_shape)
                make = network_maker(structs.replace(job.network, options=network), job.spec.n_classes, None)
                spec = replace(job.spec, epochs=training.epochs)
                check_build(method_maker(options.method, method, spec, make))


def plain(value: Any) -> str:
    """Write a value as `--set KEY=VALUE` reads it."""
    if isinstance(value, str) and value.lower() != "none":
        try:
            json.loads(value)
        except json.JSONDecodeError:
            return value
    return json.dumps(value)
