"""The methods, by name. A new one has its place in METHODS here, and its name in METHOD_NAMES of `cli/names.py`."""

from ...errors import UsageError
from ...errors.messages import no_method
from .afm import AFM
from .base import Method
from .ce import CE
from .co_teaching import CoTeaching
from .cores import CORES
from .cores_star import CORESStar
from .distill_pi import DistillPI
from .divide_mix import DivideMix
from .elr import ELR
from .elr_plus import ELRPlus
from .forward_t import ForwardT
from .het import HET
from .het_xl import HETXL
from .latent_truth import LatentTruth
from .pes import PES
from .pes_semi import PESSemi
from .pi_dual import PiDual
from .pi_dual_plus import PiDualPlus
from .sop import SOP
from .sop_plus import SOPPlus
from .tram import TRAM
from .tram_plus_plus import TRAMPlusPlus

METHODS: dict[str, type[Method]] = {  # by the names of their files
    method.__module__.rpartition(".")[2]: method
    for method in (
        *(CE, ForwardT, CoTeaching, DivideMix, ELR, ELRPlus, SOP, SOPPlus, CORES, CORESStar, PES, PESSemi),
        *(HET, HETXL, TRAM, TRAMPlusPlus, AFM, DistillPI, PiDual, PiDualPlus, LatentTruth),
    )
}
"""Every method by its name, as `--method`, `FitOptions` and `PiDualClassifier` take it; `pidual methods` lists them.

See Also
--------
Method : What each of them is, and how to write one.

Examples
--------
>>> from pidual import METHODS
>>> METHODS["elr"].reference
'Liu et al., NeurIPS 2020, arXiv 2007.00151'
>>> [name for name, method in METHODS.items() if method.networks > 1]
['co_teaching', 'divide_mix', 'elr_plus', 'latent_truth']
"""


def check_method(name: str, *groups: str) -> None:
    """Refuse a name that no method has; `groups` are further names that were allowed."""
    if name not in METHODS:
        raise UsageError(no_method(name, METHODS, groups))


__all__ = ["METHODS", "LatentTruth", "Method", "PiDual", "PiDualPlus", "check_method"]
