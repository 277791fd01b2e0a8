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
    """Base of all errors pidual raises on purpose; the message is for the user.

    Attributes
    ----------
    exit_code : int
        What the command line ends with.

    Examples
    --------
    >>> from pidual import PidualError, Run
    >>> try:
    ...     run = Run.open("runs/yesterday")
    ... except PidualError as error:
    ...     print(f"{type(error).__name__}, exit code {error.exit_code}")
    RunError, exit code 1
    """

    exit_code = 1


class UsageError(PidualError, ValueError):
    """The call is wrong: an unknown option or column, or an impossible value.

    Examples
    --------
    >>> from pidual import PiDualClassifier, UsageError, make_crowd
    >>> crowd = make_crowd(60, answers_per_item=1)
    >>> try:
    ...     PiDualClassifier("erl").fit(crowd.x, crowd.frame["label"])
    ... except UsageError as error:
    ...     print(error)
    There is no method 'erl', did you mean 'elr'? Use one of ce, ...
    """

    exit_code = 2


class DataError(PidualError, ValueError):
    """A table or an input cannot be used.

    Examples
    --------
    >>> from pidual import AnnotationTable, DataError, make_crowd
    >>> frame = make_crowd(60).frame.assign(item="photo of ann@example.org")
    >>> try:
    ...     AnnotationTable.from_frame(frame)
    ... except DataError as error:
    ...     print(error)
    table, row 0 (counted from 0), column 'item': the item has an e-mail address in it; ...
    """


class RunError(PidualError):
    """A run directory cannot be read, written or continued.

    Examples
    --------
    >>> from pidual import Run, RunError
    >>> try:
    ...     run = Run.open("runs/yesterday")
    ... except RunError as error:
    ...     print(error)
    runs/yesterday is not a run directory: it has no config.json. Make one with `pidual fit`.
    """


class DivergedError(PidualError):
    """Training diverged: the network outputs NaN or infinity.

    Examples
    --------
    >>> from pidual import DivergedError, PiDualClassifier, make_crowd
    >>> crowd = make_crowd(60, answers_per_item=1)
    >>> y, pi = crowd.frame["label"], crowd.frame["annotator"]
    >>> try:
    ...     PiDualClassifier(lr=1e30, epochs=2).fit(crowd.x, y, pi)
    ... except DivergedError:
    ...     print("try a smaller lr")
    try a smaller lr
    """


class TooManyIssues(PidualError):  # noqa: N818 - an outcome asked for, not a fault
    """More label issues were found than the caller allows.

    `--fail-over` of `pidual detect`, `judge` and `pairs` raises it, and they end with exit code 3.

    Examples
    --------
    The same in a job of your own:

    >>> from pidual import TooManyIssues, judge, make_crowd
    >>> judged = judge(make_crowd(60, noise=0.3).frame)
    >>> def check(judged, allowed):
    ...     if judged.summary.noise.rate > allowed:
    ...         raise TooManyIssues(f"more than {allowed:.0%} of the labels are wrong")
    >>> check(judged, 0.05)
    Traceback (most recent call last):
    pidual.errors.TooManyIssues: more than 5% of the labels are wrong
    """

    exit_code = 3


class DataWarning(UserWarning):
    """Data that can be used, but perhaps not in the way the user meant.

    Examples
    --------
    A job that nobody watches may treat it as an error:

    >>> import warnings
    >>> from pidual import AnnotationTable, DataWarning, make_crowd
    >>> names = {0: "cat", 1: "Cat", 2: "dog", 3: "owl"}
    >>> frame = make_crowd(60).frame
    >>> frame["label"] = frame["label"].map(names)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DataWarning)
    ...     AnnotationTable.from_frame(frame)
    Traceback (most recent call last):
    pidual.errors.DataWarning: table, column 'label': ...
    """


class VerdictWarning(DataWarning):
    """A verdict that is failed or doubtful, with its reasons."""


class KeyNotice(UserWarning):
    """A secret key was made, and where it is."""
