"""The engine: the only code that knows Fabric. It trains methods and applies them."""

from ..training import Training
from .fit import Fitted, Interrupted, fit, make_fabric, predicting_fabric

__all__ = ["Fitted", "Interrupted", "Training", "fit", "make_fabric", "predicting_fabric"]
