"""Learn from labels you cannot fully trust, using what you know about how each label was made.

    annotation table + inputs  ->  a classifier that did not learn the mistakes,
                                   a ranked list of the labels that look wrong, with the reason for each,
                                   and what that says about each annotator

Names that need torch are loaded when they are first used, so that `import pidual` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.classifier import CrowdClassifier, PiDualClassifier
    from .api.cleanlab import find_label_issues
    from .api.fit import fit_table
    from .api.judge import judge
    from .api.loss import PiDualLoss
    from .api.pairs import judge_pairs
    from .api.run import Run
    from .data import AnnotationTable, Inputs, load_inputs, read_table
    from .data.datasets import load_dataset
    from .data.datasets.synthetic import make_crowd
    from .detect.totals import merge
    from .errors import DataError, DataWarning, DivergedError, PidualError, RunError, TooManyIssues, UsageError
    from .fit.options import FitOptions
    from .learn.engine import Callback, Interrupted
    from .learn.methods import METHODS, LatentTruth, Method, PiDual
    from .run.predictions import Predictions

_HOMES = {
    "AnnotationTable": "data",
    "Callback": "learn.engine",
    "CrowdClassifier": "api.classifier",
    "DataError": "errors",
    "DataWarning": "errors",
    "DivergedError": "errors",
    "FitOptions": "fit.options",
    "Inputs": "data",
    "Interrupted": "learn.engine",
    "LatentTruth": "learn.methods",
    "METHODS": "learn.methods",
    "Method": "learn.methods",
    "PiDual": "learn.methods",
    "PiDualClassifier": "api.classifier",
    "PiDualLoss": "api.loss",
    "PidualError": "errors",
    "Predictions": "run.predictions",
    "Run": "api.run",
    "RunError": "errors",
    "TooManyIssues": "errors",
    "UsageError": "errors",
    "find_label_issues": "api.cleanlab",
    "fit_table": "api.fit",
    "judge": "api.judge",
    "judge_pairs": "api.pairs",
    "load_dataset": "data.datasets",
    "load_inputs": "data",
    "make_crowd": "data.datasets.synthetic",
    "merge": "detect.totals",
    "read_table": "data",
}

__all__ = [
    "METHODS",
    "AnnotationTable",
    "Callback",
    "CrowdClassifier",
    "DataError",
    "DataWarning",
    "DivergedError",
    "FitOptions",
    "Inputs",
    "Interrupted",
    "LatentTruth",
    "Method",
    "PiDual",
    "PiDualClassifier",
    "PiDualLoss",
    "PidualError",
    "Predictions",
    "Run",
    "RunError",
    "TooManyIssues",
    "UsageError",
    "find_label_issues",
    "fit_table",
    "judge",
    "judge_pairs",
    "load_dataset",
    "load_inputs",
    "make_crowd",
    "merge",
    "read_table",
]

__version__ = "0.3.0"  # the only place that has it: pyproject.toml and the command line read it from here


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pidual' has no attribute '{name}'")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
