"""The engine: the only code that knows Fabric. It trains methods and applies them."""

from .fit import Fitted, Interrupted, fit, make_fabric
from .training import Training

__all__ = ["Fitted", "Interrupted", "Training", "fit", "make_fabric"]
