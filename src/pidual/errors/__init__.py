"""Every exception pidual raises on purpose.

    PidualError                 something went wrong; exit code 1
    ├── UsageError              the call itself is wrong: an unknown column or option; exit code 2
    ├── DataError               a table or an input cannot be used; the message names file, row, column and value
    ├── RunError                a run directory cannot be used (exists, is unreadable, belongs to other data)
    ├── DivergedError           training diverged: the model outputs NaN or infinity
    └── TooManyIssues           `pidual detect --fail-over` was exceeded; exit code 3

A message is one sentence a user can act on: what is wrong, where, and the way out.
"""


class PidualError(Exception):
    """Base of all errors pidual raises on purpose; the message is for the user."""

    exit_code = 1


class UsageError(PidualError, ValueError):
    """The call is wrong: an unknown option or column, or an impossible value."""

    exit_code = 2


class DataError(PidualError, ValueError):
    """A table or an input cannot be used."""


class RunError(PidualError):
    """A run directory cannot be read, written or continued."""


class DivergedError(PidualError):
    """Training diverged: the network outputs NaN or infinity."""


class TooManyIssues(PidualError):  # noqa: N818 - an outcome asked for, not a fault
    """More label issues were found than the caller allows."""

    exit_code = 3


class DataWarning(UserWarning):
    """Data that can be used, but perhaps not in the way the user meant."""


class VerdictWarning(DataWarning):
    """A verdict that is failed or doubtful, with its reasons."""


class KeyNotice(UserWarning):
    """A secret key was made, and where it is."""
