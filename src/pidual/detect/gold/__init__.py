"""From items whose class is known (gold) to numbers that hold for all of them: calibrator, intervals, what to check."""

from .calibrator import LEAST_GOLD as LEAST_GOLD
from .calibrator import Calibrator as Calibrator
from .calibrator import Evidence as Evidence
from .calibrator import held_out as held_out
from .estimates import GoldFound as GoldFound
from .estimates import Interval as Interval
from .estimates import Known as Known
from .estimates import describe_estimates as describe_estimates
from .plan import choose_items as choose_items
from .plan import expected_half_widths as expected_half_widths
