"""The one job as a call: an annotation table and inputs become a run."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs
from ..fit.fit import fit_into
from ..fit.options import FitOptions, Provenance
from ..learn.engine import Callback, Progress
from ..show.report import build_report
from .run import Run


def fit_table(
    table: AnnotationTable,
    inputs: Inputs,
    out: str | Path,
    options: FitOptions | None = None,
    *,
    truth: NDArray[np.int64] | None = None,
    from_run: Run | str | Path | None = None,
    provenance: Provenance | None = None,
    force: bool = False,
    resume: bool = False,
    save_every: float = 15.0,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Fit, judge the labels and write a report, into a run directory.

    Parameters
    ----------
    table : AnnotationTable
    inputs : Inputs
    out : path
        The run directory; created after everything has been checked.
    options : FitOptions
    truth : int array (N,), optional
        Code of the class of each annotation's item where it is known, else -1, as `read_truth` reads it; for the method
        latent_truth.
    from_run : Run or path, optional
        A run of the same data: classes that its reviewers decided on are known, the answer model begins with its
        weights, and options are by default its own. See `fit.refit`.
    provenance : Provenance, optional
        Where table and inputs came from, for the record; see `pidual.fit.options.Provenance`.
    force : bool
        Replace an existing run when the new one is complete; files that pidual did not write stay.
    resume : bool
        Continue an existing run; its data and options must be the same. A finished one is not changed.
    save_every : float
        Seconds between two resume points within an epoch.
    progress : Progress, optional
        Called at every step and epoch.
    callbacks : sequence of Callback
        Called with the trainer at every step and epoch.
    stop : callable
        Asked at every step; True saves the state and raises Interrupted.
    """
    made = fit_into(
        table,
        inputs,
        Path(out),
        options,
        truth=truth,
        before=None if from_run is None else Run.open(from_run),
        provenance=provenance or Provenance(),
        force=force,
        resume=resume,
        save_every=save_every,
        progress=progress or Progress(),
        callbacks=callbacks,
        stop=stop,
        write_report=build_report,
    )
    return Run.holding(made.path, **made.known)
