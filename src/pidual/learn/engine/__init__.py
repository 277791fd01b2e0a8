"""The engine: the only code that knows Fabric. It trains methods and applies them."""

from ...options import Training
from .callbacks import Callback
from .fit import Fitted, fit, make_fabric, predicting_fabric
from .stopping import Interrupted

__all__ = ["Callback", "Fitted", "Interrupted", "Training", "fit", "make_fabric", "predicting_fabric"]
