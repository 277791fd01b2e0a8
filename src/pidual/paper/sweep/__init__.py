"""Search for the options that do best on the noisy validation rows; any number of workers may share a sweep.

    run_sweep   table + inputs + options + search -> a directory with trials.csv, best.json and trials.svg

A trial is one fit at one point of the search space. Trials are kept in an Optuna study, in a SQLite file of the
directory or behind any URL Optuna takes. A killed worker's heartbeat ends; the worker that takes its point next
continues from the state it saved, where that can be seen.
"""

from ...errors import UsageError

try:
    import optuna  # noqa: F401 - an extra: say so once, here
except ImportError as error:
    raise UsageError(f"A sweep needs Optuna ({error}); install it with `pip install 'pidual[sweep]'`.") from error

from .recipe import recipe_search
from .results import Sweep
from .run import run_sweep
from .space import choose_search, plain

__all__ = ["Sweep", "choose_search", "plain", "recipe_search", "run_sweep"]
