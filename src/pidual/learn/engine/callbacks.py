"""Code that runs within training: a callback is called with the trainer, and may look at all of it."""

from typing import TYPE_CHECKING

from .history import Record

if TYPE_CHECKING:
    from .fit import Trainer


class Callback:
    """Called by the training loop; override the methods you need.

    The trainer has, among others, `method` (the networks being trained; `method.f` is the one that predicts),
    `position` (attempt, epoch and step, counted from 0), `history` (the records of all epochs), `training` (options),
    `stage` (its name, where a fit is several trainings, such as a first stage), and `finish()`,
    which ends training after the epoch. On several processes every one of them calls its callbacks.

    Examples
    --------
    >>> from pidual import Callback
    >>> class StopAt(Callback):
    ...     def __init__(self, accuracy):
    ...         self.accuracy = accuracy
    ...
    ...     def on_epoch_end(self, trainer, record):
    ...         if record["valid_accuracy"] >= self.accuracy:
    ...             trainer.finish()
    """

    def on_train_begin(self, trainer: "Trainer") -> None:
        """Training, or a stage or group of it, begins or resumes."""

    def on_step(self, trainer: "Trainer") -> None:
        """The parameters were updated; `trainer.position` counts the step already."""

    def on_epoch_end(self, trainer: "Trainer", record: Record) -> None:
        """An epoch is done. Numbers added to `record` are kept in the history."""

    def on_note(self, trainer: "Trainer", text: str) -> None:
        """Something notable happened, such as a collapse found by the guard."""

    def on_train_end(self, trainer: "Trainer") -> None:
        """Training is over, whether it succeeded or not."""
