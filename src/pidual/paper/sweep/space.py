"""The search space of a sweep: options, their values, and all combinations as numbered points."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs
from optuna.distributions import BaseDistribution, CategoricalDistribution

from ...errors import UsageError
from ...fit.factories import check_build, method_maker, network_maker
from ...fit.options import FitOptions, resolve_options
from ...fit.prepare import Job
from ..grids import paper_grid, points


def choose_search(
    options: FitOptions, grid: str | None = None, own: Mapping[str, Sequence[Any]] | None = None
) -> dict[str, Sequence[Any]]:
    """The search space a user asks for: a grid of the paper, own values, or the first with values from the second.

    Parameters
    ----------
    options : FitOptions
        What is fixed here is not searched.
    grid : str, optional
        One of GRID_NAMES; "paper" where no values are given.
    own : mapping, optional
        Option -> values.
    """
    check_named(options)
    own = own or {}
    base = {} if own and grid is None else paper_grid(options.method, grid or "paper")
    fixed = fixed_names(options)
    return {name: values for name, values in base.items() if name not in fixed} | dict(own)


def check_named(options: FitOptions) -> None:
    """Refuse to search the options of no method in particular."""
    if options.method == "auto":
        raise UsageError("A sweep searches the options of one method; name it, such as --method pi_dual.")


def fixed_names(options: FitOptions) -> set[str]:
    """Options that have a value already."""
    return set(options.options)


class Space:
    """The points of a search space, by number.

    Parameters
    ----------
    search : mapping
        Option -> values.
    fixed : FitOptions
        What all points have in common.
    """

    def __init__(self, search: Mapping[str, Sequence[Any]], fixed: FitOptions):
        check_named(fixed)
        texts = {name: list(dict.fromkeys(json.dumps(value) for value in values)) for name, values in search.items()}
        if not texts:
            raise UsageError("There is nothing to search; name options and values with --search.")
        for name, values in texts.items():
            if not values:
                raise UsageError(f"There are no values of {name} to try; give some.")
            if name in fixed_names(fixed):
                raise UsageError(f"{name} is given a value and searched as well; give one of the two.")
        self.fixed = fixed
        self.search = {name: [json.loads(text) for text in values] for name, values in texts.items()}
        self.points = points(self.search)
        self.texts = texts  # Optuna keeps values as JSON: any value, and 1 is neither true nor 1.0
        self.params = points(texts)
        self.distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in texts.items()
        }

    def __len__(self) -> int:
        return len(self.points)

    def options(self, number: int) -> FitOptions:
        """Options of the fit at a point."""
        return replace(self.fixed, options={**self.fixed.options, **self.points[number]})

    def describe(self, number: int) -> str:
        """A point in words."""
        return ", ".join(f"{name}={plain(value)}" for name, value in self.points[number].items())

    def check(self, job: Job) -> None:
        """Refuse impossible values, each of them beside the first values of the other options."""
        for name, texts in self.texts.items():
            for text in texts[1:]:
                options = self.options(self.params.index(self.params[0] | {name: text}))
                training, method, network = resolve_options(options, job.spec.n_train, job.network.in_shape)
                make = network_maker(structs.replace(job.network, options=network), job.spec.n_classes, None)
                spec = replace(job.spec, epochs=training.epochs)
                check_build(method_maker(options.method, method, spec, make))


def plain(value: Any) -> str:
    """A value as `--set KEY=VALUE` reads it back."""
    if isinstance(value, str) and value.lower() != "none":
        try:
            json.loads(value)
        except json.JSONDecodeError:
            return value
    return json.dumps(value)
