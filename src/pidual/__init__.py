"""Learn from labels you cannot fully trust, using what you know about how each label was made.

    annotation table + inputs  ->  a classifier that did not learn the mistakes,
                                   a ranked list of the labels that look wrong, with the reason for each,
                                   and what that says about each annotator

Names that need torch are loaded when they are first used, so that `import pidual` stays light.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import PI, Batch, Rows, Spec
    from .data import AnnotationTable, Inputs, load_inputs, read_table
    from .encode import PIEncoder
    from .engine import Callback, Fitted, Training
    from .errors import DataError, DataWarning, PidualError, RunError, UsageError
    from .estimator import PiDualClassifier
    from .methods import METHODS, Method, PiDual
    from .run import FitOptions, Run, fit_table
    from .run.without_x import judge

_HOMES = {
    "AnnotationTable": "data",
    "Batch": "batch",
    "Callback": "engine",
    "DataError": "errors",
    "DataWarning": "errors",
    "FitOptions": "run",
    "Fitted": "engine",
    "Inputs": "data",
    "METHODS": "methods",
    "Method": "methods",
    "PI": "batch",
    "PIEncoder": "encode",
    "PiDual": "methods",
    "PiDualClassifier": "estimator",
    "PidualError": "errors",
    "Rows": "batch",
    "Run": "run",
    "RunError": "errors",
    "Spec": "batch",
    "Training": "engine",
    "UsageError": "errors",
    "fit_table": "run",
    "judge": "run.without_x",
    "load_inputs": "data",
    "read_table": "data",
}

__all__ = [
    "METHODS",
    "PI",
    "AnnotationTable",
    "Batch",
    "Callback",
    "DataError",
    "DataWarning",
    "FitOptions",
    "Fitted",
    "Inputs",
    "Method",
    "PIEncoder",
    "PiDual",
    "PiDualClassifier",
    "PidualError",
    "Rows",
    "Run",
    "RunError",
    "Spec",
    "Training",
    "UsageError",
    "fit_table",
    "judge",
    "load_inputs",
    "read_table",
]

try:
    __version__ = version("pidual")
except PackageNotFoundError:  # running from a source tree that was not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pidual' has no attribute '{name}'")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
