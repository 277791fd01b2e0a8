"""The methods, by name. A new one is tested, listed and runnable the moment its line joins METHODS."""

from .afm import AFM
from .base import Method
from .ce import CE
from .cores import CORES
from .elr import ELR
from .het import HET
from .het_xl import HETXL
from .pi_dual import PiDual
from .pi_dual_plus import PiDualPlus
from .sop import SOP
from .tram import TRAM
from .tram_plus_plus import TRAMPlusPlus

METHODS: dict[str, type[Method]] = {
    "ce": CE,
    "elr": ELR,
    "sop": SOP,
    "cores": CORES,
    "het": HET,
    "het_xl": HETXL,
    "tram": TRAM,
    "tram_plus_plus": TRAMPlusPlus,
    "afm": AFM,
    "pi_dual": PiDual,
    "pi_dual_plus": PiDualPlus,
}

__all__ = [
    "AFM",
    "CE",
    "CORES",
    "ELR",
    "HET",
    "HETXL",
    "METHODS",
    "SOP",
    "TRAM",
    "Method",
    "PiDual",
    "PiDualPlus",
    "TRAMPlusPlus",
]
