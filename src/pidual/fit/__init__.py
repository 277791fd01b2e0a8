"""The one job: an annotation table and inputs become a run directory, which `Run` opens again.

    options, prepare   table + inputs + options   -> Job          everything is checked here
    fit                Job                        -> Fitted       training
    predict            Job + Fitted               -> Answers      what the method says about annotations and items
    judge              Answers                    -> Results      what looks wrong and why; items, annotators, summary
    record             all of it                  -> files        what the directory holds
    lifecycle          who may write there, and how a new run replaces an old one; identity: whether it is the same run
    files, directory   the directory read again: `Run`; trained: its classifier

Names are loaded when they are first used: reading a run needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..api.fit import fit_table
    from ..api.run import Run
    from .fit import train
    from .judge import Results
    from .options import FitOptions
    from .prepare import Job

_HOMES = {
    "FitOptions": "options",
    "Job": "prepare",
    "Results": "judge",
    "Run": "directory",
    "fit_table": "fit_api",
    "train": "fit",
}

__all__ = ["FitOptions", "Job", "Results", "Run", "fit_table", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pidual.fit' has no attribute '{name}'")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
