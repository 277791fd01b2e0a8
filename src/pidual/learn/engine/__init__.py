"""The engine: the only code that knows Fabric. It trains methods and applies them."""

from ...options import Training as Training
from .callbacks import Callback as Callback
from .callbacks import Progress as Progress
from .fit import Fitted as Fitted
from .fit import fit as fit
from .session import Interrupted as Interrupted
from .session import Session as Session
from .session import make_fabric as make_fabric
from .session import predicting_fabric as predicting_fabric
from .session import usual_precision as usual_precision
