"""What a run has of its epochs: a line of metrics.jsonl for each, and the resume point between them."""

from typing import Any

import msgspec
from msgspec import field

from .reading import FORMAT, Count, Label, Options, Record, Seconds


class Event(Record, frozen=True):
    """What the guard saw after an epoch, and what it did."""

    epoch: Count
    attempt: Count
    reason: str
    action: str


class Epoch(Record, frozen=True):
    """One line per epoch, each an object. Methods and callbacks may add numbers of their own.

    Parameters
    ----------
    epoch : int
        counted from 0
    attempt : int
        counted from 0; the guard starts a new one
    seconds : float
        time of the epoch
    stage : str
        name of the stage, if a fit has several
    lr : float
        learning rate
    loss : float
        mean training loss
    valid_accuracy : float
        agreement with noisy held-out labels
    valid_loss : float
        loss on these
    format : int
        number of the file format
    """

    epoch: Count
    attempt: Count
    seconds: Seconds
    stage: str = ""
    lr: float | None = None
    loss: float | None = None
    valid_accuracy: float | None = None
    valid_loss: float | None = None
    format: int = FORMAT


class Position(msgspec.Struct):
    """Where training stands: all that its state holds beside tensors.

    `best` is the merit of the best epoch so far, and `ended` says that a callback ended training before its last epoch.
    """

    attempt: Count = 0
    epoch: Count = 0
    step: Count = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: Seconds = 0.0
    best: tuple[float, float] | None = None
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ended: bool = False


class State(Record, frozen=True):
    """The resume point, beside its tensors."""

    format: int
    position: Position
    optimizer: Options
    memories: dict[str, str]
    memory_digests: dict[str, str]
    run_id: str


class TableNotes(Record, frozen=True):
    """What a Parquet file of ours says about itself.

    `categories` has the classes of each column of labels, and `pi_columns` the names of the columns of PI.
    """

    format: int
    categories: dict[str, list[Label]]
    pi_columns: list[str]
    has_input: bool = True
