"""Options: their kinds and ranges (`checks`), those of training (`training`), what a launcher has set (`launcher`)."""

from .checks import KINDS as KINDS
from .checks import Count as Count
from .checks import NotNegative as NotNegative
from .checks import Positive as Positive
from .checks import Range as Range
from .checks import Share as Share
from .checks import ShareAboveZero as ShareAboveZero
from .checks import ShareBelowOne as ShareBelowOne
from .checks import Span as Span
from .checks import at_least as at_least
from .checks import check_options as check_options
from .checks import check_value as check_value
from .checks import check_values as check_values
from .checks import defaults as defaults
from .checks import one_of as one_of
from .checks import signature as signature
from .training import Training as Training
from .training import option_names as option_names
