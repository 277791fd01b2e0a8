"""How training is stopped."""

from ...errors import PidualError


class Interrupted(PidualError):  # noqa: N818 - a request that was met, not a fault
    """Training was asked to stop; its state is saved where there is a place to save it."""

    exit_code = 130
