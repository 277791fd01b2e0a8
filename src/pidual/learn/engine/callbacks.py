"""Code that runs within training: a callback is called with the trainer, and may look at all of it.

What happened is a list of dicts, one for each epoch, also one JSON line each in metrics.jsonl.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files import write_text
from ...run.records.reading import FORMAT

if TYPE_CHECKING:
    from .fit import Trainer

Record = dict[str, Any]  # of an epoch


def write_history(path: Path, history: Iterable[Record]) -> None:
    """Replace the file by these records."""
    write_text(path, "".join(line(record) for record in history))


def append_record(path: Path, record: Record) -> None:
    """Add one record at the end of the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line(record))


def line(record: Record) -> str:
    """Return a record as a line of JSON for `run.files.read_history`; what is not finite becomes null."""
    finite = {key: None if isinstance(value, float) and value - value != 0 else value for key, value in record.items()}
    return json.dumps({**finite, "format": FORMAT}) + "\n"


class Callback:
    """Code of yours that the training loop calls; override the methods you need.

    The trainer has, among others, `method` (the networks being trained; `method.f` is the one that predicts),
    `position` (attempt, epoch and step, counted from 0), `history` (the records of all epochs), `training` (options),
    `stage` (its name, where a fit is several trainings, such as a first stage), and `finish()`,
    which ends training after the epoch. On several processes every one of them calls its callbacks.

    See Also
    --------
    PiDualClassifier : Takes callbacks, as `fit_table` does.

    Notes
    -----
    The default has no training loop: a callback needs a method that trains a network.

    Examples
    --------
    >>> from pidual import Callback, PiDualClassifier, make_crowd
    >>> class StopAfter(Callback):
    ...     def on_epoch_end(self, trainer, record):
    ...         if record["epoch"] == 2:
    ...             trainer.finish()
    >>> crowd = make_crowd(100, answers_per_item=1)
    >>> y, pi = crowd.frame["label"], crowd.frame["annotator"]
    >>> model = PiDualClassifier(callbacks=[StopAfter()]).fit(crowd.x, y, pi)
    >>> [record["epoch"] for record in model.history_]
    [0, 1, 2]
    """

    def on_train_begin(self, trainer: "Trainer") -> None:
        """Run when training, or a stage of it, begins or resumes."""

    def on_step(self, trainer: "Trainer") -> None:
        """Run when the parameters were updated; `trainer.position` counts the step already."""

    def on_epoch_end(self, trainer: "Trainer", record: Record) -> None:
        """Run when an epoch is done. Numbers added to `record` are kept in the history."""

    def on_note(self, trainer: "Trainer", text: str) -> None:
        """Run when something notable happened, such as a collapse found by the guard."""

    def on_train_end(self, trainer: "Trainer") -> None:
        """Run when training is over, whether it succeeded or not."""


class Progress(Callback):
    """Shows how far a fit is; this one shows nothing, and the command line draws."""

    def heading(self, text: str) -> None:
        """Say that a fit begins, which of several it is, or by which method; or that it collapsed and begins again."""

    def note(self, text: str) -> None:
        """Say something worth knowing."""

    def start(self, epochs: int, steps: int, done: int, stage: str = "") -> None:
        """Begin: `epochs` epochs of `steps` steps, of which `done` are behind us."""

    def step(self, epoch: int, step: int) -> None:
        """Show that so many steps of an epoch are done."""

    def epoch(self, record: Record) -> None:
        """Show an epoch that is done."""

    def stop(self) -> None:
        """Stop showing anything."""

    def on_train_begin(self, trainer: "Trainer") -> None:
        """Begin at the trainer's position."""
        at, steps = trainer.position, trainer.batches.steps
        self.start(trainer.training.epochs, steps, at.epoch * steps + min(at.step, steps), trainer.stage)

    def on_step(self, trainer: "Trainer") -> None:
        """Show a step; a phase with more or fewer counts in parts of an epoch's."""
        at = trainer.position
        self.step(at.epoch, at.step * trainer.batches.steps // trainer.epoch_steps)

    def on_epoch_end(self, trainer: "Trainer", record: Record) -> None:
        """Show an epoch."""
        self.epoch(record)

    def on_note(self, trainer: "Trainer", text: str) -> None:
        """Say what happened."""
        self.heading(text)

    def on_train_end(self, trainer: "Trainer") -> None:
        """Stop showing anything."""
        self.stop()
