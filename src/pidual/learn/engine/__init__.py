"""The engine: the only code that knows Fabric. It trains methods and applies them."""

from ...options import Training
from .callbacks import Callback, Progress
from .fit import Fitted, fit
from .session import Interrupted, Session, make_fabric, predicting_fabric, usual_precision

__all__ = [
    "Callback",
    "Fitted",
    "Interrupted",
    "Progress",
    "Session",
    "Training",
    "fit",
    "make_fabric",
    "predicting_fabric",
    "usual_precision",
]
