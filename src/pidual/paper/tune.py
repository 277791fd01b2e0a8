"""The paper's whole protocol: search the grid of a method on noisy validation rows, then fit seeds with what did best.

OUT/<scale>/<dataset>/tune/<method>/   the sweep of a method (`paper.sweep`), which any number of processes share
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.datasets.base import NoisyDataset
from ..errors import RunError
from ..learn.engine import Progress
from .recipes import Recipe, merge
from .runs import Fit, load_data, run_fits
from .score import Result, table_and_inputs
from .search import recipe_search
from .sweep import run_sweep


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
