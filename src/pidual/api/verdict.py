"""Warn whoever calls from Python about a result that should not be used, or not alone."""

import warnings

from ..errors import VerdictWarning
from ..run.records.summary import Verdict

WORDS = {"failed": "do not use {}", "doubtful": "do not rely on {} alone"}


def warn_of_verdict(found: Verdict, what: str = "this result", *, stacklevel: int = 3) -> None:
    """Warn once, with all reasons, unless the verdict is ok; `what` it is about."""
    if found.status in WORDS:
        text = f"The verdict is {found.status}: {WORDS[found.status].format(what)}. {' '.join(found.reasons)}"
        warnings.warn(text, VerdictWarning, stacklevel=stacklevel)


def status_shown(status: str) -> str:
    """Return what a repr adds about a verdict: nothing where it is ok."""
    return "" if status == "ok" else f", {status}"
