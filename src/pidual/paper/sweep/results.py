"""Write what a sweep has found: trials.csv, best.json, trials.svg."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from optuna.trial import FrozenTrial, TrialState

from ...files import replacing, write_json
from ...files.spreadsheet import write_csv
from ...run.records.reading import FORMAT
from ...show.report.figures import ALERT, CALM
from ..plots import panel, write_svg
from .space import Space, plain

Trials = Mapping[int, FrozenTrial]  # by point
STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
}


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found so far.

    Parameters
    ----------
    out : Path
        The directory.
    trials : pandas.DataFrame
        One row per trial: its options, what came of it, and its state: complete, pruned, failed or running.
    best : dict or None
        The contents of best.json; None where no trial is complete.
    """

    out: Path
    trials: pd.DataFrame
    best: dict[str, Any] | None


def write_results(
    out: Path,
    space: Space,
    fit_command: Sequence[str],
    n_valid: int,
    read: Callable[[], Trials],
    *,
    plot: bool = False,
) -> Sweep:
    """Write what there is; once more where another worker has added to it meanwhile, so that the newest stays.

    Parameters
    ----------
    out : Path
    space : Space
    fit_command : sequence of str
        As in `run_sweep`.
    n_valid : int
        Noisy validation rows.
    read : callable
        Gives point -> trial.
    plot : bool
        Whether to draw trials.svg.
    """
    while True:
        trials = read()
        best, frame = find_best(trials, space, fit_command, n_valid), make_frame(trials, space)
        with replacing(out / "trials.csv") as temporary:
            write_csv(frame, temporary)
        if best is not None:
            write_json(out / "best.json", best)
        if plot:
            draw_trials(out / "trials.svg", space, trials, best)
        if {point: trial.state for point, trial in read().items()} == {p: t.state for p, t in trials.items()}:
            return Sweep(out, frame, best)


def make_frame(trials: Trials, space: Space) -> pd.DataFrame:
    """Return one row per trial."""
    rows = [
        {"trial": trial.number, "state": STATES[trial.state]}
        | space.points[point]
        | {"valid_accuracy": trial.value if trial.state == TrialState.COMPLETE else None}
        | {name: trial.user_attrs.get(name) for name in ("valid_loss", "selected_epoch", "seconds", "error")}
        for point, trial in sorted(trials.items(), key=lambda pair: pair[1].number)
    ]
    columns = ["trial", "state", *space.search, "valid_accuracy", "valid_loss", "selected_epoch"]
    return pd.DataFrame(rows, columns=[*columns, "seconds", "error"]).astype({"selected_epoch": "Int64"})


def find_best(trials: Trials, space: Space, fit_command: Sequence[str], n_valid: int) -> dict[str, Any] | None:
    """Return the trial with the best accuracy on noisy validation rows; of equals that with the lowest loss there."""

    def merit(point: int) -> tuple[float, float, int]:
        loss = trials[point].user_attrs["valid_loss"]
        return trials[point].value or 0.0, -math.inf if loss is None else -loss, -point

    complete = [point for point, trial in trials.items() if trial.state == TrialState.COMPLETE]
    if not complete:
        return None
    point = max(complete, key=merit)
    trial = trials[point]
    settings = [word for name, value in space.points[point].items() for word in ("--set", f"{name}={plain(value)}")]
    return {
        "format": FORMAT,
        "method": space.fixed.method,
        "setting": space.fixed.setting,
        "seed": space.fixed.seed,
        "options": space.points[point],
        "valid_accuracy": trial.value,
        "valid_loss": trial.user_attrs["valid_loss"],
        "selected_epoch": trial.user_attrs["selected_epoch"],
        "n_valid": n_valid,
        "trial": trial.number,
        "n_trials": len(complete),
        "command": shlex.join([*fit_command, *settings]),
    }


def draw_trials(path: Path, space: Space, trials: Trials, best: Mapping[str, Any] | None) -> None:
    """Accuracy on noisy validation rows against each option that has several values."""
    shown = [name for name, values in space.search.items() if len(values) > 1] or list(space.search)[:1]
    complete = {point: trial for point, trial in trials.items() if trial.state == TrialState.COMPLETE}
    columns = min(3, len(shown))

    def draw(panels: Sequence[Any]) -> None:
        for axes, name in zip(panels, shown, strict=False):
            values = space.search[name]
            for point, trial in complete.items():
                chosen = best is not None and trial.number == best["trial"]
                place = space.texts[name].index(space.params[point][name]) + 0.3 * (
                    0.618 * point % 1 - 0.5
                )  # apart from others
                look: dict[str, Any] = {"color": ALERT if chosen else CALM, "zorder": 3 if chosen else 2}
                axes.plot(
                    place, 100 * (trial.value or 0.0), "D" if chosen else "o", markersize=5 if chosen else 3, **look
                )
            axes.set_xticks(range(len(values)), [plain(value) for value in values])
            axes.set_xlim(-0.5, len(values) - 0.5)
            panel(axes, name, y_label="noisy validation, %" if axes is panels[0] else "")
        for axes in panels[len(shown) :]:
            axes.set_axis_off()

    rows = math.ceil(len(shown) / columns)
    write_svg(path, draw, panels=(rows, columns), size=(3.2 * columns, 2.4 * rows))
